"""Counts of whole graphs: all graphs of five nodes measure what one record changes; near misses fail."""

from functools import cache
from itertools import combinations, permutations, product
from types import SimpleNamespace

import numpy as np
import pytest

import sfumato as sf
from sfumato.bounded import _statistics as bounded
from sfumato.bounded._statistics import SCALED, by_bounds, l1_sensitivity, margin, most_degree, scaled, top_bounds
from sfumato.errors import UnsupportedUnitError
from sfumato.graph._graph import PublicFacts
from sfumato.graph._weights import FULL
from sfumato.privacy import accounting
from sfumato.privacy.events import ApproximateEvent, PureEvent
from sfumato.statistics._counts import COUNTS, RANGES, Counted, degree_ends

EDGE, ARC, PERSON = sf.EdgeLevel(directed=False), sf.EdgeLevel(directed=True), sf.PersonLevel(2, directed=False)
NODE = sf.NodeLevel(arcs="incident")
LABELS = np.array([0, 0, 1, -1, 1])
DEGREES = ("degrees", "out-degrees", "in-degrees")


def graph_of(arcs, size, labels, directed):
    """What counts read of a graph, from a set of arcs; undirected ones have both directions."""
    ordered = sorted(arcs)
    ends = np.array(ordered, np.int64).reshape(-1, 2)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(ends[:, 0], minlength=size))]).astype(np.int64)
    return SimpleNamespace(
        indptr=indptr, indices=ends[:, 1].astype(np.int32), directed=directed, num_nodes=size, y=labels, num_classes=2,
        weights=None,
    )  # fmt: skip


def exact(name, counted, *, grouped=False):
    """One count as it is released; of graphs that are compared often it is counted once."""
    found = vars(counted).setdefault("known", {})
    if (name, grouped) not in found:
        found[name, grouped] = _exact(name, counted, grouped)
    return found[name, grouped]


def _exact(name, counted, grouped):
    if name in DEGREES:
        ends = degree_ends(counted.graph.num_nodes - 1)
        return counted.degrees(ends, entering=name == "in-degrees", grouped=grouped)
    return counted.triangles(grouped=grouped) if name == "triangles" else COUNTS[name](counted)


def change(name, one, other, **how):
    return int(np.abs(exact(name, one, **how) - exact(name, other, **how)).sum())


@cache
def undirected(size=5):
    """All graphs of so many nodes, by the set of their edges."""
    pairs = list(combinations(range(size), 2))
    found = {}
    for chosen in product((0, 1), repeat=len(pairs)):
        edges = frozenset(pair for pair, there in zip(pairs, chosen, strict=True) if there)
        arcs = {*edges, *((v, u) for u, v in edges)}
        found[edges] = Counted(graph_of(arcs, size, LABELS[:size], directed=False))
    return found


@cache
def directed(size=3):
    """All directed graphs of so many nodes, by the set of their arcs."""
    pairs = list(permutations(range(size), 2))
    found = {}
    for chosen in product((0, 1), repeat=len(pairs)):
        arcs = frozenset(pair for pair, there in zip(pairs, chosen, strict=True) if there)
        found[arcs] = Counted(graph_of(arcs, size, LABELS[:size], directed=True))
    return found


def edge_pairs(graphs):
    """All pairs of graphs that differ in one edge: the smaller one first, and the edge."""
    return ((graphs[edges - {edge}], graphs[edges], edge) for edges in graphs for edge in edges)


def facts(size, *, directed=False, most=None):
    return PublicFacts(size, size, 0, 2, directed=directed, max_degree=most)


def reached(name, unit, public, pairs, **how):
    """The largest change among pairs, which the claim has to cover."""
    most = max(change(name, one, other, **how) for one, other in pairs)
    assert most <= l1_sensitivity(name, unit, public), "too small a claim"
    return most


@pytest.mark.parametrize("name", ["edges", "mixing", "degrees", "node-degrees", "bounds"])
def test_one_edge_changes_counts_by_what_is_stated(name):
    pairs = [(one, other) for one, other, _ in edge_pairs(undirected())]
    assert reached(name, EDGE, facts(5), pairs) == l1_sensitivity(name, EDGE, facts(5))


