"""Whichever engine computes: the same bits, the same certificate, the ledger charged once."""

import numpy as np
import pytest

import sfumato as sf
from sfumato.bounded import _shards
from sfumato.bounded._engine import LOCAL, cut, engine, using
from sfumato.bounded._pagerank import Walk, approximate_pagerank
from sfumato.bounded.aggregation import Arcs, noisy_neighborhood_sum, normalize_rows
from sfumato.central import _tuned as tuned
from sfumato.errors import DataError, InputError
from sfumato.experiments import _runner as runner
from sfumato.experiments._results import read
from sfumato.experiments._spec import Spec
from sfumato.graph._synthetic import stochastic_block_model
from sfumato.graph._weights import FULL
from sfumato.method import _opening as opening
from sfumato.pate._ensemble import Ensemble, TorchTeacher
from sfumato.pate._graph_teachers import GraphTeachers
from sfumato.pate._teachers import train_each

EDGE, NODE = sf.EdgeLevel(directed=False), sf.NodeLevel(max_out_degree=5)
GRAPH = stochastic_block_model(120, 3, mean_degree=20, num_features=5, seed=1).with_split(seed=0)
ARCS = Arcs(GRAPH.indptr, GRAPH.indices)
BUDGET = sf.Budget(2.0, 1e-6)
KEY = bytes(range(32))
CELLS = """
name = "small"
title = "A small table"
source = "a test"
comments = ["No number is published."]
dataset = "campus"
split = "75/10/15"
seeds = 3
axis = "epsilon"

[quick]
seeds = 2
minutes = 0.1

[[run]]
label = "MLP"
method = "mlp"
unit = "edge"
role = "floor"
settings = { epochs = 1 }
"""


def hop():
    rows = normalize_rows(np.random.default_rng(0).normal(size=(120, 20)))
    weights = np.random.default_rng(1).integers(0, FULL + 1, len(ARCS.sources)).astype(np.uint16)
    weighted = Arcs(ARCS.offsets, ARCS.sources, weights)
    return {one: noisy_neighborhood_sum(arcs, rows, 3.0, KEY) for one, arcs in (("hop", ARCS), ("weighted", weighted))}


def vectors():
    found = approximate_pagerank(ARCS.offsets, ARCS.sources, np.arange(0, 120, 3), Walk(rho=1e-3))
    return {"data": found.data, "indices": found.indices, "indptr": found.indptr}


def teachers():
    random = np.random.default_rng(1)
    x, y = random.random((60, 4), np.float32), random.integers(0, 3, 60)
    stacks = Ensemble(20, 3, network="mlp", widths=(6,), steps=4, batch_size=4).fit(x, y, range(60))
    alone = train_each(make_teacher, x, y, range(60), num_teachers=3, num_classes=3)
    on_graphs = GraphTeachers(3, 5, 3, epochs=2).fit(GRAPH)
    found = {f"{i}/{name}": array for i in range(20) for name, array in stacks.weights(i).items()}
    for i, model in enumerate([*(one.module for one in alone.models), *on_graphs.models]):
        found |= {f"alone {i}/{name}": tensor.detach().numpy() for name, tensor in model.named_parameters()}
    return found


def make_teacher(number):
    import torch

    torch.manual_seed(number)
    return TorchTeacher(torch.nn.Linear(4, 3), steps=5, seed=number)


def same(first, second):
    return first.keys() == second.keys() and all(
        first[name].dtype == second[name].dtype and first[name].tobytes() == second[name].tobytes() for name in first
    )


@pytest.fixture(params=["scattered", pytest.param("on_ray", marks=pytest.mark.soak)])
def other(request):
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("compute", [hop, vectors, teachers])
def test_parts_have_the_bits_of_the_local_engine(compute, other):
    expected = compute()
    with using(other):
        assert engine() is other
        assert same(compute(), expected)
    assert engine() is LOCAL


