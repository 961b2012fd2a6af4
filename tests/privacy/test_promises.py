"""Implausible promises: what is said of them, that the verifier says the same, and that nothing private decides it."""

import itertools
import warnings
from dataclasses import asdict
from types import SimpleNamespace

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import SfumatoWarning
from sfumato.graph._graph import Graph
from sfumato.graph._synthetic import stochastic_block_model
from sfumato.pate._plan import Settings, make_plan
from sfumato.privacy.promises import implausible, weak
from sfumato.privacy.units import (
    ClassLevel,
    EdgeLevel,
    LinkLevel,
    LocalLevel,
    NodeLevel,
    NoPrivacy,
    RecordLevel,
    SubclassLevel,
    unit_to_dict,
)
from sfumato.verify._methods import rules_of

EDGE, NODE, NONE = EdgeLevel(directed=False), NodeLevel(max_out_degree=9), NoPrivacy()
PLAIN = {"num_nodes": 1000, "num_train": 700, "num_classes": 5, "mean_degree": None}
FEATURES_ONLY = LocalLevel(labels=False)

# unit, epsilon, delta, facts beside PLAIN, settings, codes: each row beside its near miss.
CASES = [
    (EDGE, 1.0, 1e-6, {}, {}, ()),
    (EDGE, 1.0, 1e-3, {}, {}, ("delta-per-record",)),
    (EDGE, 1.0, 9.9e-4, {}, {}, ()),
    (NODE, 1.0, 0.5, {}, {}, ("delta-per-record", "delta-large")),
    (NODE, 1.0, 1.01e-3, {"num_nodes": 900}, {}, ("delta-large",)),
    (RecordLevel(), 10.1, 1e-6, {}, {}, ("epsilon-large",)),
    (RecordLevel(), 10.0, 1e-6, {}, {}, ()),
    (EDGE, 1.0, 1e-6, {"num_nodes": 49}, {}, ("few-nodes",)),
    (EDGE, 1.0, 1e-6, {"num_nodes": 50}, {}, ()),
    (NONE, None, None, {"num_nodes": 49, "num_arcs": 49}, {}, ("few-nodes",)),
    (NONE, None, None, {"num_arcs": 499}, {}, ("few-arcs",)),
    (NONE, None, None, {"num_arcs": 500}, {}, ()),
    (NODE, 1.0, 1e-6, {"mean_degree": 0.4}, {}, ("few-arcs",)),
    (NODE, 1.0, 1e-6, {"mean_degree": 0.5}, {}, ()),
    (EDGE, 1.0, 1e-6, {"untrained_classes": 1}, {}, ("untrained-class",)),
    (EDGE, 1.0, 1e-6, {"untrained_classes": 0}, {}, ()),
    (NODE, 1.0, 1e-6, {"assumed": ("classes", "roles")}, {}, ("given-roles",)),
    (NODE, 1.0, 1e-6, {"assumed": ("classes",)}, {}, ()),
    (NODE, 1.0, 1e-6, {"num_classes": 71}, {}, ("many-classes",)),
    (NODE, 1.0, 1e-6, {"num_classes": 70}, {}, ()),
    (NONE, None, None, {"num_train": 9000, "num_classes": 101}, {}, ("many-classes",)),
    (NONE, None, None, {"num_train": 9000, "num_classes": 100}, {}, ()),
    (NODE, 1.0, 1e-6, {"num_train": 50}, {}, ()),  # 10 a class; the noise of one count at this budget is 4.2
    (NODE, 0.1, 1e-6, {"num_train": 50}, {}, ("hidden-classes",)),  # and here 35
    (NodeLevel(max_out_degree=9, relation="replace"), 0.5, 1e-6, {"num_train": 75}, {}, ("hidden-classes",)),
    (NODE, 0.5, 1e-6, {"num_train": 75}, {}, ()),
    (EDGE, 1.0, 1e-6, {"mean_degree": 1.0}, {}, ()),
    (EDGE, 0.01, 1e-6, {"mean_degree": 1.0}, {}, ("hidden-classes",)),
    (EDGE, 0.01, 1e-6, {}, {}, ()),
    (LocalLevel(), 1.0, 0.0, {}, {"epsilon_y": 1.0}, ()),
    (LocalLevel(), 1.0, 0.0, {}, {"epsilon_y": 0.1}, ("hidden-classes",)),
    (FEATURES_ONLY, 1.0, 0.0, {}, {"epsilon_y": None}, ()),
    (LinkLevel(), 5.0, 0.0, {"untrained_classes": 2}, {}, ("untrained-class",)),
]  # fmt: skip