@pytest.mark.parametrize("name", ["edges", "mixing", "out-degrees", "in-degrees", "node-degrees", "mutual"])
def test_one_arc_changes_counts_by_what_is_stated(name):
    pairs = [(one, other) for one, other, _ in edge_pairs(directed())]
    assert reached(name, ARC, facts(3, directed=True), pairs) == l1_sensitivity(name, ARC, facts(3, directed=True))


def without_two(graphs):
    """All pairs of graphs of which one has two edges more."""
    return [(graphs[edges - {*gone}], graphs[edges]) for edges in graphs for gone in combinations(sorted(edges), 2)]


@pytest.mark.parametrize("name", ["edges", "mixing", "degrees", "node-degrees"])
def test_a_person_changes_counts_by_what_is_stated(name):
    assert reached(name, PERSON, facts(4), without_two(undirected(4))) == l1_sensitivity(name, PERSON, facts(4))


@pytest.mark.parametrize("name", ["edges", "mixing", "out-degrees", "in-degrees", "mutual"])
def test_a_person_with_arcs_changes_counts_by_what_is_stated(name):
    unit, public = sf.PersonLevel(2, directed=True), facts(3, directed=True)
    found = reached(name, unit, public, without_two(directed()))
    assert found == l1_sensitivity(name, unit, public)


@pytest.mark.parametrize("name", ["edges", "mixing", "degrees", "node-degrees"])
def test_the_change_of_one_edge_is_too_little_for_a_person(name):
    with pytest.raises(AssertionError, match="too small"):
        reached(name, EDGE, facts(4), without_two(undirected(4)))


@pytest.mark.parametrize("name", SCALED)
def test_counts_that_noisy_degrees_bound_have_no_proof_for_persons(name):
    with pytest.raises(UnsupportedUnitError, match="edges of one person"):
        l1_sensitivity(name, PERSON, facts(5))


def test_groups_do_not_add_up():
    pairs = [(one, other) for one, other, _ in edge_pairs(undirected())]
    assert reached("degrees", EDGE, facts(5), pairs, grouped=True) == 2
    for one, other, edge in edge_pairs(undirected()):
        tops = one.tops().tolist()
        assert change("triangles", one, other, grouped=True) <= scaled("triangles", *tops), edge


@pytest.mark.parametrize("name", SCALED)
def test_bounds_on_the_smaller_graph_cover_what_an_edge_changes(name):
    gaps = []
    for one, other, _ in edge_pairs(undirected()):
        first, second = one.tops().tolist()
        gaps.append(scaled(name, first, second) - change(name, one, other))
        larger = other.tops().tolist()  # bounds of the larger graph are no smaller
        assert scaled(name, *larger) >= scaled(name, first, second)
    assert min(gaps) == 0
    assert by_bounds(name, EDGE)


@pytest.mark.parametrize("name", SCALED)
def test_a_bound_from_lower_degrees_fails(name):
    """The second degree in place of the first, and the third in place of the second."""
    lower = 0
    for one, other, _ in edge_pairs(undirected()):
        degrees = np.sort(one.node_degrees()[0])[::-1].tolist()
        lower = max(lower, change(name, one, other) - scaled(name, degrees[1], degrees[2]))
    assert lower > 0


_RELABELED = {}


def relabeled(arcs, labels, graph):
    """Another graph of the same arcs, made once."""
    key = arcs, labels, graph.directed, graph.num_nodes
    if key not in _RELABELED:
        _RELABELED[key] = Counted(SimpleNamespace(**{**vars(graph), "y": np.array(labels)}))
    return _RELABELED[key]


def node_pairs(graphs, size, most):
    """All pairs of graphs within the promise of which one has an emptied record: no arc and no label."""
    for arcs, whole in graphs.items():
        degrees = [max(sum(u == v for u, _ in arcs), sum(w == v for _, w in arcs)) for v in range(size)]
        if not whole.graph.directed:
            degrees = [sum(v in edge for edge in arcs) for v in range(size)]
        if max(degrees) > most:
            continue
        for node in range(size):
            left = frozenset(arc for arc in arcs if node not in arc)
            labels = whole.graph.y.copy()
            labels[node] = -1
            emptied = graphs[left].graph
            yield whole, relabeled(left, tuple(labels.tolist()), emptied)


