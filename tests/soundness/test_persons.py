"""Edges of persons: brute force over tables that lack one person measures the choice and every sum; near misses fail."""

import math
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp

import sfumato as sf
from sfumato.bounded import _counting as counting
from sfumato.bounded import _routing as routing
from sfumato.bounded._degree import by_destination
from sfumato.bounded.aggregation import Arcs, affected_coordinates, hop_sensitivity
from sfumato.errors import DataError, InputError, UnsupportedUnitError
from sfumato.graph._graph import Graph
from sfumato.graph._persons import kept_edges, words_of

NODES = 5
FORMS = [(most, directed) for most in (1, 2, 3, 4) for directed in (True, False)]


def graph_of(rows, most, directed):
    """The edges of a graph, as a set of pairs, from rows (person, source, target)."""
    if not len(rows):
        return set()
    person, source, target = np.array(rows).T
    kept = kept_edges(person, words_of(range(6)), source, target, words_of(range(NODES)), most, directed=directed)
    return {(u, v) if directed else (min(u, v), max(u, v)) for u, v in zip(source[kept], target[kept], strict=True)}


def first_rows(rows, most, directed):
    """A near miss: repeated edges are merged before the first rows of each person are taken."""
    seen, count, edges = set(), {}, set()
    for person, u, v in rows:
        edge = (u, v) if directed else (min(u, v), max(u, v))
        if edge not in seen:
            seen.add(edge)
            count[person] = count.get(person, 0) + 1
            edges |= {edge} if count[person] <= most else set()
    return edges


def of_a_node(rows, most, directed):
    """A near miss: a node keeps so many edges, whoever owns them."""
    count, edges = {}, set()
    for _, u, v in rows:
        edge = (u, v) if directed else (min(u, v), max(u, v))
        if edge not in edges and count.get(u, 0) < most:
            edges.add(edge)
            count[u] = count.get(u, 0) + 1
    return edges


def tables(count, seed):
    """Small tables of rows (person, source, target), in which rows and edges repeat, also between persons."""
    draws = np.random.default_rng(seed)
    for _ in range(count):
        size = int(draws.integers(1, 14))
        yield np.column_stack([draws.integers(0, 4, size), draws.integers(0, NODES, (size, 2))]).tolist()


def changes(build, most, directed, seed=1):
    """The edges that a graph loses and gains as one person's rows are taken out, over many tables and all persons."""
    for rows in tables(300, seed):
        whole = build(rows, most, directed)
        for person in range(4):
            rest = build([row for row in rows if row[0] != person], most, directed)
            yield len(whole - rest), len(rest - whole)


@pytest.mark.parametrize(("most", "directed"), FORMS)
def test_without_a_person_a_graph_loses_at_most_the_bound_and_gains_nothing(most, directed):
    lost, gained = np.array(list(changes(graph_of, most, directed))).T
    assert gained.max() == 0
    assert lost.max() == most, "the bound is not kept, or not reached"


@pytest.mark.parametrize("near_miss", [first_rows, of_a_node])
def test_a_choice_that_reads_rows_of_others_is_caught(near_miss):
    lost, gained = np.array(list(changes(near_miss, 2, False))).T
    assert gained.max() > 0 or lost.max() > 2


@pytest.mark.parametrize("odd", ["x", "7.0", " 1", 2**70, "True", "a\0"])
def test_the_owner_of_one_row_changes_no_choice_of_others(odd):
    draws = np.random.default_rng(4)
    source, target = draws.integers(0, 40, (2, 300))
    persons = [int(one) for one in draws.integers(0, 9, 300)]
    how = {"directed": False, "edges_per_person": 3}
    whole = Graph.from_edges([*source, 0], [*target, 1], 40, person=[*persons, odd], **how)
    rest = Graph.from_edges(source, target, 40, person=persons, **how)
    arcs = [{*zip(np.repeat(np.arange(40), np.diff(one.indptr)), one.indices, strict=True)} for one in (whole, rest)]
    assert arcs[1] <= arcs[0]
    assert len(arcs[0] - arcs[1]) <= 2


@pytest.mark.parametrize("odd", [20.5, float("nan"), None, True, 1j, np.datetime64("2026-01-01")])
def test_owners_of_types_that_would_spread_to_others_are_refused(odd):
    with pytest.raises(DataError, match="row 1"):
        Graph.from_edges([0, 1], [1, 2], 3, directed=False, person=[7, odd], edges_per_person=1)


