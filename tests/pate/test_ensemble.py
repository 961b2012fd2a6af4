"""One record reaches one teacher, bit by bit; the ensemble learns, and is what teachers trained alone are."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from sfumato.errors import InputError
from sfumato.nn import _stacked as stacked
from sfumato.nn._stacked import take_member
from sfumato.pate import _ensemble as ensemble
from sfumato.pate._ensemble import IMAGE_SETTINGS, Ensemble, TorchTeacher
from sfumato.pate._images import load_images
from sfumato.pate._teachers import assign, parts

TEACHERS, ROWS = 5, 40
IDS = np.arange(100, 100 + ROWS)
SETTINGS = {
    "mlp": Ensemble(TEACHERS, 3, network="mlp", widths=(6,), steps=6, batch_size=4),
    "cnn": Ensemble(TEACHERS, 3, widths=(2, 3), steps=3, batch_size=4, max_shift=2, mirror=True),
}
SHAPES = {"mlp": (4,), "cnn": (1, 28, 28)}


def records(network, rows=ROWS):
    generator = np.random.default_rng(1)
    return generator.random((rows, *SHAPES[network]), np.float32), generator.integers(0, 3, rows)


def weights(trained):
    return [trained.weights(teacher) for teacher in range(TEACHERS)]


def changed_teachers(first, second):
    """Teachers any of whose numbers differ."""
    pairs = zip(weights(first), weights(second), strict=True)
    return {i for i, (a, b) in enumerate(pairs) if any(a[name].tobytes() != b[name].tobytes() for name in a)}


def neighbors(x, y, row):
    """The data without one record, with another one in its place, and with one more."""
    yield np.delete(x, row, 0), np.delete(y, row), np.delete(IDS, row), IDS[row]
    other = x.copy()
    other[row] = 1 - other[row]
    yield other, np.where(np.arange(ROWS) == row, (y + 1) % 3, y), IDS, IDS[row]
    new = 1000 + row
    yield np.insert(x, row, x[row], 0), np.insert(y, row, 0), np.insert(IDS, row, new), new


@pytest.fixture(params=[2, 16])
def _stacks(request, monkeypatch):
    """In stacks of two teachers (and one of one), and all in one."""
    monkeypatch.setattr(ensemble, "_AT_ONCE", request.param)


def check_one_record_one_teacher(network, rows):
    """Weights of other teachers stay bit by bit, and each query's counts move by one vote at most."""
    settings, (x, y) = SETTINGS[network], records(network)
    queries = np.random.default_rng(2).random((30, *SHAPES[network]), np.float32)
    before = settings.fit(x, y, IDS)
    votes, moved = before.votes(queries), 0
    for row in rows:
        for other_x, other_y, other_ids, touched in neighbors(x, y, row):
            after = settings.fit(other_x, other_y, other_ids)
            assert changed_teachers(before, after) == {assign([touched], TEACHERS)[0]}
            difference = after.votes(queries) - votes
            assert np.abs(difference).sum(axis=1).max() <= 2
            assert np.square(difference).sum(axis=1).max() <= 2
            moved += np.abs(difference).sum()
    return moved


@pytest.mark.usefixtures("_stacks")
@pytest.mark.parametrize(("network", "rows"), [("mlp", range(0, ROWS, 3)), ("cnn", (0, 7, 39))])
def test_one_record_reaches_one_teacher(network, rows):
    assert check_one_record_one_teacher(network, rows) > 0


@pytest.mark.usefixtures("_stacks")
@pytest.mark.parametrize("widths", [(6, 3), (16, 32)])
@pytest.mark.parametrize("network", SETTINGS)
def test_a_teacher_that_overflows_spoils_no_other(network, widths):
    """Numbers beyond float32 in one teacher; a zero times infinity would carry them over."""
    settings, (x, y) = replace(SETTINGS[network], widths=widths), records(network)
    spoiled = x.copy()
    spoiled[0] = 3e38
    before, after = (settings.fit(rows, y, IDS) for rows in (x, spoiled))
    touched = int(assign([IDS[0]], TEACHERS)[0])
    assert changed_teachers(before, after) == {touched}
    assert not all(np.isfinite(value).all() for value in after.weights(touched).values())
    assert (np.delete(before.predict(x), touched, 0) == np.delete(after.predict(x), touched, 0)).all()


def test_batch_norm_over_teachers_is_caught(monkeypatch):
    plain = stacked.StackedMLP._scores
    monkeypatch.setattr(
        stacked.StackedMLP, "_scores", lambda self, x: plain(self, (x - x.mean((0, 1))) / x.std((0, 1)))
    )
    with pytest.raises(AssertionError):
        check_one_record_one_teacher("mlp", [0])