@pytest.mark.parametrize("most", [2, 3])
@pytest.mark.parametrize("name", ["edges", "mixing", "degrees", "triangles", "wedges", "stars"])
def test_one_node_with_all_edges_changes_counts_by_what_is_stated(name, most):
    public = facts(5, most=most)
    found = reached(name, NODE, public, node_pairs(undirected(), 5, most))
    assert found == l1_sensitivity(name, NODE, public) or name in ("wedges", "stars", "triangles")
    replaced = sf.NodeLevel(arcs="incident", relation="replace")
    assert l1_sensitivity(name, replaced, public) == 2 * l1_sensitivity(name, NODE, public)


@pytest.mark.parametrize("relation", ["remove", "replace"])
def test_one_node_leaves_one_group_and_enters_another(monkeypatch, relation):
    """Of an emptied node it is the last group, of a replaced one any."""
    unit, public, empty = sf.NodeLevel(arcs="incident", relation=relation), facts(5, most=3), frozenset()
    whole, labels = undirected()[empty], LABELS.tolist()
    others = [-1] if relation == "remove" else [-1, 0, 1]
    pairs = [
        (whole, relabeled(empty, (*labels[:node], label, *labels[node + 1 :]), whole.graph))
        for node in range(5) for label in others
    ]  # fmt: skip
    assert reached("groups", unit, public, pairs) == l1_sensitivity("groups", unit, public) == 2
    monkeypatch.setattr(bounded, "_of_nodes", lambda *_: 1)
    with pytest.raises(AssertionError, match="too small a claim"):
        reached("groups", unit, public, pairs)


def test_counts_of_shapes_reach_their_bounds_at_a_node_whose_neighbors_are_full():
    """Two hubs of five nodes do: a node of degree D whose neighbors have degree D too, and are linked for triangles."""
    public = facts(4, most=3)
    pairs = list(node_pairs(undirected(4), 4, 3))
    for name in SCALED:
        assert reached(name, NODE, public, pairs) == l1_sensitivity(name, NODE, public), name


@pytest.mark.parametrize("name", ["edges", "mixing", "out-degrees", "in-degrees", "mutual"])
def test_one_node_with_all_arcs_changes_counts_by_what_is_stated(name):
    public = facts(3, directed=True, most=2)
    found = reached(name, NODE, public, node_pairs(directed(), 3, 2))
    assert found == l1_sensitivity(name, NODE, public)


