"""Persons of several nodes: brute force empties every person in turn, and near misses that count or draw nodes alone fail."""

from itertools import product

import numpy as np
import pytest
import torch
from torch import nn

import sfumato as sf
from sfumato.bounded import _gradients as gradients
from sfumato.bounded._gradients import PrivateSGD, check_examples, private_steps, rounding_margin
from sfumato.bounded._grouping import group_sensitivity, noisy_group_sums
from sfumato.bounded._owners import Persons, count_of, owners_of, thinned
from sfumato.catalog import method_named
from sfumato.central._tuned import Tuned
from sfumato.central._weighing import gradient_rows
from sfumato.errors import DataError, InputError, UnsupportedUnitError
from sfumato.graph._accounts import roles_of_persons
from sfumato.graph._graph import Graph
from sfumato.graph._owned import kept_nodes, of_persons
from sfumato.graph._persons import words_of
from sfumato.loops.kernels import INT16_ONE
from sfumato.record._dataset_ledger import DatasetLedger

KEY = bytes(range(32))
UNIT = sf.PersonNodesLevel(4)


def tables(count, seed=0):
    """Owners of a few rows each, in any order."""
    draws = np.random.default_rng(seed)
    for _ in range(count):
        yield draws.integers(0, 4, int(draws.integers(2, 10))), draws


def moved(sums, rows, owners):
    """How far sums move if the rows of one person become zero, for each person, in units of a full row."""
    for person in np.unique(owners):
        rest = np.where((owners == person)[:, None], np.float32(0), rows)
        yield float(np.linalg.norm(sums(rows, owners) - sums(rest, owners))) / INT16_ONE


def by_person(rows, owners):
    return noisy_group_sums(rows, np.zeros(len(rows), np.int64), 1, 0.0, KEY, owners)


def by_row(rows, _):
    return noisy_group_sums(rows, np.zeros(len(rows), np.int64), 1, 0.0, KEY)


def by_mean_count(rows, owners):
    """A near miss: every row counts by how many rows persons own on average."""
    return by_row(rows * np.float32(len(np.unique(owners)) / len(owners)), owners)


def by_root(rows, owners):
    """A near miss: the norm of rows that are independent, and not of rows that point one way."""
    _, number, counts = np.unique(owners, return_inverse=True, return_counts=True)
    return by_row((rows / np.sqrt(counts[number])[:, None]).astype(np.float32), owners)


def worst(sums):
    found = [0.0]
    for owners, draws in tables(200):
        rows = draws.normal(size=(len(owners), 3))
        rows[owners == 0] = rows[0]  # persons of rows that point one way
        rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
        found += moved(sums, rows, owners)
    return max(found)


def test_a_person_moves_sums_by_one_row_at_most_and_reaches_it():
    assert 0.999 < worst(by_person) <= group_sensitivity(UNIT, by_person=True) == 1.0


@pytest.mark.parametrize("near_miss", [by_row, by_mean_count, by_root])
def test_sums_that_count_a_person_more_than_once_are_caught(near_miss):
    assert worst(near_miss) > 1.2


def test_integers_of_a_row_never_grow_when_a_person_shares_them():
    draws = np.random.default_rng(1)
    steps = draws.integers(-INT16_ONE, INT16_ONE + 1, (500, 1)).astype(np.int16)
    owners = draws.integers(0, 60, 500)
    counts = np.bincount(owners)[owners]
    assert (np.abs(thinned(steps, owners).astype(int)[:, 0]) * counts <= np.abs(steps.astype(int)[:, 0])).all()


def clipped_sums(owners, y, drawn=None):
    """The sum of one step of DP-SGD over persons that are drawn, as it is before noise; gradients are far above the clip."""
    model, kept = nn.Linear(2, 3).double(), []
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    x, targets = torch.full((len(y), 2), 50.0).double(), torch.from_numpy(y)

    def steps(_, clipped_sum, ids, *__):
        kept.append(clipped_sum(np.arange(len(ids)) if drawn is None else drawn, 0))
        return b""

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gradients, "noisy_steps", steps)
        settings = PrivateSGD(0.5, steps=1, l2_clip_norm=1.0, noise_multiplier=1.0, learning_rate=0.1)
        private_steps(model, lambda at: (x[at], targets[at]), np.arange(len(y)), settings, KEY, owners=owners)
    return kept[0] / 2.0**24


def changes(owners, seen):
    y = np.zeros(len(owners), np.int64)
    for person in np.unique(owners):
        without = np.where(owners == person, -1, y)
        yield np.linalg.norm(clipped_sums(seen, y) - clipped_sums(seen, without))


def test_a_person_moves_a_sum_of_gradients_by_the_clip_at_most_and_reaches_it():
    found = [change for owners, _ in tables(30) for change in changes(owners, owners)]
    assert 0.999 < max(found) <= 1 + rounding_margin(9)