@pytest.mark.parametrize(
    ("method", "unit"),
    [
        (sf.GAP(num_hops=2, epochs=1, batch_size=45), EDGE),
        (sf.GAP(num_hops=1, epochs=1, batch_size=45), NODE),
        (sf.LabelMessages(), NODE),
        (tuned.Tuned((sf.MLP(epochs=1, batch_size=45), sf.MLP(epochs=2, batch_size=30)), "geometric", 4), NODE),
    ],
)
def test_runs_have_the_same_bits_and_certificate_and_are_charged_once(method, unit, other, tmp_path, monkeypatch):
    monkeypatch.setattr(opening, "new_key", lambda: KEY)
    monkeypatch.setattr(_shards, "_LEAST", 1)  # workers share every step of DP-SGD
    plan = method.calibrate(BUDGET, unit, GRAPH.public_facts(unit))
    kept = []
    for number, chosen in enumerate((LOCAL, other)):
        folder = tmp_path / str(number)
        with using(chosen):
            plan.fit(GRAPH, ledger=folder / "release" / "ledger.jsonl", seed=0).save(folder)
        kept.append({path.name: path.read_bytes() for path in (folder / "release").iterdir()})
    assert kept[0].keys() == kept[1].keys()
    assert kept[0]["ledger.jsonl"].count(b"\n") == 1 + len(plan.releases)
    different = [name for name in kept[0] if kept[0][name] != kept[1][name]]
    assert not different


def test_of_equal_scores_the_first_trial_is_kept(scattered, monkeypatch):
    monkeypatch.setattr(opening, "new_key", lambda: KEY)
    monkeypatch.setattr(tuned, "draw_trials", lambda *law: 9)
    monkeypatch.setattr(tuned, "_run", equal_scores)
    method = tuned.Tuned((sf.MLP(epochs=1, batch_size=45), sf.MLP(epochs=2, batch_size=30)))
    plan = method.calibrate(BUDGET, NODE, GRAPH.public_facts(NODE))
    here = plan.fit(GRAPH, seed=0)
    with using(scattered):
        there = plan.fit(GRAPH, seed=0)
    assert scattered.ran == 9
    assert same(here.weights, there.weights)


def equal_scores(graph, seed, trial, key):
    return {"w": np.frombuffer(key, np.uint8)}, {}, 5


def test_cells_have_the_same_scores_and_are_run_once(other, tmp_path):
    (tmp_path / "small.toml").write_text(CELLS)
    spec = Spec.read(tmp_path / "small.toml")
    with using(other):
        outcome = runner.run(spec, tmp_path / "there")
        again = runner.run(spec, tmp_path / "there")
        with pytest.raises(InputError, match="jobs"):
            runner.run(spec, tmp_path / "there", jobs=2)
    assert (outcome.done, again.before, again.done) == (3, 3, 0)
    there, here = (
        {row["id"]: row["metrics"] for row in read(found.path)} for found in (outcome, runner.run(spec, tmp_path))
    )
    assert len(there) == 3
    assert there == here


def test_a_cell_that_fails_is_named(scattered, tmp_path, monkeypatch):
    (tmp_path / "small.toml").write_text(CELLS)
    monkeypatch.setattr(runner, "run_cell", failing)
    with using(scattered), pytest.raises(DataError, match=r"MLP, seed [012]: no test node"):
        runner.run(Spec.read(tmp_path / "small.toml"), tmp_path)


def failing(cell, data_dir):
    raise DataError("no test node")


def test_ranges_cover_everything_once(scattered):
    for total in (0, 1, 6, 7, 8, 100):
        for chosen in (LOCAL, scattered):
            with using(chosen):
                ranges = cut(total, 30)
            assert [row for pair in ranges for row in range(*pair)] == list(range(total))
            assert len(ranges) == -(-total // max(1, min(30, -(-total // chosen.parts))))
            assert all(last - first <= 30 for first, last in ranges)
