"""Types of edges at node level: what a pilot says of each, that runs verify, and what a forger would change."""

import json
from dataclasses import replace

import numpy as np
import pytest

import sfumato as sf
from sfumato.central import _typed_pilot as pilot
from sfumato.central._auto import Auto
from sfumato.central._piloted import TYPES_HIDDEN, PilotedMessages
from sfumato.graph._graph import Graph
from sfumato.verify import verify
from sfumato.verify._methods import rules_of
from sfumato.verify._types import type_faults

NODE, NAMES = sf.NodeLevel(), ("far", "near", "other")


def people(nodes=2000, seed=0, public=(), telling=(1,)):
    """Two classes; types of which some link nodes of one class, four edges a node and type."""
    rng = np.random.default_rng(seed)
    y, kinds = rng.integers(2, size=nodes), np.repeat(range(3), 4 * nodes)
    source, target = rng.integers(nodes, size=(2, len(kinds)))
    alike = np.isin(kinds, telling) & (rng.random(len(kinds)) < 0.7)
    for label in (0, 1):
        rows = np.flatnonzero(alike & (y[source] == label))
        target[rows] = rng.choice(np.flatnonzero(y == label), len(rows))
    types = {"edge_type": kinds, "edge_types": NAMES, "public_types": public, "classes": ("a", "b")}
    x = rng.normal(size=(nodes, 2)).astype(np.float32)
    return Graph.from_edges(source, target, nodes, directed=False, x=x, y=y, **types).with_split(seed=seed)


def fit(graph, epsilon=8.0, unit=NODE, method=None):
    method = method or Auto()
    return method.calibrate(sf.Budget(epsilon, 1e-5), unit, graph.public_facts(unit)).fit(graph)


def accuracy(fitted, graph):
    return float((fitted.predict(graph) == graph.y)[graph.test_mask].mean())


def test_types_that_say_nothing_are_left_out_and_the_sum_over_all_is_beaten():
    graph = people()
    fitted = fit(graph)
    assert fitted.plan.method.name == "piloted-messages"
    weights = fitted.weights["types.weight"][0]
    assert weights[1] == 1
    assert max(weights[0], weights[2]) < 0.4
    assert accuracy(fitted, graph) > accuracy(fit(graph.changed(types=None)), graph) + 0.03


@pytest.mark.parametrize("unit", [NODE, sf.NodeLevel(6, relation="replace")], ids=str)
def test_a_run_says_that_all_types_are_protected_verifies_and_predicts_again(tmp_path, unit):
    graph = people(public=("other",))
    fitted = fit(graph, 16.0, unit, PilotedMessages(epochs=10))
    assert fitted.certificate.values["protects"].endswith("of all types (far, near, other)")
    assert "public_types" not in fitted.certificate.values["public_facts"]
    assert fitted.released["aggregate/1"].shape == (2000, 6)
    assert fitted.released["types"].shape == (1, 6)
    fitted.save(tmp_path / "run")
    assert verify(tmp_path / "run").problems == ()
    again = sf.load(tmp_path / "run")
    np.testing.assert_allclose(again.predict_proba(graph), fitted.predict_proba(graph), atol=1e-5)
    other = people(seed=5)
    with pytest.warns(sf.errors.SfumatoWarning, match="has the node ids"):
        inferred = again.calibrate_inference(sf.Budget(16.0, 1e-5), unit, other.public_facts(unit)).fit(other)
    assert inferred.released["aggregate/1"].shape == (2000, 2)
    assert accuracy(inferred, other) > 0.6
    inferred.save(tmp_path / "other")
    assert verify(tmp_path / "other").problems == ()


def test_a_public_rule_reads_all_edges_alike_where_noise_hides_types(tmp_path):
    graph = people()
    fitted = fit(graph, 1.5, method=PilotedMessages(epochs=10))
    assert TYPES_HIDDEN in fitted.unused
    assert TYPES_HIDDEN in fitted.certificate.values["notes"]
    assert fitted.released["aggregate/1"].shape == (2000, 2)
    fitted.save(tmp_path / "run")
    assert verify(tmp_path / "run").problems == ()
    facts = graph.public_facts(NODE)
    assert not pilot.tells_apart(NODE, replace(facts, num_train=100), 0.5)
    assert pilot.tells_apart(NODE, replace(facts, num_train=10**6), 0.5)
    assert not pilot.tells_apart(NODE, replace(facts, edge_types=None), 1e-6)


def test_a_verifier_knows_how_noise_is_split_among_the_releases(tmp_path):
    """Less noise on the sum about types, or on the pilot, than their shares of the budget is noticed."""
    fitted = fit(people(), method=PilotedMessages(epochs=10))
    rules, certificate = rules_of("piloted-messages"), json.loads(json.dumps(dict(fitted.certificate.values)))
    assert list(rules.faults(certificate)) == []
    for name in ("aggregate/1", "types", "aggregate/2"):
        forged = json.loads(json.dumps(certificate))
        event = next(one["event"] for one in forged["releases"] if one["name"] == name)
        event["noise_multiplier"] *= 0.9
        assert any("noise_multiplier" in fault for fault in rules.faults(forged)), name
    planned = {one.name: one for one in rules.releases(certificate)}
    stated = {one["name"]: one for one in certificate["releases"]}
    assert {name: one.arc_change for name, one in planned.items()} == {
        name: one["arc_change"] for name, one in stated.items()
    }
    assert (stated["aggregate/1"]["arc_change"], stated["aggregate/2"]["arc_change"]) == (2**0.5, 1.0)


def test_public_types_are_refused_in_certificates_of_nodes():
    facts = {"edge_types": list(NAMES), "public_types": ["far"]}
    unit = {"name": "node", "arcs": "owned", "relation": "remove", "max_out_degree": None}
    found = list(
        type_faults({"method": "piloted-messages", "unit": unit, "public_facts": facts}, rules_of("piloted-messages"))
    )
    assert len(found) == 1
    assert "expected none under this unit" in found[0]


@pytest.mark.parametrize(
    ("told", "noise", "expected"),
    [
        ([0, 0, 0, 300, 300, 300], 1.0, [1, 1, 1]),  # nothing is heard: the graph without its types
        ([-40, -30, -20, 300, 300, 300], 1.0, [1, 1, 1]),
        ([90, 0, 0, 300, 300, 300], 1.0, [1, 0, 0]),
        ([50, 49, 51, 300, 300, 300], 1.0, [1, 1, 1]),
        ([60, 40, 20, 300, 300, 300], 400.0, [1, 1, 1]),  # hidden by noise
        ([20, 40, 0, 100, 400, 400], 0.1, [1, 1, 0]),  # twice the sum of four times as many arcs: each tells as much
    ],
)
def test_weights_are_what_an_arc_of_a_type_tells_shrunk_by_noise(told, noise, expected):
    found = pilot.weights_of(np.array(told, float), noise, 1000, 40)[0]
    np.testing.assert_allclose(found, expected, atol=0.13)