def test_partition_by_a_shuffle_of_all_records_is_caught(monkeypatch):
    def shuffled(ids, num_teachers, seed=0):
        return np.array_split(np.random.default_rng(seed).permutation(len(ids)), num_teachers)

    monkeypatch.setattr(ensemble, "parts", shuffled)
    with pytest.raises(AssertionError):
        check_one_record_one_teacher("mlp", [0])


def test_gradient_norm_over_teachers_is_caught(monkeypatch):
    step = ensemble.Adam.step

    def clipped(self):
        self.grad.mul_(min(1.0, 1e-3 / float(self.grad.norm())))
        step(self)

    monkeypatch.setattr(ensemble.Adam, "step", clipped)
    with pytest.raises(AssertionError):
        check_one_record_one_teacher("mlp", [0])


def test_one_generator_for_all_teachers_is_caught(monkeypatch):
    monkeypatch.setattr(ensemble, "generators", lambda members, seed: [np.random.default_rng(seed)] * members)
    with pytest.raises(AssertionError):
        check_one_record_one_teacher("mlp", range(8))  # seen where a part's size changes


@pytest.mark.usefixtures("_stacks")
def test_order_of_records_decides_nothing():
    x, y = records("mlp")
    order = np.random.default_rng(3).permutation(ROWS)
    first, second = (SETTINGS["mlp"].fit(x[o], y[o], IDS[o]) for o in (np.arange(ROWS), order))
    assert not changed_teachers(first, second)


@pytest.mark.parametrize("network", SETTINGS)
def test_together_is_one_after_another(network):
    """Teacher t trained on its part alone, in an ensemble where every other part is empty."""
    x, y = records(network)
    together = weights(SETTINGS[network].fit(x, y, IDS))
    for teacher, own in enumerate(parts(IDS, TEACHERS)):
        alone = weights(SETTINGS[network].fit(x[own], y[own], IDS[own]))[teacher]
        assert all(np.allclose(together[teacher][name], alone[name], atol=1e-5) for name in alone)


@pytest.mark.usefixtures("_stacks")
def test_a_teacher_without_records_stays_as_it_began_and_votes_its_number():
    x, y = records("mlp")
    own = parts(IDS, TEACHERS)[1]
    trained = SETTINGS["mlp"].fit(x[own], y[own], IDS[own])
    untouched = SETTINGS["mlp"]._stack((4,), stacked.generators(TEACHERS))
    assert trained.present.tolist() == [False, True, False, False, False]
    assert (weights(trained)[4]["layers.0.weight"] == take_member(untouched, 4)["layers.0.weight"]).all()
    predicted = trained.predict(x)
    assert [set(row) for row in np.delete(predicted, 1, 0).tolist()] == [{0}, {2}, {0}, {1}]
    assert trained.votes(x).sum(axis=1).tolist() == [TEACHERS] * ROWS


@pytest.mark.parametrize("network", SETTINGS)
def test_the_ensemble_learns(network):
    """Class = brightest third, from 20 records a teacher: single teachers are good, their plurality is better."""
    generator = np.random.default_rng(0)
    y = generator.integers(0, 3, 400)
    x = generator.random((400, *SHAPES[network]), np.float32)
    places = np.arange(x[0].size).reshape(x.shape[1:]) * 3 // x[0].size
    x = (0.5 * x + 0.6 * (places == y.reshape(-1, *[1] * (x.ndim - 1)))).astype(np.float32)
    settings = Ensemble(10, 3, network=network, widths=(16, 16), steps=80, batch_size=8)
    trained = settings.fit(x[:200], y[:200], range(200))
    right = trained.predict(x[200:]) == y[200:]
    assert right.mean() > 0.75
    assert (trained.votes(x[200:]).argmax(axis=1) == y[200:]).mean() >= max(0.9, right.mean())


@pytest.mark.data
def test_digits_from_240_records_a_teacher(data_dir):
    """Five of 250 teachers after a sixth of the steps."""
    images = load_images("mnist", data_dir)
    ids = np.flatnonzero(assign(np.arange(60_000), 250) < 5)
    settings = Ensemble(5, 10, steps=100, **IMAGE_SETTINGS["mnist"])
    trained = settings.fit(images.train_x[ids], images.train_y[ids], ids)
    right = trained.predict(images.test_x[:1000]) == images.test_y[:1000]
    votes = trained.votes(images.test_x[:1000])
    assert right.mean() > 0.86
    assert (votes.argmax(axis=1) == images.test_y[:1000]).mean() > 0.9


