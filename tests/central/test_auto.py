"""The default method: its rule at the thresholds, what it may read, and that its plan is that of its choice."""

import math
from dataclasses import replace

import numpy as np
import pytest

import sfumato as sf
from sfumato.central._auto import Auto, signal_to_noise
from sfumato.central._labels import LabelMessages
from sfumato.errors import InputError
from sfumato.graph._graph import Graph, PublicFacts
from sfumato.privacy.calibration import gaussian_noise_multiplier

ARC, EDGE, NODE = sf.EdgeLevel(directed=True), sf.EdgeLevel(directed=False), sf.NodeLevel()
REPLACE = sf.NodeLevel(relation="replace")
BUDGET, RICH = sf.Budget(1.0, 1e-6), sf.Budget(4.0, 1e-6)


def facts(mean_degree=None, **how):
    return PublicFacts(**{"num_nodes": 8000, "num_train": 6000, "num_features": 5, "num_classes": 3, "directed": False,
                          "mean_degree": mean_degree, **how})  # fmt: skip


def chosen(unit, public, budget=BUDGET):
    return Auto().choose(budget, unit, public).name


@pytest.mark.parametrize("unit", [NODE, REPLACE])
def test_the_rule_turns_exactly_at_its_signal(unit):
    low, high = 1e-6, 1e6
    while high / low > 1 + 1e-12:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if signal_to_noise(BUDGET, unit, facts(middle)) >= 1 else (middle, high)
    assert signal_to_noise(BUDGET, unit, facts(high)) == pytest.approx(1, rel=1e-9)
    assert chosen(unit, facts(high), RICH if unit == REPLACE else BUDGET) == "piloted-messages"
    assert chosen(unit, facts(0.0)) == "linear"
    assert chosen(unit, facts(None), RICH) == "piloted-messages"


def test_without_a_promise_test_and_features_decide():
    """Both noises in units of what they stand beside, at and beyond the thresholds."""
    noise = gaussian_noise_multiplier(1.0, 1e-6)
    learners = noise / math.sqrt(0.015) / 0.07
    for part, name in ((1.01, "piloted-messages"), (0.99, "linear")):
        assert chosen(NODE, facts(num_nodes=20000, num_train=math.ceil(10 * learners * part))) == name
    columns = (0.01 * 6000 / noise) ** 2
    for part, name in ((0.99, "piloted-messages"), (1.01, "linear")):
        assert chosen(NODE, facts(num_features=int(columns * part))) == name


def test_the_signal_is_that_of_the_formula():
    noise = gaussian_noise_multiplier(1.0, 1e-6)
    receives = 0.25 + 0.75 * 0.1
    one = 0.75 * 40 / (noise * math.sqrt(receives * 40))
    assert signal_to_noise(BUDGET, NODE, facts(40.0)) == pytest.approx(one)
    assert signal_to_noise(BUDGET, REPLACE, facts(40.0)) == pytest.approx(one / 2)
    assert signal_to_noise(BUDGET, NODE, facts(2.0)) == pytest.approx(0.75 * 2 / noise), "one arc is not divided"


def test_more_budget_and_more_degree_only_ever_turn_to_the_graph():
    for unit in (NODE, REPLACE):
        for kept, signals in (
            ("degree", [signal_to_noise(sf.Budget(e, 1e-6), unit, facts(9.0)) for e in (0.1, 1.0, 4.0, 16.0)]),
            ("budget", [signal_to_noise(BUDGET, unit, facts(d)) for d in (0.5, 2.0, 8.0, 64.0)]),
        ):
            assert signals == sorted(set(signals)), kept


@pytest.mark.parametrize(
    ("unit", "how", "name"),
    [
        (EDGE, {}, "label-messages"),
        (NODE, {}, "piloted-messages"),
        (sf.NodeLevel(arcs="incident"), {}, "promised-messages"),
        (sf.RecordLevel(), {}, "linear"),
        (sf.NodeLevel(arcs="incident"), {"mean_degree": 4e3}, "promised-messages"),
        (sf.NodeLevel(arcs="incident"), {"mean_degree": 0.1}, "linear"),
        (sf.NodeLevel(arcs="incident"), {"num_features": 250}, "linear"),
        (sf.NodeLevel(arcs="incident"), {"num_features": 250, "max_degree": 500}, "promised-messages"),
        (sf.NodeLevel(arcs="incident"), {"max_degree": 500}, "promised-messages"),
        (sf.NodeLevel(arcs="incident"), {"degree_bounds": True}, "promised-messages"),
        (sf.NodeLevel(arcs="incident"), {"max_degree": 500, "mean_degree": 0.1}, "linear"),
        (sf.NodeLevel(arcs="incident"), {"max_degree": 500, "num_features": 100_000}, "linear"),
        (sf.NodeLevel(arcs="incident"), {"max_degree": 50, "num_nodes": 100, "num_train": 75}, "linear"),
        (NODE, {"max_degree": 500}, "piloted-messages"),
        (EDGE, {"num_classes": 1}, "linear"),
        (sf.NoPrivacy(), {"mean_degree": 1e-3}, "label-messages"),
    ],
)
def test_without_a_promise_units_decide(unit, how, name):
    assert chosen(unit, facts(**how), None if isinstance(unit, sf.NoPrivacy) else BUDGET) == name


def test_the_plan_is_that_of_the_method_it_chose():
    plan = Auto().calibrate(BUDGET, EDGE, facts(50.0))
    assert plan == LabelMessages().calibrate(BUDGET, EDGE, facts(50.0))
    spent = Auto().calibrate(BUDGET, NODE, facts(0.1, num_nodes=40, num_train=30))
    assert [release.name for release in spent.releases] == ["center", "head", "scale"]
    assert 0.998 < spent.epsilon <= 1


def test_only_a_promised_degree_is_known():
    """Arcs never reach the rule: an empty and a full graph get the same method until a schema promises something."""
    full, rich = np.array([(u, v) for u in range(40) for v in range(u)]), sf.Budget(5e3, 1e-6)
    for pairs in (full[:0], full):
        graph = Graph.from_edges(
            *pairs.T.reshape(2, -1), 40, directed=False, y=[0, 1] * 20, classes=("a", "b"), x=np.eye(40)
        ).with_split()
        assert graph.public_facts(NODE).mean_degree is None
        assert chosen(NODE, graph.public_facts(NODE), rich) == "piloted-messages"
        promised = replace(graph, mean_degree=1e-4).public_facts(NODE)
        assert chosen(NODE, promised, rich) == "linear"
        assert chosen(EDGE, graph.public_facts(EDGE)) == "label-messages"


def test_refusals_are_those_of_the_choice():
    with pytest.raises(InputError, match="budget"):
        Auto().calibrate(None, EDGE, facts(50.0))
    with pytest.raises(InputError, match="NoPrivacy"):
        Auto().calibrate(BUDGET, sf.NoPrivacy(), facts())
    with pytest.raises(InputError, match=r"EdgeLevel\(directed=True\)"):
        Auto().calibrate(BUDGET, EDGE, facts(50.0, directed=True))
