"""Triangles are counted once each, by groups, whatever blocks arcs are read in."""

import numpy as np
import pytest

from sfumato.graph._graph import Graph
from sfumato.loops import _triangles
from sfumato.statistics import _counts
from sfumato.statistics._counts import Counted


def graph_of(size, share, *, directed):
    random = np.random.default_rng(size)
    source, target = np.nonzero(random.random((size, size)) < share)
    y = random.integers(-1, 3, size)
    return Graph.from_edges(source, target, size, directed=directed, y=y, classes=("a", "b", "c"))


def table(graph):
    found = np.zeros((graph.num_nodes,) * 2, np.int64)
    found[np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr)), graph.indices] = 1
    np.fill_diagonal(found, 0)
    return found


@pytest.mark.parametrize("arcs", [1, 7, 1 << 21])
@pytest.mark.parametrize("share", [0.0, 0.05, 1.0])
def test_triangles_are_those_of_the_matrix(monkeypatch, arcs, share):
    monkeypatch.setattr(_triangles, "_ARCS", arcs)
    graph = graph_of(40, share, directed=False)
    counted, matrix = Counted(graph), table(graph)
    assert counted.triangles() == np.trace(matrix @ matrix @ matrix) // 6
    for group, found in enumerate(counted.triangles(grouped=True)):
        inside = matrix[np.ix_(counted.groups == group, counted.groups == group)]
        assert found == np.trace(inside @ inside @ inside) // 6


@pytest.mark.parametrize("arcs", [1, 7, 1 << 21])
@pytest.mark.parametrize("share", [0.0, 0.2, 1.0])
def test_counts_are_the_same_in_any_blocks(monkeypatch, arcs, share):
    monkeypatch.setattr(_counts, "_ARCS", arcs)
    graph = graph_of(30, share, directed=True)
    counted, matrix = Counted(graph), table(graph)
    assert counted.mutual() == (matrix * matrix.T).sum() // 2
    assert counted.edges() == matrix.sum()
    assert counted.node_degrees().tolist() == [matrix.sum(1).tolist(), matrix.sum(0).tolist()]
    groups = counted.groups
    assert counted.mixing().tolist() == [
        matrix[np.ix_(groups == one, groups == other)].sum() for one in range(4) for other in range(4)
    ]
