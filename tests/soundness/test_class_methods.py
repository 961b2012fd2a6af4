"""Class-level methods as they run: what a cell adds is a function of this cell's records, and the noise is the one charged."""

from dataclasses import replace

import numpy as np
import pytest
from soundness_cells import whole_gradient

import sfumato as sf
from sfumato.classlevel import _class_dp as class_dp
from sfumato.classlevel._class_dp import ClassDP, SubclassDP
from sfumato.datasets.images import from_arrays
from sfumato.errors import InputError, UnsupportedUnitError
from sfumato.graph._graph import PublicFacts
from sfumato.record._dataset_ledger import DatasetLedger

CLASSES, IDS, SHOWN = 3, 36, 12
QUICK = {"network": "softmax", "width": 3, "steps": 2, "sampling_prob": 0.5, "records_per_cell": 3, "augment": 1}
COLUMN = np.arange(IDS) // 9
PUBLISHED = {**QUICK, "network": "cnn", "augment": 0, "records_per_cell": None, "learn_filters": True}
PUBLISHED |= {"optimizer": "sgd", "loss_scale": 1.0}
METHODS = {
    "class": (ClassDP(**QUICK), sf.ClassLevel(), 3),
    "class, cnn": (ClassDP(**{**QUICK, "network": "cnn", "augment": 0}), sf.ClassLevel(), 3),
    "class, as published": (ClassDP(**PUBLISHED), sf.ClassLevel(), 3),
    "directions": (SubclassDP(**QUICK), sf.SubclassLevel(2), 6),
    "centroids": (SubclassDP(public_rows=SHOWN, **QUICK), sf.SubclassLevel(2, "centroids"), 6),
    "declared": (SubclassDP(**QUICK), sf.SubclassLevel(4, "declared"), 4),
}


def data_set(seed=0):
    """Images [ids, 14, 14], labels, and a public column of cells."""
    rng = np.random.default_rng(seed)
    y = np.arange(IDS) % CLASSES
    return (rng.random((IDS, 14, 14)) * (1 + y[:, None, None]) / CLASSES).astype(np.float32), y


def graph_of(x, y):
    return replace(from_arrays(x, y, classes=("a", "b", "c"), roles=np.zeros(IDS, int)), cells=COLUMN)


@pytest.fixture
def added(monkeypatch):
    """What each cell adds at two steps, None where it has no record, as a method computes it from a data set."""
    monkeypatch.setattr("sfumato.method._opening.new_key", lambda: bytes(32))

    def call(name, x, y):
        method, unit, _ = METHODS[name]
        graph, seen = graph_of(x, y), {}

        def steps(optimizer, mean_gradient, num_cells, settings, key, progress):
            seen.update(cells=num_cells, settings=settings)
            found = [[mean_gradient(cell, step) for cell in range(num_cells)] for step in (0, 1)]
            seen["sums"] = [
                [None if g is None else whole_gradient(g, settings.l2_clip_norm) for g in one] for one in found
            ]
            return b""

        monkeypatch.setattr(class_dp, "class_steps", steps)
        plan = method.calibrate(sf.Budget(8.0, 1e-3), unit, graph.public_facts(unit))
        seen["event"] = plan.event("network")
        plan.fit(graph)
        return seen

    return call


def same(left, right):
    return left is right is None or (left is not None and right is not None and np.array_equal(left, right))


def exchanged(name, cells, cell, seed):
    """Other records of one cell: others of its class, from which those of this cell are taken; or none at all."""
    method, unit, _ = METHODS[name]
    x, y = data_set()
    if seed == 0:
        y = np.where(cells == cell, -1, y)
        return np.where((cells == cell)[:, None, None], 0, x).astype(np.float32), y
    fresh, _ = data_set(seed)
    fresh[:SHOWN] = x[:SHOWN]  # public
    whole = method.cells(unit, graph_of(fresh, y))[0]
    own = np.flatnonzero(cells == cell)
    others = np.flatnonzero(whole == cell) if name != "declared" else own
    for place, other in zip(own, others, strict=False):
        x[place], y[place] = fresh[other], y[other]
    return x, y