def test_gradients_of_single_nodes_move_by_as_many_clips_as_a_person_has_nodes():
    owners = np.array([0, 0, 0, 1])
    assert max(changes(owners, None)) == pytest.approx(3.0, rel=1e-3)


def test_persons_of_other_counts_stay_as_they_are_to_the_last_bit():
    owners, y = np.array([0, 1, 1, 2, 2, 3, 3, 3]), np.array([0, 1, 2, 0, 1, 2, 0, 1])
    alone = sum(clipped_sums(owners, y, np.array([count])) for count in (1, 2))
    assert (clipped_sums(owners, y, np.array([1, 2])) - alone).tolist() == pytest.approx([0.0] * 9, abs=2.0**-24)


@pytest.mark.parametrize("owners", [[0, 0, 1], [3, 1, 3, 2, 1, 3], [5], [2, 2, 2]])
def test_a_coin_draws_all_nodes_of_a_person_or_none(owners):
    persons = Persons.of(np.array(owners))
    for coins in product((False, True), repeat=len(persons.numbers)):
        drawn = np.flatnonzero(coins)
        rows = [row for _, some in persons.drawn(drawn) for row in some]
        assert sorted(rows) == [row for row, owner in enumerate(owners) if owner in persons.numbers[drawn]]
        assert all(owners.count(owners[row]) == count for count, some in persons.drawn(drawn) for row in some)


