"""Generated graphs with one rare outcome that clusters along edges, as churn, fraud and infections do. All is public."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import check_choice, check_int, check_real
from sfumato.graph._graph import Graph
from sfumato.graph._synthetic import _draw_members

PATTERNS = ("neighborhoods", "pairs", "spread")
_GROUP_SIZE, _INSIDE = 60, 0.7  # mean nodes of a neighborhood, and the share of edges that stay inside
_ACTIVITY, _MOST_ACTIVE = 0.6, 8.0  # spread of the logarithm of activity, and the most in units of the median


def outcomes(
    num_nodes: int = 20_000,
    seed: int = 0,
    *,
    pattern: str = "neighborhoods",
    positive: float = 0.08,
    mean_degree: float = 13.5,
    clustering: float = 2.0,
    feature_signal: float = 0.4,
    num_features: int = 8,
    unlabeled: float = 0.0,
) -> Graph:
    """Make an undirected graph in which a rare outcome clusters along edges and features say little of it.

    * ``neighborhoods``: nodes live in neighborhoods of about 60, in which 70 % of their edges end. A neighborhood has a
      standard normal risk u, and the log-odds of its nodes are ``clustering`` times u, plus what features say.
    * ``pairs``: features alone decide; then an edge of a node with the outcome ends at another such node, with log-odds that
      ``clustering`` raises over those of chance.
    * ``spread``: a fifth of the nodes that will have the outcome have it from the start, by their features; the others catch
      it along edges, one round after the other, each with probability :math:`1 - e^{-c k / 10}` for k such neighbors and
      ``clustering`` c.

    Features are standard normal numbers. The first two move the log-odds by ``feature_signal`` each; the others say nothing.
    Activity is log-normal.

    Shapes: ``x`` is float32 [num_nodes, num_features], ``y`` int64 [num_nodes], -1 where the label is missing. The classes
    are ``no`` and ``yes``.

    Args:
        num_nodes: the number of nodes.
        seed: a public seed.
        pattern: how the outcome clusters, one of ``PATTERNS``.
        positive: the expected share of nodes with the outcome.
        mean_degree: the expected number of edges of a node, before duplicates are merged.
        clustering: how much edges say.
        feature_signal: how much the first two features say.
        num_features: columns of features, at least 2.
        unlabeled: the share of nodes whose label is missing.

    Raises:
        InputError: a setting is out of range.

    >>> graph = outcomes(2000, positive=0.1, unlabeled=0.5)
    >>> graph.classes, round(float((graph.y == 1).sum() / (graph.y >= 0).sum()), 2)
    (('no', 'yes'), 0.11)
    """
    num_nodes = check_int(low=100, num_nodes=num_nodes)
    num_features = check_int(low=2, num_features=num_features)
    check_choice(PATTERNS, pattern=pattern)
    positive = check_real(low=0.001, high=0.5, positive=positive)
    clustering = check_real(low=0, high=10, clustering=clustering)
    generator = np.random.default_rng(check_int(low=0, seed=seed))
    num_draws = round(num_nodes * check_real(low=0, high=num_nodes / 4, mean_degree=mean_degree) / 2)
    x = generator.standard_normal((num_nodes, num_features), dtype=np.float32)
    told = check_real(low=0, high=10, feature_signal=feature_signal) * x[:, :2].sum(axis=1)
    home = generator.integers(max(num_nodes // _GROUP_SIZE, 1), size=num_nodes)
    activity = np.minimum(generator.lognormal(0, _ACTIVITY, num_nodes), _MOST_ACTIVE)
    source = generator.choice(num_nodes, num_draws, p=activity / activity.sum())
    if pattern == "pairs":
        y = generator.random(num_nodes) < _chances(told, positive)
        share = positive * np.exp(clustering) / (1 - positive + positive * np.exp(clustering))
        wanted = np.where(y[source], generator.random(num_draws) < share, False).astype(np.int64)
        plain = ~y[source] & (generator.random(num_draws) < positive * (1 - share))
        target = _draw_members(y.astype(np.int64), np.where(plain, 1, wanted), activity, generator)
    else:
        inside = generator.random(num_draws) < _INSIDE
        target = generator.choice(num_nodes, num_draws, p=activity / activity.sum())
        target[inside] = _draw_members(home, home[source[inside]], activity, generator)
        risk = clustering * generator.standard_normal(home.max() + 1)[home]
        y = generator.random(num_nodes) < _chances(told + risk, positive)
        if pattern == "spread":
            y = _spread(told, source, target, positive, clustering, generator)
    labels = y.astype(np.int64)
    labels[generator.random(num_nodes) < check_real(low=0, high=0.99, unlabeled=unlabeled)] = -1
    names = tuple(f"feature_{number + 1}" for number in range(num_features))
    return Graph.from_edges(
        source,
        target,
        num_nodes,
        directed=False,
        x=x,
        y=labels,
        classes=("no", "yes"),
        feature_names=names,
        name=pattern,
    )


def _chances(log_odds: NDArray[np.floating], mean: float) -> NDArray[np.float64]:
    """Probabilities of the log-odds, moved so that their mean is as wanted."""
    low, high = -50.0, 50.0
    for _ in range(60):
        middle = (low + high) / 2
        chances: NDArray[np.float64] = 1 / (1 + np.exp(-(log_odds.astype(np.float64) + middle)))
        low, high = (middle, high) if chances.mean() < mean else (low, middle)
    return chances


def _spread(
    told: NDArray[np.floating],
    source: NDArray[np.int64],
    target: NDArray[np.int64],
    positive: float,
    clustering: float,
    generator: np.random.Generator,
) -> NDArray[np.bool_]:
    """Who has the outcome when it has spread along the edges to the wanted number of nodes."""
    y, wanted = generator.random(len(told)) < _chances(told, positive / 5), round(positive * len(told))
    for _ in range(100):
        missing = wanted - int(y.sum())
        if missing <= 0:
            break
        near = np.bincount(target, y[source], len(told)) + np.bincount(source, y[target], len(told))
        caught = np.flatnonzero(~y & (generator.random(len(told)) < 1 - np.exp(-clustering * near / 10)))
        y[generator.permutation(caught)[:missing]] = True
    return y
