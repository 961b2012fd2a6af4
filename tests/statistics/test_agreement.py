"""Answers of one run agree: they add up, lie in their intervals, and are what a graph can have, on graphs of any kind."""

import numpy as np
import pytest

import sfumato as sf
from sfumato.statistics import Statistics, describe

PAIRS = np.array([(one, other) for one in range(24) for other in range(one)])
KINDS = {
    "empty": PAIRS[:0],
    "clique": PAIRS,
    "star": PAIRS[PAIRS[:, 1] == 0],
    "path": PAIRS[PAIRS[:, 0] == PAIRS[:, 1] + 1],
    "bipartite": PAIRS[PAIRS.sum(axis=1) % 2 == 1],
}


def graph_of(kind, classes, *, directed=False, most=None):
    ends = KINDS[kind].T
    named = {"y": np.arange(24) % classes, "classes": tuple(f"c{at}" for at in range(classes))} if classes else {}
    return sf.graph.Graph.from_edges(*ends, 24, directed=directed, max_degree=most, name=kind, **named)


def check(found, directed):
    """What holds of the answers of every run."""
    answers, nodes = found.answers, found.num_nodes
    told = {one.what: one.value for one in answers}
    for one in answers:
        assert one.value is None or one.low <= one.value <= one.high, one
        assert one.low is None or one.low >= (-1 if "assortativity" in one.what else 0), one
    pairs = nodes * (nodes - 1) // (1 if directed else 2)
    edges = told[f"number of {'arcs' if directed else 'edges'}"]
    assert 0 <= edges <= pairs
    assert max(one.high for one in answers if one.what.startswith("density")) <= 1
    assert max(one.high for one in answers if one.what.startswith("mean degree")) <= nodes - 1
    if found.mixing is not None:
        assert sum(one.value for one in answers if len(one.groups) == 2) == edges
    for name in ("degrees", "out-degrees", "in-degrees"):
        rows = [one for one in answers if one.statistic == name and one.span]
        assert not rows or sum(one.value for one in rows) == nodes
        assert all(one.high <= nodes for one in rows)
        assert all(one.high <= 1 for one in answers if one.what.startswith("share of nodes"))
    sizes = [one for one in answers if one.statistic == "groups"]
    assert not sizes or sum(one.value for one in sizes) == nodes


@pytest.mark.filterwarnings("ignore::sfumato.errors.SfumatoWarning")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epsilon", [0.1, 2.0])
def test_edges_of_any_graph(kind, epsilon):
    for classes in (0, 12):
        for directed in (False, True):
            graph, unit = graph_of(kind, classes, directed=directed), sf.EdgeLevel(directed=directed)
            plan = Statistics().calibrate(sf.Budget(epsilon, 1e-6), unit, graph.public_facts(unit))
            for _ in range(3):
                check(describe(plan.fit(graph)), directed)


@pytest.mark.filterwarnings("ignore::sfumato.errors.SfumatoWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_nodes_of_any_graph(kind):
    unit, graph = sf.NodeLevel(arcs="incident"), graph_of(kind, 3, most=23)
    plan = Statistics().calibrate(sf.Budget(1.0, 0.0), unit, graph.public_facts(unit, assume_public=True))
    for _ in range(8):
        check(describe(plan.fit(graph)), directed=False)
