"""GAP's ways to combine hops: the same noise, networks that the verifier derives, and settings that kept runs do not name."""

import json
from functools import cache

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import InputError
from sfumato.graph._synthetic import stochastic_block_model
from sfumato.nn._models import COMBINE
from sfumato.nn._weights import num_parameters
from sfumato.verify import verify
from sfumato.verify._methods import rules_of
from sfumato.verify._releases import release_faults

EDGE, NODE = sf.EdgeLevel(directed=False), sf.NodeLevel(max_out_degree=6)
UNITS = {"edge": EDGE, "node": NODE, "none": sf.NoPrivacy()}
PARAMETERS = {"cat": 48 * 3 + 3, "sum": 16 * 3 + 3, "attention": 16 * 3 + 3 + 3 * (16 + 1)}
EACH = pytest.mark.parametrize("combine", COMBINE)


@cache
def fitted(combine, word):
    graph, unit = small(), UNITS[word]
    budget = None if word == "none" else sf.Budget(epsilon=4.0, delta=1e-6)
    method = sf.GAP(num_hops=2, epochs=2, combine=combine)
    return method.calibrate(budget, unit, graph.public_facts(unit)).fit(graph)


@cache
def small():
    return stochastic_block_model(150, 3, mean_degree=20, num_features=5, seed=1).with_split(seed=0)


def certificate(combine, word):
    return json.loads(fitted(combine, word).certificate.to_json())


@EACH
def test_only_the_classifier_changes(combine):
    """Hops, encoder and their noise are those of concatenation; the classifier's release has as many numbers as weights."""
    plans = [fitted(one, "node").plan for one in ("cat", combine)]
    assert plans[0].releases[:-1] == plans[1].releases[:-1]
    assert plans[0].releases[-1].event == plans[1].releases[-1].event
    _, classifier = plans[1].method.trained(fitted(combine, "node").weights, plans[1].public)
    assert plans[1].releases[-1].shape == (num_parameters(classifier),)
    assert num_parameters(classifier) == 3 * (16 * 16 + 16) + PARAMETERS[combine]
    assert fitted("cat", "edge").plan.releases == fitted(combine, "edge").plan.releases


@EACH
@pytest.mark.parametrize("word", UNITS)
def test_a_saved_run_verifies_loads_and_predicts(combine, word, tmp_path):
    fit = fitted(combine, word)
    checked = verify(fit.save(tmp_path / "run"))
    assert checked.valid, checked.problems
    loaded = sf.load(tmp_path / "run")
    assert loaded.plan.method == fit.plan.method
    assert np.array_equal(loaded.predict_proba(small()), fit.predict_proba(small()))


def test_concatenation_is_not_named():
    """Certificates of kept runs have no such setting, and what says the same is written the same."""
    assert "combine" not in certificate("cat", "edge")["settings"]
    assert certificate("sum", "edge")["settings"]["combine"] == "sum"
    stated = certificate("sum", "edge")
    for wrong in ("cat", "mean", None):
        stated["settings"]["combine"] = wrong
        (problem,) = rules_of("gap").setting_faults(stated)
        assert "settings.combine: expected one of sum, attention" in problem


@pytest.mark.parametrize("word", ["edge", "node"])
def test_the_verifier_derives_the_networks_of_each_way(word):
    """A certificate that claims another way has other weights, and at node level another release."""
    shapes = {combine: rules_of("gap").networks(certificate(combine, word)) for combine in COMBINE}
    for combine, found in shapes.items():
        arrays = {name: list(np.atleast_1d(array).shape) for name, array in fitted(combine, word).weights.items()}
        assert found == arrays
        stated = certificate(combine, word)
        assert not list(release_faults(stated, rules_of("gap")))
        stated["settings"]["combine"] = "sum" if combine == "attention" else "attention"
        problems = list(release_faults(stated, rules_of("gap")))
        assert bool(problems) == (word == "node"), problems
    assert len({tuple(sorted(found)) for found in shapes.values()}) == 2  # cat and sum differ in sizes alone
    assert shapes["cat"] != shapes["sum"]


def test_inference_on_another_graph_reads_the_same_hops():
    other = stochastic_block_model(120, 3, mean_degree=20, num_features=5, seed=2)
    plan = fitted("attention", "edge").calibrate_inference(sf.Budget(4.0, 1e-6), EDGE, other.public_facts(EDGE))
    assert [release.shape for release in plan.releases] == [(120, 16), (120, 16)]
    assert plan.fit(other).predict(other).shape == (120,)


def test_bad_values():
    with pytest.raises(InputError, match="Expected combine to be one of cat, sum, attention, got 'mean'"):
        sf.GAP(combine="mean")
