"""Accuracies after every step of training: as many as there are steps, right, and without any trace in model or certificate."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from central_hops import BUDGET, EDGE, NODE, small

import sfumato as sf
from sfumato.catalog import method_named

METHODS = {
    "progap": sf.ProGAP(depth=2, epochs=3, batch_size=60),
    "gap": sf.GAP(epochs=3, batch_size=60),
    "mlp": sf.MLP(epochs=3, batch_size=60),
}
BOTH = pytest.mark.parametrize("unit", [EDGE, NODE], ids=["edge", "node"])
ALL = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)


@cache
def plan_of(method, unit):
    return method.calibrate(BUDGET, unit, small().public_facts(unit))


def fit(method, graph, unit, **how):
    return plan_of(method, unit).fit(graph, **how)


@BOTH
@ALL
def test_measuring_changes_neither_model_nor_certificate(method, unit, fixed_key):
    """To the bit where sums are exact. Full-batch training is float32, whose last bits no two fits need share."""
    graph = small()
    plain, measured = fit(method, graph, unit), fit(method, graph, unit, measure=True)
    assert plain.weights.keys() == measured.weights.keys()
    first = next(iter(plain.weights)).split(".")[0]
    for name, array in plain.weights.items():
        if unit is NODE:
            assert np.array_equal(array, measured.weights[name])
        elif name.startswith(first):  # later stages read noise that is drawn anew for other last bits
            np.testing.assert_allclose(array, measured.weights[name], atol=1e-4)
    assert unit is EDGE or all(np.array_equal(plain.released[name], measured.released[name]) for name in plain.released)
    assert plain.certificate.to_json() == measured.certificate.to_json()
    assert plain.ledger.head == measured.ledger.head
    assert plain.curves.keys() == measured.curves.keys()
    assert plain.accuracies == {}


@BOTH
@ALL
def test_every_step_of_every_stage_is_measured(method, unit):
    graph = small()
    fitted = fit(method, graph, unit, measure=True)
    stages = {"progap": ["stage/0", "stage/1", "stage/2"], "gap": ["encoder", "classifier"], "mlp": ["network"]}
    assert list(fitted.accuracies) == stages[method.name]
    for stage, roles in fitted.accuracies.items():
        steps = 3 if unit is EDGE else fitted.plan.event(stage).steps
        assert {role: len(values) for role, values in roles.items()} == {"train": steps, "validation": steps}
        assert all(0 <= one <= 1 for values in roles.values() for one in values)


@ALL
def test_the_last_step_is_the_model_that_leaves(method):
    """At node level the last iterate stays, so its accuracy is that of the predictions."""
    graph = small()
    fitted = fit(method, graph, NODE, measure=True)
    right = fitted.predict(graph) == graph.y
    *_, last = fitted.accuracies.values()
    for role, mask in (("train", graph.train_mask), ("validation", graph.val_mask)):
        assert last[role][-1] == pytest.approx(right[mask].mean(), abs=1.5 / mask.sum())


def test_the_kept_epoch_is_among_those_measured():
    graph = small()
    fitted = fit(sf.ProGAP(depth=2, epochs=30), graph, EDGE, measure=True)
    right = (fitted.predict(graph) == graph.y)[graph.val_mask].mean()
    assert max(fitted.accuracies["stage/2"]["validation"]) == pytest.approx(right)


def test_validation_labels_reach_nothing_but_the_measurements(fixed_key):
    graph = small()
    other = replace(graph, y=np.where(graph.val_mask, (graph.y + 1) % 3, graph.y))
    one, two = (fit(METHODS["progap"], each, NODE, measure=True) for each in (graph, other))
    assert all(np.array_equal(one.weights[name], two.weights[name]) for name in one.weights)
    assert one.accuracies["stage/2"]["train"] == two.accuracies["stage/2"]["train"]
    assert one.accuracies["stage/2"]["validation"] != two.accuracies["stage/2"]["validation"]


def test_a_run_folder_holds_none_of_it(tmp_path):
    fitted = fit(METHODS["progap"], small(), NODE, measure=True)
    folder = fitted.save(tmp_path / "run")
    assert {path.name for path in folder.iterdir()} == {"release", "identity.json"}
    assert b"validation" not in b"".join(path.read_bytes() for path in (folder / "release").glob("*.json*"))
    assert sf.load(folder).accuracies == {}


@BOTH
@pytest.mark.parametrize("name", ["linear", "label-messages"])
def test_other_methods_are_fitted_as_ever(name, unit):
    """What reads whole rows alone is not measured; the fit ends, with the charge that was planned."""
    graph = small()
    fitted = fit(method_named(name), graph, unit, measure=True)
    assert not any(fitted.accuracies.values()) or unit is EDGE
    assert fitted.predict(graph).shape == (graph.num_nodes,)
