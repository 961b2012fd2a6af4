"""Teachers' records are disjoint, spread evenly, and stay where they are whatever happens to the others."""

import numpy as np
import pytest
from scipy import stats

from sfumato.errors import InputError
from sfumato.pate._teachers import assign, check_records, parts, train_each

IDS = np.arange(20_000)


def test_every_teacher_has_its_own_part():
    """Known fault elsewhere: every teacher was given the first part."""
    teachers = assign(IDS, 50)
    parts = [np.flatnonzero(teachers == teacher) for teacher in range(50)]
    assert len(np.unique(np.concatenate(parts))) == sum(map(len, parts)) == len(IDS)
    assert len({part.tobytes() for part in parts}) == 50
    assert stats.chisquare([len(part) for part in parts]).pvalue > 1e-3


def test_other_records_do_not_decide():
    teachers = assign(IDS, 50)
    kept = np.delete(IDS, 7)
    assert (assign(kept, 50) == np.delete(teachers, 7)).all()
    order = np.random.default_rng(0).permutation(len(IDS))
    assert (assign(IDS[order], 50) == teachers[order]).all()


def test_a_partition_by_position_is_told_apart():
    def by_position(ids, num_teachers):
        return np.arange(len(ids)) % num_teachers

    kept = np.delete(IDS, 7)
    assert (by_position(kept, 50) != np.delete(by_position(IDS, 50), 7)).any()


def test_seeds_give_independent_partitions():
    first, second = assign(IDS, 10, seed=0), assign(IDS, 10, seed=1)
    assert abs((first == second).mean() - 0.1) < 0.01
    assert stats.chi2_contingency(np.histogram2d(first, second, bins=10)[0]).pvalue > 1e-3


def test_ids_may_be_words_or_numbers():
    assert (assign([str(i) for i in range(100)], 7) == assign(np.arange(100), 7)).all()
    assert (assign(list(np.arange(100)), 7) == assign(np.arange(100), 7)).all()
    assert assign([], 7).shape == (0,)
    assert assign(["a"], 1).tolist() == [0]


@pytest.mark.parametrize(
    ("ids", "num_teachers", "fragment"),
    [
        (["a", "b", "a"], 3, "'a'"),
        ([1, "1"], 3, "'1'"),
        ([1.5], 3, "1.5"),
        ([True], 3, "True"),
        ([[1]], 3, "[1]"),
        ([np.bool_(True)], 3, "True"),
        (["a"], 0, "num_teachers"),
    ],
)
def test_wrong_ids_are_named(ids, num_teachers, fragment):
    with pytest.raises(InputError) as error:
        assign(ids, num_teachers)
    assert fragment in str(error.value)


def test_parts_are_the_assignment_in_the_order_of_ids():
    teachers = assign(IDS, 50)
    own = parts(IDS, 50)
    assert all(sorted(part.tolist()) == np.flatnonzero(teachers == t).tolist() for t, part in enumerate(own))
    order = np.random.default_rng(0).permutation(len(IDS))
    assert all((IDS[order][b] == IDS[a]).all() for a, b in zip(own, parts(IDS[order], 50), strict=True))
    assert [len(part) for part in parts([], 3)] == [0, 0, 0]


class Counter:
    """Votes for the class that is most frequent among rows on the query's side of one half."""

    def fit(self, x, y):
        high = x[:, 0] > 0.5
        self.sides = [np.bincount(y[high == side], minlength=3).argmax() for side in (False, True)]
        self.rows = x

    def predict(self, x):
        return np.where(x[:, 0] > 0.5, self.sides[1], self.sides[0])


def records(rows=60):
    generator = np.random.default_rng(0)
    return generator.random((rows, 2)), generator.integers(0, 3, rows), np.arange(rows)


def train(x, y, ids, make_model=lambda teacher: Counter()):
    return train_each(make_model, x, y, ids, num_teachers=6, num_classes=3)


def test_one_record_moves_one_vote_a_query():
    (x, y, ids), queries = records(), np.random.default_rng(1).random((20, 2))
    votes, moved = train(x, y, ids).votes(queries), 0
    for row in ids:
        replaced = np.where(ids == row, (y + 1) % 3, y)
        for other in (train(np.delete(x, row, 0), np.delete(y, row), np.delete(ids, row)), train(x, replaced, ids)):
            difference = other.votes(queries) - votes
            assert np.square(difference).sum(axis=1).max() <= 2
            moved += np.abs(difference).sum()
    assert moved > 0


def test_teachers_see_their_own_records_only():
    x, y, ids = records()
    seen = [model.rows for model in train(x, y, ids).models]
    assert all((rows == x[part]).all() for rows, part in zip(seen, parts(ids, 6), strict=True))
    assert sum(map(len, seen)) == len(ids)


def test_scikit_learn_models_and_few_classes():
    from sklearn.linear_model import LogisticRegression
    from sklearn.tree import DecisionTreeClassifier

    x, _, ids = records()
    y = 2 * (x[:, 0] > 0.5)
    for model in (LogisticRegression, DecisionTreeClassifier):
        votes = train(x, y, ids, lambda teacher, model=model: model(random_state=teacher)).votes(x)
        assert (votes.argmax(axis=1) == y).mean() >= 0.85
    one_class = train(x, 0 * y + 1, ids, lambda teacher: LogisticRegression())
    assert one_class.votes(x).tolist() == [[0, 6, 0]] * len(x)


def test_teachers_without_records_vote_as_well():
    x, y, ids = records(1)
    votes = train(x, y, ids).predict(x)[:, 0]
    expected = np.arange(6) % 3
    expected[assign(ids, 6)[0]] = y[0]
    assert votes.tolist() == expected.tolist()


def test_progress_is_told():
    told = []
    train_each(lambda t: Counter(), *records(), num_teachers=3, num_classes=3, progress=lambda *pair: told.append(pair))
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_one_model_for_all_teachers_is_refused():
    shared = Counter()
    with pytest.raises(InputError, match="make_model"):
        train(*records(), lambda teacher: shared)


def test_predictions_that_are_no_classes_are_named():
    class Scores(Counter):
        def predict(self, x):
            return np.zeros((len(x), 3))

    with pytest.raises(InputError, match="teacher 0"):
        train(*records(), lambda teacher: Scores()).votes(np.zeros((2, 2)))


@pytest.mark.parametrize(
    ("changed", "fragment"),
    [
        ({"x": np.zeros((2, 1))}, "length of x"),
        ({"ids": [1, 2]}, "length of ids"),
        ({"y": np.array([0.0, 1, 1])}, "float64"),
        ({"y": np.array([0, 1, 3])}, "y to lie in 0 to 2"),
        ({"y": np.array([0, 1, -1])}, "y to lie in 0 to 2"),
        ({"num_classes": 1}, "num_classes"),
    ],
)
def test_wrong_records_are_named(changed, fragment):
    given = {"x": np.zeros((3, 1)), "y": np.array([0, 1, 1]), "ids": [1, 2, 3], "num_classes": 3, **changed}
    with pytest.raises(InputError) as error:
        check_records(*given.values())
    assert fragment in str(error.value)