def test_shifts_and_mirrors_show_every_view():
    x = np.zeros((1, 1, 28, 28), np.float32)
    x[0, 0, 10, 5] = 1
    settings = Ensemble(1, 2, batch_size=400, max_shift=1, mirror=True)
    images, targets = ensemble._Batches(settings, x, np.array([1]), [np.array([0])], stacked.generators(1)).next()
    assert images.shape == (1, 400, 1, 28, 28)
    assert (targets == 1).all()
    seen = {divmod(int(place), 28) for place in images.flatten(2).argmax(2)[0]}
    assert seen == {(row, column) for row in (9, 10, 11) for column in (4, 5, 6, 21, 22, 23)}


def test_a_teacher_sees_each_row_once_a_pass():
    rows = ensemble._Rows(np.arange(7), np.random.default_rng(0))
    taken = np.concatenate([rows.take(3) for _ in range(7)])
    assert [sorted(part) for part in taken.reshape(3, 7).tolist()] == [list(range(7))] * 3
    assert taken[:7].tolist() != taken[7:14].tolist()


def test_torch_modules_are_teachers():
    x, y = records("mlp")
    y = (x[:, 0] > 0.5).astype(int)
    torch.manual_seed(0)
    teacher = TorchTeacher(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)), steps=200)
    assert (teacher.fit(x, y).predict(x) == y).mean() > 0.95


def test_stacks_of_any_size_give_the_same_teachers(monkeypatch):
    x, y = records("cnn")
    trained = []
    for size in (1, 2, 5):
        monkeypatch.setattr(ensemble, "_AT_ONCE", size)
        trained.append(SETTINGS["cnn"].fit(x, y, IDS))
    assert [len(each.stacks) for each in trained] == [5, 3, 1]
    for one, two, five in zip(*map(weights, trained), strict=True):
        assert all(np.allclose(one[name], five[name], atol=1e-5) for name in one)
        assert all(np.allclose(two[name], five[name], atol=1e-5) for name in one)
    assert (trained[0].predict(x) == trained[2].predict(x)).mean() > 0.99
    with pytest.raises(InputError, match="teacher"):
        trained[0].weights(5)


@pytest.mark.usefixtures("_stacks")
def test_progress_is_told():
    told = []
    x, y = records("mlp")
    SETTINGS["mlp"].fit(x, y, IDS, progress=lambda *pair: told.append(pair))
    assert [done for done, _ in told] == list(range(1, told[-1][1] + 1))
    assert told[-1][0] == told[-1][1] == 6 * -(-TEACHERS // ensemble._AT_ONCE)


def test_named_settings_are_settings():
    assert {name: Ensemble(2, 10, **chosen).mirror for name, chosen in IMAGE_SETTINGS.items()} == {
        "mnist": False,
        "fashion_mnist": True,
    }


@pytest.mark.parametrize(
    ("changed", "fragment"),
    [
        ({"network": "resnet"}, "resnet"),
        ({"num_teachers": 0}, "num_teachers"),
        ({"num_classes": 1}, "num_classes"),
        ({"widths": (4,)}, "(4,)"),
        ({"widths": (4, 0)}, "widths[1]"),
        ({"steps": 0}, "steps"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"label_smoothing": 1.0}, "label_smoothing"),
        ({"max_shift": 15}, "max_shift"),
    ],
)
def test_wrong_settings_are_named(changed, fragment):
    with pytest.raises(InputError) as error:
        Ensemble(**{"num_teachers": 2, "num_classes": 3, **changed})
    assert fragment in str(error.value)


@pytest.mark.parametrize(
    ("settings", "shape", "value", "fragment"),
    [
        (SETTINGS["cnn"], (4, 28, 28), 0, "(4, 28, 28)"),
        (SETTINGS["cnn"], (4, 1, 32, 32), 0, "network='mlp'"),
        (Ensemble(2, 3, network="mlp", max_shift=1), (4, 9), 0, "max_shift"),
        (SETTINGS["mlp"], (4, 9), np.nan, "finite"),
        (SETTINGS["mlp"], (3, 9), 0, "length of x"),
    ],
)
def test_wrong_records_are_named(settings, shape, value, fragment):
    with pytest.raises(InputError) as error:
        settings.fit(np.full(shape, value), np.zeros(4, int), range(4))
    assert fragment in str(error.value)
