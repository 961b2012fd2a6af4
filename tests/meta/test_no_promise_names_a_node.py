"""Which node, edge or record breaks a promise is a private fact about it: no message tells.

A cell that cannot be read is named by its row, at the desk of who holds the table. A promise (degrees, direction, classes) that
the data contradict is another matter: whoever reads the log would learn of one node that it has many arcs.
"""

from dataclasses import replace

import numpy as np
import pytest

from sfumato.errors import InputError
from sfumato.graph import Graph, read_csv
from sfumato.graph._weights import EdgeWeights
from sfumato.pate._teachers import check_records

pytest.importorskip("duckdb")


def star(center, size=40, **fields):
    """One node with four arcs out and in; the others have none."""
    others = [(center + step) % size for step in (1, 2, 3, 4)]
    return Graph.from_edges([center] * 4, others, size, directed=False, **fields)


def stored(center, folder):
    """A store whose promise was lowered by hand."""
    star(center, max_degree=4).save(folder / "store")
    facts = folder / "store" / "graph.json"
    facts.write_text(facts.read_text().replace('"max_degree": 4', '"max_degree": 2'))
    return Graph.load(folder / "store")


def tabled(center, folder, **how):
    nodes = "".join(f"n{v},2\n" for v in range(40))
    edges = "".join(f"n{center},n{(center + v) % 40}\n" for v in (1, 2, 3, 4))
    (folder / "nodes.csv").write_text(f"id,most\n{nodes}")
    (folder / "edges.csv").write_text(f"source,target\n{edges}")
    return read_csv(folder / "nodes.csv", folder / "edges.csv", **how)


def uneven(center):
    """Arcs of an undirected edge with two weights."""
    found = star(center, edge_weight=[1.0, 1, 1, 1], max_weight=4.0)
    steps = found.weights.steps.copy()
    steps[found.indptr[center]] -= 1
    return replace(found, weights=EdgeWeights(steps, 4.0))


def lonely(center):
    """One arc without its reverse."""
    found = star(center)
    indices, indptr = found.indices.tolist(), found.indptr.copy()
    del indices[indptr[center]]
    indptr[center + 1 :] -= 1
    return Graph(indptr, np.array(indices), False)


def twice(center):
    found = star(center)
    indices = found.indices.copy()
    indices[found.indptr[center]] = indices[found.indptr[center] + 1]
    return Graph(found.indptr, indices, True)


def records(center):
    y = np.zeros(40, int)
    y[center] = 9
    return check_records(np.zeros((40, 1)), y, range(40), 2)


PROMISES = {
    "degree": lambda center, folder: star(center, max_degree=2),
    "in-degree": lambda center, folder: Graph.from_edges(
        [(center + v) % 40 for v in (1, 2, 3)], [center] * 3, 40, directed=True, max_degree=2
    ),
    "bound of a node": lambda center, folder: star(center, degree_bounds=[2] * 40),
    "stored": stored,
    "schema": lambda center, folder: tabled(center, folder, schema={"id": "id", "max_degree": 2}),
    "column of bounds": lambda center, folder: tabled(center, folder, schema={"id": "id", "degree_column": "most"}),
    "both arcs": lambda center, folder: lonely(center),
    "one weight": lambda center, folder: uneven(center),
    "sorted": lambda center, folder: twice(center),
    "classes of records": lambda center, folder: records(center),
}


@pytest.mark.parametrize("promise", PROMISES)
def test_who_breaks_a_promise_is_not_told(promise, tmp_path):
    """The message is the same whoever does."""
    said = []
    for center in (7, 23):
        (tmp_path / str(center)).mkdir()
        with pytest.raises(InputError) as error:
            PROMISES[promise](center, tmp_path / str(center))
        said.append(str(error.value))
    assert said[0] == said[1]