def test_half_of_what_is_stated_fails_at_node_level(monkeypatch):
    public = facts(5, most=3)
    whole = bounded._of_nodes
    monkeypatch.setattr(bounded, "_of_nodes", lambda *one: whole(*one) // 2)
    for name in ("edges", "mixing", "degrees"):
        with pytest.raises(AssertionError, match="too small a claim"):
            reached(name, NODE, public, node_pairs(undirected(), 5, 3))


@pytest.mark.parametrize(("name", "claim"), [("degrees", 1), ("node-degrees", 1), ("bounds", 1)])
def test_one_end_of_an_edge_is_a_near_miss(monkeypatch, name, claim):
    monkeypatch.setitem(bounded._OF_EDGES, name, claim)
    with pytest.raises(AssertionError, match="too small a claim"):
        reached(name, EDGE, facts(5), [(one, other) for one, other, _ in edge_pairs(undirected())])


def test_edges_between_groups_that_are_counted_at_both_ends_are_a_near_miss(monkeypatch):
    def both(counted):
        labels, graph = counted.groups, counted.graph
        owners = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
        return np.bincount(labels[owners] * 3 + labels[graph.indices], minlength=9)

    monkeypatch.setitem(COUNTS, "mixing", both)
    for counted in undirected(4).values():
        vars(counted).pop("known", None)
    with pytest.raises(AssertionError, match="too small a claim"):
        reached("mixing", EDGE, facts(4), [(one, other) for one, other, _ in edge_pairs(undirected(4))])
    for counted in undirected(4).values():
        vars(counted).pop("known", None)


def laplace(at, scale):
    """Chances of discrete Laplace noise."""
    p = np.exp(-1 / scale)
    return (1 - p) / (1 + p) * p ** np.abs(at)


def divergence(epsilon, margin, *, change=6, degree=3):
    """Delta at an epsilon of noisy bounds on two degrees, 3 or 4, and of wedges that change by 6, each at a cost of 1.

    All outcomes in turn: both bounds, and the count with noise that they scale.
    """
    bound, at = np.arange(-40, 48), np.arange(-300, 301)
    one, other = laplace(bound - degree, 2.0), laplace(bound - degree - 1, 2.0)
    both, found = np.add.outer(np.maximum(bound + margin, 1), np.maximum(bound + margin, 1)), 0.0
    for total in np.unique(both):
        first, second = (np.outer(law, law)[both == total] for law in (one, other))
        less, more = laplace(at, total), laplace(at - change, total)
        for place in range(0, len(first), 64):
            gain = np.outer(first[place : place + 64], less) - np.exp(epsilon) * np.outer(
                second[place : place + 64], more
            )
            found += float(np.maximum(gain, 0).sum())
    return found


def test_bounds_and_the_count_that_they_scale_keep_their_promise_together():
    """The exact divergence of the whole mechanism, against that of two pure releases and the failure, paid once."""
    failure = 0.01
    wide = margin(1.0, failure)
    for epsilon in (0.0, 1.0, 2.0):
        promised = accounting.delta([ApproximateEvent(1.0, failure), PureEvent(1.0)], epsilon)
        assert divergence(epsilon, wide) <= promised
    assert divergence(2.0, 0) > failure  # bounds without a margin


def test_weights_move_within_what_is_stated():
    """One edge comes, goes, or has another weight."""
    ways = [None, 0, 1, FULL // RANGES - 1, FULL // RANGES, FULL // 2, FULL]

    def counted(steps):
        there = graph_of([] if steps is None else [(0, 1), (1, 0)], 3, None, directed=False)
        there.weights = SimpleNamespace(steps=np.array([] if steps is None else [steps, steps], np.uint16))
        return Counted(there)

    for name in ("weight", "weights"):
        changes = [change(name, counted(one), counted(other)) for one, other in combinations(ways, 2)]
        assert max(changes) == l1_sensitivity(name, EDGE, facts(3)), name


@pytest.mark.parametrize("size", [1, 2])
def test_the_smallest_graphs_are_counted(size):
    counted = Counted(graph_of([], size, None, directed=False))
    assert counted.tops().tolist() == [0, 0]
    assert counted.edges().tolist() == [0]
    assert most_degree(EDGE, facts(size)) == 1
    assert counted.degrees(degree_ends(1)).tolist() == [[size]]


@pytest.mark.parametrize("epsilon", [1e-3, 0.05, 1.0, 20.0])
@pytest.mark.parametrize("failure", [0.5, 1e-3, 1e-9, 1e-30])
def test_noise_is_below_the_margin_with_half_the_failure(epsilon, failure):
    """P(N < -t) of the discrete Laplace law is p^(t + 1) / (1 + p); the margin is at most two steps wider than it must be."""
    from mpmath import exp, mp, mpf

    with mp.workdps(50):
        p, found = exp(-mpf(epsilon) / 2), margin(epsilon, failure)
        assert p ** (found + 1) / (1 + p) <= mpf(failure) / 2
        assert found < 2 or p ** (found - 1) / (1 + p) > mpf(failure) / 2


def test_bounds_hold_as_often_as_they_promise():
    """Of 20,000 draws with a failure of 0.1, at most a tenth are below a true degree."""
    rng = np.random.default_rng(0)
    p = np.exp(-0.5)
    noise = rng.geometric(1 - p, (20_000, 2)) - rng.geometric(1 - p, (20_000, 2))
    tops = np.array([40, 35]) + noise
    bounds = np.array([top_bounds(one, 1.0, 0.1, 1000) for one in tops])
    failed = (bounds < [40, 35]).any(axis=1).mean()
    assert 0.02 < failed < 0.1
