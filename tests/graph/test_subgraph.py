"""Some nodes of a graph with the arcs between them."""

import numpy as np

from sfumato.graph._graph import Graph
from sfumato.graph._subgraph import induced


def test_induced_graph_of_four_nodes():
    path = Graph.from_edges([0, 1, 2], [1, 2, 3], 4, directed=False, x=np.eye(4), y=[0, 0, 1, 1])
    part = induced(path, [3, 2, 0])
    assert (part.indptr.tolist(), part.indices.tolist()) == ([0, 1, 2, 2], [1, 0])
    assert part.x.argmax(axis=1).tolist() == part.node_ids.tolist() == [3, 2, 0]
    assert part.y.tolist() == [1, 1, 0]
    assert induced(path, []) is None
