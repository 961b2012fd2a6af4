"""ProGAP: what is charged and when, what each stage sends, prediction, inference on another graph, and that it learns."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from central_hops import ARC, BUDGET, EDGE, NODE, fitted, small

import sfumato as sf
from sfumato import verify
from sfumato.bounded import _gradients as gradients
from sfumato.central import _progap as progap
from sfumato.loops.kernels import INT16_ONE
from sfumato.method import hops as engine
from sfumato.method.contract import Session

BOTH = pytest.mark.parametrize("layerwise", [False, True], ids=["progressive", "layerwise"])


def fit(graph, unit=EDGE, **settings):
    return fitted(sf.ProGAP(**{"depth": 2, "epochs": 3, "batch_size": 60, **settings}), graph, unit)


def test_defaults_follow_the_unit():
    graph = small()
    edge, node = (sf.ProGAP().calibrate(BUDGET, unit, graph.public_facts(unit)) for unit in (EDGE, NODE))
    assert [release.name for release in edge.releases] == [f"aggregate/{k}" for k in range(1, 6)]
    assert [release.name for release in node.releases] == [
        "stage/0", "aggregate/1", "stage/1", "aggregate/2", "stage/2", "aggregate/3", "stage/3", "aggregate/4", "stage/4",
    ]  # fmt: skip
    assert node.event("stage/0").steps == 5 * node.public.num_train // min(256, node.public.num_train)
    assert node.event("stage/4") == node.event("stage/0")
    arc = sf.ProGAP().calibrate(sf.Budget(1.0, 1e-7), ARC, graph.public_facts(ARC))
    assert arc.event("aggregate/3").noise_multiplier == pytest.approx(10.4618, abs=6e-5)


@pytest.mark.parametrize("unit", [EDGE, NODE])
@BOTH
def test_releases_happen_in_the_planned_order_and_nothing_is_computed_before_its_charge(unit, layerwise, monkeypatch):
    """Every sum and every training folder finds its own charge to be the newest."""
    done, original_sum, original_train = [], engine.noisy_neighborhood_sum, progap.train
    charged = []
    monkeypatch.setattr(
        Session,
        "charge",
        lambda self, name, charge=Session.charge: (charged.append(name), charge(self, name))[1],
    )

    def summed(*arguments):
        done.append(charged[-1])
        return original_sum(*arguments)

    def trained(settings, plan, session, stage, *rest):
        original_train(settings, plan, session, stage, *rest)
        if unit is NODE:
            assert charged[-1] == stage
            done.append(stage)

    monkeypatch.setattr(engine, "noisy_neighborhood_sum", summed)
    monkeypatch.setattr(progap, "train", trained)
    plan = fit(small(), unit, layerwise=layerwise).plan
    assert done == charged == [release.name for release in plan.releases]


@pytest.mark.parametrize("unit", [EDGE, NODE])
@BOTH
def test_a_message_of_a_later_stage_is_post_processing_of_the_aggregate_before(unit, layerwise, hops):
    """From stage 1 on, a message is a function of released rows and weights: other features give the same one."""
    graph = small()
    run = fit(graph, unit, layerwise=layerwise)
    other = replace(graph, x=graph.x + 1)
    for features, reads in ((graph, False), (other, True)):
        cache = progap.Cache(run.plan.method, features)
        for stage, network in enumerate(run.plan.method.trained(run.weights, unit, run.plan.public)[:-1]):
            sent = cache.messages(network)
            assert np.array_equal(sent, hops[stage][1]) == (stage > 0 or not reads)
            cache.add(run.released[f"aggregate/{stage + 1}"])


def test_aggregates_enter_as_they_were_released():
    graph = small()
    run = fit(graph)
    cache = progap.Cache(run.plan.method, graph)
    cache.add(run.released["aggregate/1"])
    np.testing.assert_allclose(
        cache.rows(np.arange(len(run.released["aggregate/1"])))[1].numpy() * INT16_ONE,
        run.released["aggregate/1"],
        rtol=1e-6,
    )


def test_progressive_training_moves_earlier_bases_and_layerwise_training_leaves_them_out():
    progressive, layerwise = fit(small()).weights, fit(small(), layerwise=True).weights
    assert not np.array_equal(progressive["stage/0.base.0.0.weight"], progressive["stage/1.base.0.0.weight"])
    assert progressive["stage/2.base.2.0.weight"].shape == (16, 16)
    assert layerwise["stage/2.base.0.0.weight"].shape == (16, 16)
    assert "stage/2.base.1.0.weight" not in layerwise
    assert progressive["stage/2.head.weight"].shape == layerwise["stage/2.head.weight"].shape == (3, 48)


def test_each_stage_starts_where_the_one_before_ended(monkeypatch):
    monkeypatch.setattr(progap, "train", lambda *arguments: None)
    weights = fit(small(), sf.NoPrivacy()).weights
    for name in ("base.0.0.weight", "base.0.0.bias"):
        np.testing.assert_array_equal(weights[f"stage/0.{name}"], weights[f"stage/2.{name}"])
    np.testing.assert_array_equal(weights["stage/1.base.1.0.weight"], weights["stage/2.base.1.0.weight"])
    assert not np.array_equal(weights["stage/0.head.weight"], weights["stage/1.head.weight"][:, :16])


@BOTH
@pytest.mark.parametrize("unit", [EDGE, NODE])
def test_layerwise_runs_verify_and_load(unit, layerwise, tmp_path):
    graph = small()
    run = fit(graph, unit, layerwise=layerwise, base_layers=2)
    folder = run.save(tmp_path / "folder")
    assert verify.verify(folder).problems == ()
    np.testing.assert_array_equal(sf.load(folder).predict_proba(graph), run.predict_proba(graph))


@BOTH
@pytest.mark.parametrize("stored", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
def test_a_record_that_overflows_float32_does_not_reach_other_gradients(stored, layerwise, monkeypatch):
    """What enters DP-SGD is finite: no clip norm bounds a row that is not a number."""
    seen, original = [], gradients.clipped_gradient_sum
    monkeypatch.setattr(gradients, "clipped_gradient_sum", lambda *args: (seen.extend(args[1]), original(*args))[1])
    monkeypatch.setattr("sfumato.graph._checks.MOST_FEATURE", np.inf)
    graph = small()
    x = graph.x.copy()
    x[np.flatnonzero(graph.train_mask)] = (1e30, -1e30, 1e30, 1e30, -1e30)
    fit(replace(graph, x=stored(x)), NODE, layerwise=layerwise, width=4)
    assert seen
    assert all(torch.isfinite(rows).all() for rows in seen)