def both(unit, epsilon, delta, facts, settings, method="gap", builds_on=()):
    """What library and verifier say."""
    claim = {"epsilon": epsilon, "delta": delta}
    ours = implausible(unit, claim, facts, settings, learns=not builds_on, reads_links=method != "mlp")
    certificate = {
        "method": method,
        "unit": unit_to_dict(unit),
        "claim": claim,
        "public_facts": facts,
        "assumed_public": facts.get("assumed", ()),
        "settings": settings,
    }
    theirs = [*rules_of(method).doubts({**certificate, "composition": {"builds_on": builds_on}})]
    return [tuple(one) for one in ours], theirs


@pytest.mark.parametrize(("unit", "epsilon", "delta", "facts", "settings", "codes"), CASES)
def test_every_threshold_from_both_sides_and_the_verifier_agrees(unit, epsilon, delta, facts, settings, codes):
    ours, theirs = both(unit, epsilon, delta, {**PLAIN, **facts}, settings)
    assert tuple(code for code, _ in ours) == codes
    assert theirs == ours


def test_library_and_verifier_agree_on_a_grid():
    grid = itertools.product(
        (EDGE, NODE, NodeLevel(relation="replace"), NONE, LocalLevel(), FEATURES_ONLY),
        (1e-9, 0.05, 1.0, 30.0), (1e-9, 0.5), (1, 60, 10**6), (0, 1, 40), (0, 2, 5000), (None, 0, 0.2, 1e300),
    )  # fmt: skip
    seen = set()
    for unit, epsilon, delta, nodes, train, classes, degree in grid:
        facts = {"num_nodes": nodes, "num_train": train, "num_classes": classes, "mean_degree": degree}
        claim = (None, None) if unit is NONE else (epsilon, delta)
        ours, theirs = both(unit, *claim, facts, {"epsilon_y": epsilon})
        assert ours == theirs
        seen |= {code for code, _ in ours}
    assert seen == {
        "delta-per-record",
        "delta-large",
        "epsilon-large",
        "few-nodes",
        "few-arcs",
        "many-classes",
        "hidden-classes",
    }


def test_inference_says_nothing_about_classes_and_a_method_without_links_nothing_about_arcs():
    facts = {**PLAIN, "num_classes": 500, "mean_degree": 0.1}
    of_inference = both(NODE, 1.0, 1e-6, facts, {}, builds_on=[{}])
    assert [[code for code, _ in found] for found in of_inference] == [["few-arcs"]] * 2
    graph_free = both(NODE, 1.0, 1e-6, {**PLAIN, "mean_degree": 0.1}, {}, method="mlp")
    assert graph_free == ([], [])


@pytest.mark.parametrize(
    ("teachers", "epsilon", "delta", "codes"),
    [
        (250, 2.0, 1e-5, []),
        (50, 1.0, 1e-5, ["noisy-votes"]),
        (250, 2.0, 5e-3, ["delta-per-record", "delta-large"]),
        (2000, 2.0, 6e-4, ["delta-per-record"]),
        (250, 12.0, 1e-5, ["epsilon-large"]),
    ],
)
@pytest.mark.parametrize("mechanism", ["gnmax", "confident-gnmax"])
def test_pate_is_judged_by_its_teachers(teachers, epsilon, delta, codes, mechanism):
    plan = make_plan(Settings(teachers, 300, epsilon, delta, mechanism=mechanism))
    found = plan.caveats(teachers)
    assert [code for code, _ in found] == codes
    settings = {"num_teachers": teachers, "mechanism": {"name": mechanism, "noise_stddev": plan.mechanism.noise_stddev}}
    stated = {"method": "pate", "settings": settings, "claim": plan.to_dict()["claim"], "public_facts": {}}
    assert [*rules_of("pate").doubts(stated)] == [tuple(one) for one in found]


def test_every_sentence_names_a_remedy():
    found = {code: text for row in CASES for code, text in both(*row[:3], {**PLAIN, **row[3]}, row[4])[0]}
    for text in [*found.values(), *(text for _, text in weak(20.0, 0.5))]:
        assert text.endswith(".")
        assert any(word in text for word in ("Choose", "Collect", "Check", "Merge", "Name"))


