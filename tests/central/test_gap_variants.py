"""GAP's ways to combine hops, and GAP without its encoder: their noise, and networks and settings that the verifier derives."""

import json
import math
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from central_hops import BUDGET, EDGE, NODE, fitted, small

import sfumato as sf
from sfumato.bounded.aggregation import normalize_rows
from sfumato.errors import InputError
from sfumato.graph._graph import Graph
from sfumato.nn._models import COMBINE
from sfumato.nn._weights import num_parameters
from sfumato.verify import verify
from sfumato.verify._methods import rules_of
from sfumato.verify._releases import release_faults

UNITS = {"edge": EDGE, "node": NODE, "none": sf.NoPrivacy()}
PARAMETERS = {"cat": 48 * 3 + 3, "sum": 16 * 3 + 3, "attention": 16 * 3 + 3 + 3 * (16 + 1)}
VARIANTS = {combine: {"combine": combine} for combine in COMBINE} | {"no encoder": {"encoder": False}}
GRAPH = small()
GAP = rules_of("gap")


@cache
def fit(variant, word):
    return fitted(sf.GAP(num_hops=2, epochs=2, **VARIANTS[variant]), GRAPH, UNITS[word])


def certificate(variant, word):
    return json.loads(fit(variant, word).certificate.to_json())


@pytest.mark.parametrize("combine", COMBINE)
def test_only_the_classifier_changes(combine):
    """Hops, encoder and their noise are those of concatenation; the classifier's release has as many numbers as weights."""
    plans = [fit(one, "node").plan for one in ("cat", combine)]
    assert plans[0].releases[:-1] == plans[1].releases[:-1]
    assert plans[0].releases[-1].event == plans[1].releases[-1].event
    _, classifier = plans[1].method.trained(fit(combine, "node").weights, plans[1].public)
    assert plans[1].releases[-1].shape == (num_parameters(classifier),)
    assert num_parameters(classifier) == 3 * (16 * 16 + 16) + PARAMETERS[combine]
    assert fit("cat", "edge").plan.releases == fit(combine, "edge").plan.releases


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("word", UNITS)
def test_a_saved_run_verifies_loads_and_predicts(variant, word, tmp_path):
    run = fit(variant, word)
    checked = verify(run.save(tmp_path / "run"))
    assert checked.valid, checked.problems
    loaded = sf.load(tmp_path / "run")
    assert loaded.plan.method == run.plan.method
    assert np.array_equal(loaded.predict_proba(GRAPH), run.predict_proba(GRAPH))


def test_concatenation_is_not_named():
    """Certificates of kept runs have no such setting, and what says the same is written the same."""
    assert "combine" not in certificate("cat", "edge")["settings"]
    assert certificate("sum", "edge")["settings"]["combine"] == "sum"
    stated = certificate("sum", "edge")
    for wrong in ("cat", "mean", None):
        stated["settings"]["combine"] = wrong
        (problem,) = GAP.setting_faults(stated)
        assert "settings.combine: expected one of sum, attention" in problem


@pytest.mark.parametrize("word", ["edge", "node"])
def test_the_verifier_derives_the_networks_of_each_way(word):
    """A certificate that claims another way has other weights, and at node level another release."""
    shapes = {combine: GAP.networks(certificate(combine, word)) for combine in COMBINE}
    for combine, found in shapes.items():
        arrays = {name: list(np.atleast_1d(array).shape) for name, array in fit(combine, word).weights.items()}
        assert found == arrays
        stated = certificate(combine, word)
        assert not list(release_faults(stated, GAP))
        stated["settings"]["combine"] = "sum" if combine == "attention" else "attention"
        problems = list(release_faults(stated, GAP))
        assert bool(problems) == (word == "node"), problems
    assert len({tuple(sorted(found)) for found in shapes.values()}) == 2  # cat and sum differ in sizes alone
    assert shapes["cat"] != shapes["sum"]


@pytest.mark.parametrize("word", ["edge", "node"])
def test_the_verifier_knows_what_the_encoder_changes(word):
    stated = certificate("no encoder", word)
    stated["settings"]["encoder"] = True
    problems = list(release_faults(stated, GAP))
    assert any("releases[0].shape: expected nodes and width, [150, 16]" in text for text in problems), problems
    assert any("releases: expected ['encoder'" in text for text in problems) == (word == "node")


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("unit", "sensitivity"), [(EDGE, math.sqrt(2)), (NODE, math.sqrt(6))])
def test_without_an_encoder_features_are_sent_with_the_noise_of_the_plan(hops, unit, sensitivity, sparse):
    graph, x = GRAPH, np.asarray(GRAPH.x)
    if sparse:
        x = x * (x > 2)
        graph = Graph(graph.indptr, graph.indices, False, sp.csr_matrix(x), graph.y, graph.classes, roles=graph.roles)
    run = fitted(sf.GAP(epochs=2, encoder=False), graph, unit)
    _, rows, stddev = hops[0]
    assert np.array_equal(rows, normalize_rows(x))
    assert np.linalg.norm(rows, axis=1).max() <= 1 + 1e-6
    assert stddev == pytest.approx(sensitivity * run.plan.event("aggregate/1").noise_multiplier)
    assert [hop[1].shape for hop in hops] == [(150, 5), (150, 5)]
    assert {array.shape for array in run.released.values()} == {(150, 5)}


def test_without_an_encoder_hops_alone_are_charged_and_at_node_level_the_classifier():
    edge, node = fit("no encoder", "edge"), fit("no encoder", "node")
    hops = [(f"aggregate/{k}", (150, 5), 10) for k in (1, 2)]
    assert [(one.name, one.shape, one.affected_coordinates) for one in edge.plan.releases] == hops
    assert {name.split(".")[0] for name in edge.weights} == {"classifier"}
    assert [release.name for release in node.plan.releases] == ["aggregate/1", "aggregate/2", "classifier"]
    assert node.plan.epsilon <= 4
    usual = fit("cat", "node").plan.event("aggregate/1")
    assert node.plan.event("aggregate/1").noise_multiplier < usual.noise_multiplier
    _, classifier = node.plan.method.trained(node.weights, node.plan.public)
    assert node.plan.releases[-1].shape == (num_parameters(classifier),)
    assert num_parameters(classifier) == 3 * (5 * 16 + 16) + 48 * 3 + 3


@pytest.mark.parametrize(("variant", "width"), [("attention", 16), ("no encoder", 5)])
def test_inference_on_another_graph_reads_the_same_hops(variant, width):
    other = small(2, num_nodes=120)
    plan = fit(variant, "edge").calibrate_inference(BUDGET, EDGE, other.public_facts(EDGE))
    assert [release.shape for release in plan.releases] == [(120, width), (120, width)]
    assert plan.fit(other).predict(other).shape == (120,)


def test_bad_values():
    with pytest.raises(InputError, match="Expected combine to be one of cat, sum, attention, got 'mean'"):
        sf.GAP(combine="mean")
    with pytest.raises(InputError, match="Expected encoder to be True or False, got 'no'"):
        sf.GAP(encoder="no")
    with pytest.raises(InputError, match="encoder to be True for a graph without features"):
        fitted(sf.GAP(encoder=False), small(num_features=0))