def test_the_divisor_and_the_coins_are_those_of_persons():
    seen = []
    owners = np.array([7, 7, 7, 4, 4, 1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gradients, "noisy_steps", lambda _, __, ids, *___: seen.append(ids.tolist()) or b"")
        settings = PrivateSGD(0.5, steps=1, l2_clip_norm=1.0, noise_multiplier=1.0, learning_rate=0.1)
        x = torch.zeros(6, 2).double()
        batch = lambda at: (x[at], torch.zeros(len(at), dtype=torch.int64))  # noqa: E731
        private_steps(nn.Linear(2, 2).double(), batch, np.arange(6), settings, KEY, owners=owners)
    assert seen == [[1, 4, 7]]
    assert count_of(owners, 6) == 3


def test_the_last_scale_counts_each_person_once():
    owners, y = np.array([0, 0, 0, 1]), np.zeros(4, np.int64)
    seen = np.repeat(np.array([[[-4.0], [3.0], [1.0]]]), 4, axis=0)  # sure of a wrong class
    rows = gradient_rows(seen, y, np.ones(1))
    assert max(moved(by_person, rows, owners)) <= 1 < max(moved(by_row, rows, owners))


def first_nodes(persons, words, nodes, most):
    """A near miss: the first rows of the table stay, so that other persons' rows decide where a person's stand."""
    return np.arange(len(persons)) < 2 * most


def choice_depends_on_others(choose):
    """Whether some person keeps other nodes once another person's rows are gone."""
    for owners, _ in tables(200, seed=4):
        ids, words = words_of(range(len(owners))), words_of(range(4))
        whole = choose(owners, words, ids, 2)
        for person in np.unique(owners):
            others = owners != person
            if (whole[others] != choose(owners[others], words, ids[others], 2)).any():
                return True
    return False


def test_which_nodes_of_a_person_stay_depends_on_its_own_ids_alone():
    assert not choice_depends_on_others(kept_nodes)
    assert choice_depends_on_others(first_nodes)
    for owners, draws in tables(100, seed=5):
        ids, words = words_of(range(len(owners))), words_of(range(4))
        kept = kept_nodes(owners, words, ids, 2)
        assert np.bincount(owners[kept]).max() <= 2
        assert all(kept[owners == one].sum() == min(2, (owners == one).sum()) for one in np.unique(owners))
        order = draws.permutation(len(owners))
        assert kept[order].tolist() == kept_nodes(owners[order], words, ids[order], 2).tolist()


def test_roles_are_those_of_persons_and_read_nothing_else():
    draws = np.random.default_rng(6)
    owners = draws.integers(0, 50, 200)
    roles = roles_of_persons(owners, np.ones(200, bool), (0.5, 0.25, 0.25), 3)
    assert all(len(np.unique(roles[owners == person])) == 1 for person in np.unique(owners))
    renamed = draws.permutation(50)[owners]
    assert roles.tolist() == roles_of_persons(renamed, np.ones(200, bool), (0.5, 0.25, 0.25), 3).tolist()
    graph = of_persons(
        Graph.from_edges([0], [1], 200, directed=False, y=draws.integers(0, 2, 200)), owners.tolist(), 50
    )
    known = graph.changed(y=np.where(owners == owners[0], -1, graph.y))
    assert graph.with_split(seed=1).roles.tolist() == known.with_split(seed=1).roles.tolist()


def test_only_callers_that_count_by_person_get_its_sensitivity():
    for refuse in (check_examples, group_sensitivity):
        with pytest.raises(UnsupportedUnitError):
            refuse(UNIT)
        refuse(UNIT, by_person=True)
        for other in (sf.PersonLevel(2, directed=False), sf.ClassLevel(), sf.EdgeLevel(directed=False)):
            with pytest.raises(UnsupportedUnitError):
                refuse(other, by_person=True)


def test_a_graph_of_larger_persons_is_refused_where_sums_are_made():
    graph = of_persons(Graph.from_edges([0], [1], 4, directed=False), ["a", "a", "a", "b"], 3)
    assert owners_of(sf.NodeLevel(2), graph, np.arange(4)) is None
    assert owners_of(sf.PersonNodesLevel(3), graph, np.arange(4)).tolist() == [0, 0, 0, 1]
    with pytest.raises(DataError, match="at most 2 nodes"):
        owners_of(sf.PersonNodesLevel(2), graph, np.arange(4))
    with pytest.raises(DataError, match="of_persons"):
        Graph.from_edges([0], [1], 4, directed=False, cells=[0, 0, 0, 1], nodes_per_person=2)
    with pytest.raises(DataError, match="of_persons"):
        Graph.from_edges([0], [1], 4, directed=False, nodes_per_person=2)


@pytest.mark.parametrize(
    "word", ["label-messages", "gap", "progap", "piloted-messages", "dpgnn", "graph-split", "dpar"]
)
def test_methods_without_a_proof_for_persons_of_many_nodes_refuse(word):
    graph = of_persons(sf.graph.campus(300, seed=0), (np.arange(300) // 3).tolist(), 3).with_split(seed=0)
    facts = graph.public_facts(sf.PersonNodesLevel(3, 10), assume_public=True)
    with pytest.raises((UnsupportedUnitError, InputError)):
        method_named(word).calibrate(sf.Budget(4.0, 1e-5), sf.PersonNodesLevel(3, 10), facts)


@pytest.mark.parametrize("word", ["linear", "mlp"])
def test_a_choice_among_settings_refuses_since_a_score_counts_every_node(word):
    graph = of_persons(sf.graph.campus(300, seed=0), (np.arange(300) // 3).tolist(), 3).with_split(seed=0)
    unit = sf.PersonNodesLevel(3)
    tuned = Tuned((method_named(word), method_named(word, epochs=3)))
    with pytest.raises(UnsupportedUnitError, match="counts every validation node"):
        tuned.calibrate(sf.Budget(4.0, 1e-5), unit, graph.public_facts(unit, assume_public=True))


def test_roles_by_person_are_a_draw_over_persons():
    graph = of_persons(sf.graph.campus(300, seed=0), (np.arange(300) // 3).tolist(), 3).with_split(seed=0)
    assert "roles" not in graph.public_facts(sf.PersonNodesLevel(3), assume_public=True).assumed
    ids = of_persons(sf.graph.campus(300, seed=0).with_split(seed=0), (np.arange(300) // 3).tolist(), 3)
    assert "roles" in ids.public_facts(sf.PersonNodesLevel(3), assume_public=True).assumed


def test_a_ledger_tells_other_owners_from_those_that_it_was_opened_for(tmp_path):
    whole, unit, path = sf.graph.campus(300, seed=0), sf.PersonNodesLevel(3), tmp_path / "ledger.jsonl"
    for size, fits in ((3, True), (3, True), (2, False)):
        graph = of_persons(whole, (np.arange(300) // size).tolist(), 3).with_split(seed=0)
        facts = graph.public_facts(unit, assume_public=True)
        plan = method_named("linear", epochs=2).calibrate(sf.Budget(1.0, 1e-5), unit, facts)
        ledger = DatasetLedger(path, 4.0, 1e-3)
        if fits:
            plan.fit(graph, dataset_ledger=ledger)
        else:
            with pytest.raises(InputError, match="other cells or owners"):
                plan.fit(graph, dataset_ledger=ledger)


@pytest.mark.parametrize("rows", [1, 2, 32_767, 32_768, 40_000, 65_535, 65_536, 65_537, 131_072])
def test_a_person_of_any_number_of_rows_moves_a_sum_by_one(rows):
    """Counts beyond the 16 bits of the steps are no smaller numbers, nor negative ones."""
    signs = np.where(np.arange(rows) % 3 == 0, -1, 1)[:, None]
    for ones in (np.ones((rows, 1), np.float32), signs.astype(np.float32)):
        steps = noisy_group_sums(ones, np.zeros(rows, np.int64), 1, 0.0, bytes(32), np.zeros(rows, np.int64))
        assert abs(int(steps[0, 0])) <= INT16_ONE


def test_near_miss_a_count_in_the_type_of_the_steps():
    """A divisor of 16 bits is 1 at 65,537 rows, so that the person counts as often as it has rows."""
    steps = np.full(65_537, INT16_ONE, np.int16)
    shared = steps // np.array([len(steps)]).astype(np.int16)
    assert shared.sum(dtype=np.int64) > 60_000 * INT16_ONE
