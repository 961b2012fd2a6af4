"""Generated graphs are the embedded campus network, sparse interests, R-MAT at any size, and the stochastic block model.

Everything here is drawn from ``seed`` alone, so it is public; the same arguments give the same graph.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

from sfumato._validate import check_int, check_real, fail
from sfumato.graph._graph import Graph
from sfumato.graph._onehot import one_hot_rows

_YEARS = ("2004", "2005", "2006", "2007", "2008", "2009")
_YEAR_SHARES = (0.10, 0.16, 0.20, 0.21, 0.20, 0.13)
_DORM_MISSING = (0.70, 0.60, 0.45, 0.35, 0.25, 0.10)  # seniors and alumni live off campus
_STATUSES = ("student", "alumni", "faculty")
_NUM_DORMS, _NUM_MAJORS = 36, 30
_OFF_COHORT = 0.14  # share of students whose circle is another year's: transfers, gap years
_CIRCLE_SHARES = (0.60, 0.15, 0.10, 0.15)  # friendships made in the year, the dorm, the major, anywhere
_ADJACENT_YEAR = 0.20  # share of the year's friendships that reach into the year before or after
_MAX_ACTIVITY = 14.0  # in units of the median student's
_NUM_TOPICS, _BY_TOPIC = 8, 0.5  # share of edges within a topic
_CLASS_LIFT, _TOPIC_LIFT = 10.0, 2.0  # how much likelier a feature of one's own class or topic is
_RMAT_QUADRANTS = (0.57, 0.19, 0.19, 0.05)
_RMAT_CHUNK = 1 << 18


def campus(num_nodes: int = 4000, seed: int = 0) -> Graph:
    """Make the embedded default graph: a campus social network with the class year as the label.

    Six class years; features are one-hot status, gender, major and dorm, where a missing dorm is a row of zeros. Each
    student has a cohort, usually the class year, which dorm and status follow, and a log-normal activity. A friendship
    starts at a student drawn by activity and ends at one drawn by activity from the same cohort (or the one beside it),
    the same dorm, the same major, or anyone. At the default size the mean degree is about 56; features alone predict
    the year of about half of the students, features and neighbors' years that of nearly nine in ten.

    Shapes: ``x`` is CSR float32 [num_nodes, 71], ``y`` int64 [num_nodes]. Undirected. Below 550 nodes the mean degree
    shrinks with the size.

    Raises:
        InputError: a setting is out of range.

    >>> graph = campus(num_nodes=500)
    >>> graph.num_nodes, graph.num_features, graph.num_classes
    (500, 71, 6)
    """
    num_nodes = check_int(low=50, num_nodes=num_nodes)
    generator = np.random.default_rng(check_int(low=0, seed=seed))
    num_years = len(_YEARS)
    year = generator.choice(num_years, num_nodes, p=_YEAR_SHARES)
    moved = generator.random(num_nodes) < _OFF_COHORT
    cohort = np.where(moved, generator.choice(num_years, num_nodes, p=_YEAR_SHARES), year)
    dorm_preference = generator.dirichlet(np.full(_NUM_DORMS, 0.35), num_years).cumsum(axis=1)
    dorm = (generator.random((num_nodes, 1)) > dorm_preference[cohort, :-1]).sum(axis=1)
    popularity = 1 / np.arange(1, _NUM_MAJORS + 1)
    major = generator.choice(_NUM_MAJORS, num_nodes, p=popularity / popularity.sum())
    status = np.where((cohort < 2) & (generator.random(num_nodes) < 0.75), 1, 0)
    status[generator.random(num_nodes) < 0.06] = 2
    gender = generator.integers(2, size=num_nodes)
    no_dorm = generator.random(num_nodes) < np.asarray(_DORM_MISSING)[cohort]

    names = [f"status={status_name}" for status_name in _STATUSES] + ["gender=1", "gender=2"]
    names += [f"major={code}" for code in range(_NUM_MAJORS)] + [f"dorm={code}" for code in range(_NUM_DORMS)]
    first_dorm = len(names) - _NUM_DORMS
    positions = np.column_stack((status, 3 + gender, 5 + major, np.where(no_dorm, -1, first_dorm + dorm)))
    source, target = _friendships(cohort, dorm, major, generator)
    return Graph.from_edges(
        source,
        target,
        num_nodes,
        directed=False,
        x=one_hot_rows(positions, len(names)),
        y=year.astype(np.int64),
        classes=_YEARS,
        feature_names=tuple(names),
        name="campus",
    )


def _friendships(
    cohort: np.ndarray, dorm: np.ndarray, major: np.ndarray, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    num_nodes = len(cohort)
    num_draws = int(num_nodes * min(31.0, num_nodes / 18))  # a tenth of the draws are duplicates
    activity = np.minimum(generator.lognormal(0, 0.9, num_nodes), _MAX_ACTIVITY)
    source = generator.choice(num_nodes, num_draws, p=activity / activity.sum())
    step = generator.choice((-1, 0, 1), num_draws, p=(_ADJACENT_YEAR / 2, 1 - _ADJACENT_YEAR, _ADJACENT_YEAR / 2))
    wanted_year = np.clip(cohort[source] + step, 0, len(_YEARS) - 1)
    anywhere = np.zeros(num_nodes, dtype=np.int64)
    circle = generator.choice(4, num_draws, p=_CIRCLE_SHARES)
    target = np.empty(num_draws, dtype=np.int64)
    wanted_groups = (wanted_year, dorm[source], major[source], anywhere[source])
    for index, (group, wanted) in enumerate(zip((cohort, dorm, major, anywhere), wanted_groups, strict=True)):
        chosen = circle == index
        target[chosen] = _draw_members(group, wanted[chosen], activity, generator)
    return source, target


def _draw_members(
    group: np.ndarray, wanted: np.ndarray, weight: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """Draw one node of each wanted group with probability proportional to its weight."""
    order = np.argsort(group, kind="stable")
    bounds = np.searchsorted(group[order], np.arange(max(group.max(), wanted.max(initial=0)) + 2))
    cumulative = np.concatenate(([0.0], np.cumsum(weight[order])))
    low, high = cumulative[bounds[wanted]], cumulative[bounds[wanted + 1]]
    drawn = np.searchsorted(cumulative, low + generator.random(len(wanted)) * (high - low), side="right") - 1
    members: np.ndarray = order[np.minimum(drawn, len(group) - 1)]
    return members


def interests(
    num_nodes: int = 20_000,
    seed: int = 0,
    *,
    num_classes: int = 5,
    num_features: int = 60,
    set_size: float = 6.0,
    mean_degree: float = 10.0,
    homophily: float = 0.21,
) -> Graph:
    """Make a graph whose features predict the class and whose edges hardly do, to compare ways of reporting features.

    A node has a class and, independently, one of 8 topics; it holds a sparse set of features, as in a bag of words. Feature j
    belongs to class ``j mod num_classes`` and to a topic: each is in the set independently, with probability proportional
    to 10 for those of the node's class, times 2 for those of its topic, at most 0.95; ``set_size`` is the mean size (before
    that cut). Half of the edges stay within the topic, and as many within the class as make ``homophily`` the expected
    share of edges inside a class; 1 / num_classes is chance.

    At the defaults and a 50/25/25 split, labels propagated in the clear reach at most 22 % of the test nodes (the largest
    class 20 %) and least squares on clear features 96 %. On reports of whole sets it reaches, at epsilon 1, 2 and 4: Collision
    (cap 8) 23, 30 and 43 %, multi-bit 22, 25 and 28 %, one-bit 20, 20 and 21 %; averaged with neighbors' they tell less.

    Shapes: ``x`` is CSR float32 [num_nodes, num_features] of ones, ``y`` int64 [num_nodes]. Undirected.

    Args:
        num_nodes: number of nodes.
        seed: a public seed.
        num_classes: how many classes there are.
        num_features: how many features there are.
        set_size: mean number of features of a node.
        mean_degree: mean number of neighbors.
        homophily: expected share of edges inside a class.

    Raises:
        InputError: a setting is out of range, such as ``homophily`` below chance or for more than half of the edges.

    >>> graph = interests(1000)
    >>> graph.num_features, graph.num_classes, 5 < graph.x.nnz / graph.num_nodes < 7
    (60, 5, True)
    """
    num_classes = check_int(low=2, num_classes=num_classes)
    num_nodes = check_int("Give each class a few nodes.", low=10 * num_classes, num_nodes=num_nodes)
    num_features = check_int("One feature a class is the least.", low=num_classes, num_features=num_features)
    set_size = check_real(low=0, high=num_features, open_low=True, set_size=set_size)
    mean_degree = check_real(low=0, high=num_nodes / 2, mean_degree=mean_degree)
    chance = 1 / num_classes
    homophily = check_real("Low is chance.", low=chance, high=chance + _BY_TOPIC * (1 - chance), homophily=homophily)
    generator = np.random.default_rng(check_int(low=0, seed=seed))
    y, topic = (generator.integers(groups, size=num_nodes) for groups in (num_classes, _NUM_TOPICS))
    feature = np.arange(num_features)
    of_class = np.where(feature % num_classes == np.arange(num_classes)[:, None], _CLASS_LIFT, 1.0)
    of_topic = np.where(feature // num_classes % _NUM_TOPICS == np.arange(_NUM_TOPICS)[:, None], _TOPIC_LIFT, 1.0)
    odds = of_class[:, None] * of_topic
    rates = np.minimum(set_size * odds / odds.sum(axis=-1, keepdims=True), 0.95).astype(np.float32)
    members = generator.random((num_nodes, num_features), dtype=np.float32) < rates[y, topic]

    source = generator.integers(num_nodes, size=int(num_nodes * mean_degree / 2))
    by_class = (homophily - chance) / (1 - chance)
    kind = generator.choice(3, len(source), p=(by_class, _BY_TOPIC, 1 - _BY_TOPIC - by_class))
    target, even = generator.integers(num_nodes, size=len(source)), np.ones(num_nodes)
    for index, group in enumerate((y, topic)):
        target[kind == index] = _draw_members(group, group[source[kind == index]], even, generator)
    return Graph.from_edges(
        source,
        target,
        num_nodes,
        directed=False,
        x=sp.csr_matrix(members, dtype=np.float32),
        y=y,
        classes=tuple(map(str, range(num_classes))),
        name="interests",
    )


def rmat(
    num_nodes: int,
    num_arcs: int,
    seed: int = 0,
    *,
    directed: bool = False,
    num_features: int = 0,
    num_classes: int = 0,
) -> Graph:
    """Make a power-law graph of any size by recursive quadrants (R-MAT).

    Each arc picks one quadrant of the adjacency matrix with probabilities (0.57, 0.19, 0.19, 0.05), then one quadrant
    of it, down to single entries; node ids are then shuffled. ``num_arcs`` arcs are drawn (half as many edges if
    undirected, each stored as two arcs); loops and duplicates are merged, so somewhat fewer are stored.

    With ``num_classes``, labels are uniform and independent of the arcs; with ``num_features``, rows are Gaussian
    around a mean that depends on the label. Such a graph is for speed and for trying methods, not for accuracy.

    Shapes: ``x`` is float32 [num_nodes, num_features] or None, ``y`` int64 [num_nodes] or None.

    Args:
        num_nodes: number of nodes.
        num_arcs: how many arcs are drawn.
        seed: a public seed.
        directed: whether arcs have a direction.
        num_features: columns of features; 0 for none.
        num_classes: how many classes there are; 0 for no labels.

    Raises:
        InputError: a setting is out of range.

    >>> graph = rmat(1000, 8000)
    >>> graph.num_nodes, bool(np.diff(graph.indptr).max() > 10 * graph.num_arcs / graph.num_nodes)
    (1000, True)

    Source: Chakrabarti, Zhan, Faloutsos, "R-MAT: a recursive model for graph mining", SDM 2004.
    """
    num_nodes = check_int(low=2, high=2**31 - 1, num_nodes=num_nodes)
    num_arcs = check_int(low=0, num_arcs=num_arcs)
    num_features, num_classes = check_int(low=0, num_features=num_features), check_int(low=0, num_classes=num_classes)
    generator = np.random.default_rng(check_int(low=0, seed=seed))
    count = num_arcs if directed else num_arcs // 2
    source, target = np.empty(count, dtype=np.int32), np.empty(count, dtype=np.int32)
    stop = 0
    for sources, targets in rmat_pairs(num_nodes, count, generator):
        start, stop = stop, stop + len(sources)
        source[start:stop], target[start:stop] = sources, targets
    y = generator.integers(num_classes, size=num_nodes) if num_classes else None
    return Graph.from_edges(
        source,
        target,
        num_nodes,
        directed=directed,
        x=_gaussian_features(y, num_nodes, num_features, generator) if num_features else None,
        y=y,
        classes=tuple(map(str, range(num_classes))),
        name="rmat",
    )


def rmat_pairs(
    num_nodes: int, count: int, generator: np.random.Generator, rows: int = _RMAT_CHUNK
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Draw the ends of arcs for :func:`rmat`, int32, so many rows after another, two quadrant levels at a time."""
    num_steps = math.ceil(math.log2(num_nodes) / 2)
    probabilities = np.outer(_RMAT_QUADRANTS, _RMAT_QUADRANTS).ravel()
    counts = np.diff(np.round(np.cumsum(probabilities) * 65536), prepend=0).astype(np.int64)
    first, second = np.divmod(np.arange(16), 4)
    row_bits = np.repeat((first // 2 * 2 + second // 2).astype(np.int64), counts)
    column_bits = np.repeat((first % 2 * 2 + second % 2).astype(np.int64), counts)
    shuffled = generator.permutation(num_nodes).astype(np.int32)
    for start in range(0, count, rows):
        size = min(rows, count - start)
        row, column = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
        for _ in range(num_steps):
            bits = generator.integers(65536, size=size, dtype=np.uint16)
            row = (row << 2) | row_bits[bits]
            column = (column << 2) | column_bits[bits]
        yield shuffled[(row * num_nodes) >> (2 * num_steps)], shuffled[(column * num_nodes) >> (2 * num_steps)]


def stochastic_block_model(
    num_nodes: int,
    num_classes: int,
    *,
    mean_degree: float = 10.0,
    homophily: float = 0.8,
    num_features: int = 16,
    seed: int = 0,
) -> Graph:
    r"""Make an undirected graph in which every pair of nodes is an edge independently.

    With ``n`` nodes and ``k`` classes of equal size, a pair of one class is an edge with probability
    :math:`p_\mathrm{in} = h d / (n/k - 1)` and another pair with :math:`p_\mathrm{out} = (1-h) d / (n - n/k)`, where
    ``d`` is ``mean_degree`` and ``h`` is ``homophily``, the expected share of a node's edges inside its class.
    Features are Gaussian around a mean that depends on the class.

    Shapes: ``x`` is float32 [num_nodes, num_features] (None if ``num_features`` is 0), ``y`` int64 [num_nodes].

    Args:
        num_nodes: n, the number of nodes.
        num_classes: k, the number of classes.
        mean_degree: d, the expected degree.
        homophily: h, the expected share of a node's edges inside its class.
        num_features: columns of features; 0 for none.
        seed: a public seed.

    Raises:
        InputError: a setting is out of range, or a probability would exceed 1.

    >>> graph = stochastic_block_model(1000, 4, mean_degree=10, homophily=0.8)
    >>> 9 < graph.num_arcs / graph.num_nodes < 11
    True

    Source: Holland, Laskey, Leinhardt, "Stochastic blockmodels: first steps", Social Networks 5, 1983.
    """
    num_classes = check_int(low=1, num_classes=num_classes)
    num_nodes = check_int("Give at least two nodes a class.", low=2 * num_classes, num_nodes=num_nodes)
    mean_degree = check_real(low=0, mean_degree=mean_degree)
    homophily = check_real(low=0, high=1, homophily=homophily)
    num_features = check_int(low=0, num_features=num_features)
    generator = np.random.default_rng(check_int(low=0, seed=seed))
    class_size = num_nodes / num_classes
    p_in = homophily * mean_degree / (class_size - 1)
    p_out = (1 - homophily) * mean_degree / (num_nodes - class_size) if num_classes > 1 else 0.0
    if max(p_in, p_out) >= 1:
        most = f"below {mean_degree / max(p_in, p_out):g} for {num_nodes} nodes and homophily {homophily:g}"
        raise fail("mean_degree", mean_degree, f"to be {most}", "Lower it or add nodes.")

    y = generator.permutation(num_nodes) % num_classes
    inside, outside = _pairs_inside(y, num_classes, p_in, generator), _pairs_outside(y, p_out, generator)
    return Graph.from_edges(
        np.concatenate((inside[0], outside[0])),
        np.concatenate((inside[1], outside[1])),
        num_nodes,
        directed=False,
        x=_gaussian_features(y, num_nodes, num_features, generator) if num_features else None,
        y=y,
        classes=tuple(map(str, range(num_classes))),
        name="stochastic_block_model",
    )


def _pairs_inside(
    y: np.ndarray, num_classes: int, probability: float, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Keep each pair of one class with ``probability``: a Poisson number of draws a pair, duplicates merged later."""
    sizes = np.bincount(y, minlength=num_classes)
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    num_pairs = sizes * (sizes - 1) // 2
    owner = np.repeat(np.arange(num_classes), generator.poisson(-math.log1p(-probability) * num_pairs))
    first = generator.integers(sizes[owner])
    second = generator.integers(sizes[owner] - 1)
    second += second >= first
    order = np.argsort(y, kind="stable")
    return order[starts[owner] + first], order[starts[owner] + second]


def _pairs_outside(y: np.ndarray, probability: float, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Keep each pair of two classes with ``probability``: draws over all pairs, thinned to those of two classes."""
    num_nodes = len(y)
    count = generator.poisson(-math.log1p(-probability) * (num_nodes * (num_nodes - 1) // 2))
    first = generator.integers(num_nodes, size=count)
    second = generator.integers(num_nodes - 1, size=count)
    second += second >= first
    kept = y[first] != y[second]
    return first[kept], second[kept]


def _gaussian_features(
    y: np.ndarray | None, num_nodes: int, num_features: int, generator: np.random.Generator
) -> np.ndarray:
    x = generator.standard_normal((num_nodes, num_features), dtype=np.float32)
    if y is not None:
        means = generator.standard_normal((int(y.max()) + 1, num_features), dtype=np.float32)
        x += means[y] / np.sqrt(np.float32(num_features))
    return x
