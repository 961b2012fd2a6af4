"""Tiny graphs whose nodes have features and labels, with one record emptied or replaced."""

import numpy as np

from sfumato.graph._graph import Graph


def graph_of(adjacency, x, y, roles=None):
    """A directed graph; undirected ones hold both arcs. Without a promise of direction a record may lose its own arcs alone."""
    labels = y if (y >= 0).any() else None  # a graph without any label says so
    roles = np.zeros(len(y), np.uint8) if roles is None else roles
    ends = np.nonzero(adjacency)
    return Graph.from_edges(*ends, len(y), directed=True, x=x, y=labels, classes=("a", "b"), roles=roles)


def neighbor(relation, arcs, record, data, rng):
    """The record without features, label and arcs (all of them, or those it owns), or another one in its place.

    In half of the replacements the label alone is another one.
    """
    adjacency, x, y = (part.copy() for part in data)
    if relation == "remove":
        x[record], y[record], target, source = 0, -1, False, False
    else:
        y[record] = 1 - y[record] if y[record] >= 0 else 0
        if rng.random() < 0.5:
            return adjacency, x, y
        x[record] = rng.normal(size=x.shape[1]) * 10.0 ** rng.integers(-3, 4)
        target, source = rng.random((2, len(y))) < 0.5
    adjacency[record] = target
    if arcs == "incident":
        adjacency[:, record] = source
    return adjacency, x, y
