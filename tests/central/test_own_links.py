"""Lists for one viewer from released pairs and the viewer's own links, and how many held-out links they find.

``python -m pytest -s -m "" tests/central/test_own_links.py`` prints, for lists of 50 at epsilon 2, the share of held-out links
that are in them over the share in lists by common neighbors without privacy, by degree. The rule was chosen on UCSC68 and Duke14.
"""

import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import sfumato as sf
from sfumato.central._edgerand import EdgeRand
from sfumato.central._evidence import public_rows
from sfumato.central._own_links import scores_for
from sfumato.errors import InputError
from sfumato.evaluation._links import hold_out
from sfumato.evaluation._ranking import ranks_of
from sfumato.graph._subgraph import adjacency

EDGE = sf.EdgeLevel(directed=False)
DATA = Path(os.environ.get("SFUMATO_DATA", "../shared/data"))
BANDS = (0, 20, 40, 80, 160, 10_000)


def responses(truth, epsilon, generator):
    """Symmetric randomized response to all pairs: what came out, and the chances with and without an edge."""
    flip = 1 / (1 + np.exp(epsilon))
    size = truth.shape[0]
    other = sp.vstack([  # in parts, for memory
        sp.csr_matrix(np.triu(generator.random((min(1000, size - at), size), dtype=np.float32) < flip, at + 1))
        for at in range(0, size, 1000)
    ])  # fmt: skip
    drawn = (other + other.T).astype(np.int8)
    return abs(truth.astype(np.int8) - drawn).tocsr(), 1 - flip, flip


def test_scores_are_those_of_the_true_graph_on_average():
    generator = np.random.default_rng(0)
    truth = adjacency(sf.graph.campus(120, seed=0)).astype(np.int8)
    neighbors = truth[3].indices
    exact = np.asarray(truth[neighbors].sum(axis=0)).ravel()
    rows = [
        ((released[neighbors].toarray() - without) / (with_edge - without)).sum(axis=0)
        for released, with_edge, without in (responses(truth, 2.0, generator) for _ in range(200))
    ]
    off = np.arange(120) != 3
    noise = np.sqrt(len(neighbors) * 0.18 / 200)
    assert np.abs(np.mean(rows, axis=0) - exact)[off & (exact >= 0)].max() < 5 * noise
    assert not scores_for(truth, np.empty(0, int), 1.0, 0.0).any()


@pytest.mark.parametrize("asymmetric", [True, False])
def test_a_run_gives_a_list_to_a_viewer_who_brings_links(asymmetric):
    graph = sf.graph.campus(300, seed=0).with_split(seed=0)
    method = EdgeRand(asymmetric=asymmetric, epochs=1)
    fitted = method.calibrate(sf.Budget(20.0, 0.0), EDGE, graph.public_facts(EDGE)).fit(graph)
    neighbors = graph.indices[graph.indptr[5] : graph.indptr[6]]
    block = fitted.list_for(graph, 5, neighbors, 10)
    assert set(block.pairs[0]) == {5}
    assert not {5, *neighbors.tolist()} & set(block.pairs[1].tolist())
    common = np.asarray(adjacency(graph)[neighbors].sum(axis=0)).ravel()
    assert common[block.pairs[1]].mean() > 2 * common.mean()


def test_links_with_a_direction_are_refused():
    unit, graph = (
        sf.EdgeLevel(directed=True),
        sf.graph.Graph.from_edges([0, 1], [1, 2], 12, directed=True, y=[0, 1] * 6),
    )
    graph = graph.with_split(seed=0)
    fitted = EdgeRand(epochs=1).calibrate(sf.Budget(2.0, 0.0), unit, graph.public_facts(unit)).fit(graph)
    with pytest.raises(InputError, match="to be undirected"):
        fitted.list_for(graph, 0, np.array([1]), 2)


def test_other_runs_leave_the_links_out():
    graph = sf.graph.campus(300, seed=0).with_split(seed=0)
    fitted = sf.LinkMessages().calibrate(sf.Budget(2.0, 0.0), EDGE, graph.public_facts(EDGE)).fit(graph)
    whole = fitted.best_pairs(graph, 8, nodes=np.array([5]))[0][1]
    assert fitted.list_for(graph, 5, whole[:3], 5).pairs[1].tolist() == whole[3:].tolist()


@pytest.mark.data
@pytest.mark.parametrize(
    "name", ["UCSC68", *(pytest.param(name, marks=pytest.mark.soak) for name in ("Duke14", "Harvard1", "Berkeley13"))]
)
def test_lists_find_what_common_neighbors_find_where_degrees_are_large(name):
    if not (DATA / "facebook100" / f"{name}.mat").is_file():
        pytest.skip(f"{name} is not in {DATA}")
    held = hold_out(sf.graph.load_dataset(f"facebook100/{name}", DATA, min_class_size=1000), 0)
    truth, lists = adjacency(held.graph).tocsr(), held.lists(0)
    released, with_edge, without = responses(truth, 2.0, np.random.default_rng(0))
    found, public = [], public_rows(held.graph)
    for node in lists.nodes:
        others, there = lists.of(node)
        neighbors = truth[node].indices
        likeness = np.asarray((public @ public[[node]].T).todense()).ravel()
        scores = (
            scores_for(released, neighbors, with_edge, without, likeness),
            np.asarray(truth[neighbors].sum(axis=0)).ravel(),
        )
        hits = [(ranks_of(one[others].astype(float), there) <= 50).sum() for one in scores]
        found.append((len(neighbors), *hits, there.sum()))
    rows = np.array(found)
    for low, high in pairwise(BANDS):
        degrees, ours, theirs, links = rows[(rows[:, 0] >= low) & (rows[:, 0] < high)].T
        if len(degrees):
            told = f"{100 * ours.sum() / links.sum():.1f} %, common neighbors {100 * theirs.sum() / links.sum():.1f} %"
            print(f"{name}, degree {low} to {high}, {len(degrees)} nodes: {told}: {ours.sum() / theirs.sum():.0%}")
    _, ours, theirs, _ = rows[rows[:, 0] >= 80].sum(axis=0)
    assert ours / theirs > 0.85