def test_calibrate_warns_and_fit_does_not():
    graph = stochastic_block_model(40, 2, mean_degree=6, num_features=3, seed=0).with_split()
    budget, public = sf.Budget(1.0, 0.5), graph.public_facts(EDGE)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        plan = sf.GAP(num_hops=1, epochs=1).calibrate(budget, EDGE, public)
    assert [str(one.message).split(":")[0] for one in told] == ["delta-per-record", "delta-large", "few-nodes"]
    assert {one.category for one in told} == {SfumatoWarning}
    with warnings.catch_warnings():
        warnings.simplefilter("error", SfumatoWarning)
        fitted = plan.fit(graph)
    assert fitted.certificate.values["caveats"] == [text for _, text in plan.caveats]


# -- nothing that is not public decides what is said -------------------------------------------------------------------


def neighbors(unit):
    """Graphs that differ in much of what the unit protects, and in nothing else; some have hardly an arc or class."""
    size, rng = 60, np.random.default_rng(0)
    ring, none = (np.arange(size), (np.arange(size) + 1) % size), ([], [])
    labels, one = rng.integers(0, 3, size), np.zeros(size, int)
    x, zero = rng.random((size, 4)), np.zeros((size, 4))
    free = {
        "arcs": "arcs" not in unit.public,
        "labels": "labels" not in unit.public,
        "features": "features" not in unit.public,
    }
    found = []
    for edges, y, columns in itertools.product((ring, none), (labels, one), (x, zero)):
        chosen = {
            "edges": edges if free["arcs"] else ring,
            "y": y if free["labels"] else labels,
            "x": columns if free["features"] else x,
        }
        fields = {"x": chosen["x"], "y": chosen["y"], "classes": ("a", "b", "c")}
        found.append(Graph.from_edges(*chosen["edges"], size, directed=False, **fields).with_split(seed=1))
    return found


def said(unit, graphs):
    """The caveats of each, at a budget that leaves no code unreachable."""
    claim = {"epsilon": 0.05, "delta": 0.01}
    facts = [asdict(graph.public_facts(unit)) for graph in graphs]
    return {implausible(unit, claim, one, {"epsilon_y": 0.05}) for one in facts}


UNITS = [EDGE, NODE, NodeLevel(arcs="incident"), RecordLevel(), LocalLevel(), FEATURES_ONLY, LinkLevel(), ClassLevel(),
         SubclassLevel(4)]  # fmt: skip


@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_what_is_said_does_not_depend_on_what_is_protected(unit):
    assert len(said(unit, neighbors(unit))) == 1


@pytest.mark.parametrize(
    ("unit", "read"), [(EDGE, "arcs"), (LinkLevel(), "arcs"), (NODE, "labels"), (LocalLevel(), "labels")], ids=str
)
def test_a_rule_that_reads_private_data_is_caught(unit, read):
    """Planted: the facts of a unit that protects nothing, seen as if they were public under this one."""
    peeking = SimpleNamespace(public=(*unit.public, read), split=None)
    graphs, claim = neighbors(unit), {"epsilon": 1.0, "delta": 1e-6}
    assert len({implausible(unit, claim, asdict(g.public_facts(peeking)), {}) for g in graphs}) > 1


# -- named data ----------------------------------------------------------------------------------------------------------


def codes_of(graph, unit, epsilon):
    budget = sf.Budget(epsilon, 1e-6)
    return [code for code, _ in sf.GAP().calibrate(budget, unit, graph.public_facts(unit)).caveats]


@pytest.mark.parametrize("unit", [EDGE, NODE], ids=str)
def test_campus_is_plausible(unit):
    graph = sf.graph.load_dataset("campus").with_split()
    assert [codes_of(graph, unit, epsilon) for epsilon in (0.1, 1.0, 8.0)] == [[]] * 3


@pytest.mark.data
@pytest.mark.parametrize("unit", [EDGE, NODE], ids=str)
@pytest.mark.parametrize("name", ["facebook100/Berkeley13", "planetoid/cora"])
def test_named_data_sets_are_plausible(name, unit, data_dir):
    graph = sf.graph.load_dataset(name, data_dir).with_split()
    assert codes_of(graph, unit, 1.0) == []


@pytest.mark.data
def test_a_class_of_a_named_data_set_without_training_node_is_said_at_edge_level_only(data_dir):
    graph = sf.graph.load_dataset("directed/email-Eu-core", data_dir).with_split()
    assert codes_of(graph, EdgeLevel(directed=True), 1.0) == ["untrained-class"]
    assert codes_of(graph, NODE, 1.0) == []
