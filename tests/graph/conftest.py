"""Two CSV files, made of texts, and the graph that is read from them."""

import pytest

from sfumato.graph import read_csv


@pytest.fixture
def written(tmp_path):
    """Write a table of nodes and one of edges, given as texts or bytes; where they are."""

    def write(nodes, edges="source,target\n"):
        paths = tmp_path / "nodes.csv", tmp_path / "edges.csv"
        for path, cells in zip(paths, (nodes, edges), strict=True):
            path.write_bytes(cells if isinstance(cells, bytes) else cells.encode())
        return paths

    return write


@pytest.fixture
def read(written):
    """Read a graph from the texts of two CSV files."""
    return lambda nodes, edges="source,target\n", **how: read_csv(*written(nodes, edges), **how)