@pytest.mark.parametrize("name", METHODS)
def test_a_cell_moves_what_it_adds_and_nothing_else(added, name):
    method, unit, count = METHODS[name]
    x, y = data_set()
    before, cells = added(name, x, y), method.cells(unit, graph_of(x, y))[0]
    assert before["cells"] == count
    moved = 0
    for cell in range(count):
        for seed in range(2):
            after = added(name, *exchanged(name, cells, cell, seed))
            for one, other in zip(before["sums"], after["sums"], strict=True):
                assert all(same(one[k], other[k]) for k in range(count) if k != cell)
                moved += not same(one[cell], other[cell])
                assert all(int((v**2).sum()) <= 4**24 for v in other if v is not None)
        assert all(step[cell] is None for step in added(name, *exchanged(name, cells, cell, 0))["sums"])
    assert moved >= 2 * count


def test_clusters_of_the_private_images_move_other_cells(added, monkeypatch):
    """Why a certificate says that such cells are declared: one cell's images decide where others fall."""
    method, unit = SubclassDP(kmeans=True, **QUICK), sf.SubclassLevel(6, "declared")
    monkeypatch.setitem(METHODS, "kmeans", (method, unit, 6))
    x, y = data_set()
    before, cells = added("kmeans", x, y), method.cells(unit, graph_of(x, y))[0]
    x[cells == 0] = data_set(7)[0][cells == 0]
    after = added("kmeans", x, y)
    assert not all(same(a, b) for a, b in zip(before["sums"][0][1:], after["sums"][0][1:], strict=True))
    assert any("clusters of the private images" in text for text in method.limits)


@pytest.mark.parametrize("name", METHODS)
def test_the_noise_is_the_one_charged_and_never_doubled_twice(added, name):
    """Deviation over S in the event, in the settings and in the certificate: the relation carries the 2."""
    method, unit, _ = METHODS[name]
    seen = added(name, *data_set())
    assert seen["settings"].noise_multiplier == seen["event"].noise_multiplier
    assert seen["settings"].l2_clip_norm == method.l2_clip_norm
    assert (seen["settings"].sampling_prob, seen["settings"].steps) == (0.5, 2)
    assert seen["event"].relation == unit.relation == "replace"


@pytest.mark.parametrize("name", METHODS)
def test_no_settings_are_chosen_by_a_score_that_one_cell_moves_by_more_than_one(name):
    """All validation images of a cell may be exchanged at once: the count of right ones moves by as many."""
    method, unit, _ = METHODS[name]
    graph = graph_of(*data_set())
    tuned = sf.Tuned((method, replace(method, steps=3)))
    with pytest.raises(UnsupportedUnitError, match="a score counts every validation node"):
        tuned.calibrate(sf.Budget(8.0, 1e-3), unit, graph.public_facts(unit))


@pytest.mark.parametrize(
    ("first", "second", "change"),
    [
        ("centroids", SubclassDP(public_rows=2 * SHOWN, **QUICK), {}),
        ("centroids", None, {"roles": np.array([3] + [0] * (IDS - 1))}),
        ("declared", None, {"cells": np.arange(IDS) % 4}),
        ("directions", SubclassDP(**{**QUICK, "augment": 0}), {"image_shape": None}),
    ],
)
def test_claims_about_other_cells_do_not_add_up_in_a_ledger(first, second, change, tmp_path):
    """Planted: images that one run protects are public in the next one, or cells are cut in another way."""
    method, unit, _ = METHODS[first]
    graph, ledger = graph_of(*data_set()), DatasetLedger(tmp_path / "ledger.jsonl", total_epsilon=9.0)

    def fit(chosen, data):
        plan = chosen.calibrate(sf.Budget(1.0, 1e-3), unit, data.public_facts(unit))
        return plan.fit(data, dataset_ledger=ledger)

    fit(method, graph)
    fit(method, graph)
    with pytest.raises(InputError, match="other cells"):
        fit(second or method, replace(graph, **change))


def test_public_images_leave_some_to_train_on():
    facts = PublicFacts(24, 18, 120, 3, directed=False, image_shape=(1, 12, 10))
    unit, budget = sf.SubclassLevel(2, "centroids"), sf.Budget(8.0, 1e-3)
    with pytest.raises(InputError, match="below the number of training images, 18"):
        SubclassDP(network="softmax", public_rows=18).calibrate(budget, unit, facts)
    assert SubclassDP(network="softmax", public_rows=17).calibrate(budget, unit, facts).epsilon <= 8