def test_a_bound_that_nobody_enforces_is_refused():
    for build in (Graph.from_edges, Graph.from_arcs):
        with pytest.raises(InputError, match="together"):
            build([0, 1], [1, 0], 2, directed=False, edges_per_person=3)
    with pytest.raises(InputError, match="together"):
        sf.graph.from_scipy(sp.csr_matrix([[0, 1], [1, 0]]), directed=False, edges_per_person=3)
    for bound in (0, 2.5, "3", True):
        with pytest.raises(InputError, match="edges_per_person"):
            Graph(np.array([0, 0]), np.zeros(0, np.int32), False, edges_per_person=bound)


def test_the_direction_of_a_persons_edges_is_that_of_the_graph():
    graph = Graph.from_edges([0], [1], 20, directed=False, person=["ann"], edges_per_person=3, y=[0, 1] * 10)
    unit = sf.PersonLevel(3, directed=True)
    with pytest.raises(InputError, match="directed"):
        sf.GAP().calibrate(sf.Budget(1.0, 1e-5), unit, graph.public_facts(unit))


def test_the_order_of_rows_of_nodes_and_the_direction_of_an_edge_play_no_part():
    draws = np.random.default_rng(2)
    for rows in tables(100, 3):
        person, source, target = np.array(rows).T
        words, ends = words_of(range(4)), words_of([f"node {number}" for number in range(NODES)])
        kept = kept_edges(person, words, source, target, ends, 2, directed=False)
        order, names = draws.permutation(len(rows)), draws.permutation(NODES)
        again = kept_edges(
            person[order], words, names[target[order]], names[source[order]], ends[np.argsort(names)], 2, directed=False
        )
        assert kept[order].tolist() == again.tolist()


def sums_without_each(most, directed, build):
    """The change of sums, for all sets of edges of one person on a graph of all pairs, each with the same message."""
    pairs = [(u, v) for u in range(NODES) for v in range(NODES) if (u != v if directed else u < v)]
    for edges in combinations(pairs, most):
        arcs = edges if directed else [*edges, *((v, u) for u, v in edges)]
        yield build(np.array(arcs).T)


def row_sums(arcs):
    return np.bincount(arcs[1], minlength=NODES).astype(float)


@pytest.mark.parametrize(("most", "directed"), FORMS)
def test_a_hop_moves_by_its_sensitivity_at_most_and_some_person_reaches_it(most, directed):
    claim = hop_sensitivity(sf.PersonLevel(most, directed), released_messages=True)
    moved = [np.linalg.norm(sums) for sums in sums_without_each(most, directed, row_sums)]
    assert max(moved) == pytest.approx(claim, rel=1e-12)
    rows = max(np.count_nonzero(sums) for sums in sums_without_each(most, directed, row_sums))
    assert rows <= affected_coordinates(sf.PersonLevel(most, directed), NODES, 1)
    if most > 1:
        assert max(moved) > math.sqrt(most * (1 if directed else 2)), "edges apart from each other are no worst case"


@pytest.mark.parametrize(("most", "directed"), FORMS)
def test_routed_sums_of_both_parts_move_by_as_many_messages_as_edges(most, directed):
    unit, known = sf.PersonLevel(most, directed), np.arange(NODES) < 2
    rank = routing.public_order(known, 3)

    def routed(arcs):
        indptr = np.concatenate(([0], np.cumsum(np.bincount(arcs[0], minlength=NODES))))
        own = np.lexsort((arcs[1], arcs[0]))
        lists = Arcs(*by_destination(indptr, arcs[1][own].astype(np.int32)))
        lists = routing.one_way(lists, rank) if routing.needs_one_way(unit) else routing.outward(lists, known)
        parts = counting.from_senders(lists, known), counting.from_senders(lists, ~known)
        return np.concatenate([np.diff(part.offsets) for part in parts]).astype(float)

    found = list(sums_without_each(most, directed, routed))
    assert max(sums.sum() for sums in found) == counting.count_sensitivity(unit) == most
    reached = max(np.linalg.norm(sums) for sums in found)
    assert reached <= routing.routed_sensitivity(unit)
    if most <= 2 and not directed:
        assert reached == most
    touched = max(np.count_nonzero(sums) for sums in found)
    assert touched <= routing.routed_coordinates(unit, NODES, 1)


def test_pair_scores_move_by_two_messages_an_edge():
    from sfumato.bounded._pairs import pair_sensitivity

    assert pair_sensitivity(sf.PersonLevel(4, False)) == 8.0
    with pytest.raises(UnsupportedUnitError, match="direction"):
        pair_sensitivity(sf.PersonLevel(4, True))
