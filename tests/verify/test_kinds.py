"""Kinds of releases that methods at node level need: networks of repeated terms, and rows of picked entries."""

import pytest
from verify_written import Held, poisson, repeated

from sfumato.verify._dpar import PageRankRows
from sfumato.verify._kinds import EdgeSet, Network, TopRows


def network(event, **planned):
    release = {"event": event, "shape": [70], "affected_coordinates": 70}
    return list(Network("network", [70], 70, 0.1, 200, **planned).faults("releases[0].", release))


REPEATED, SAMPLED = repeated(0.1, 11, 4.0, 200), poisson(0.1, 4.0, 200)


def test_a_network_of_one_example_and_one_of_many_terms():
    assert network(SAMPLED) == network(REPEATED, occurrences=11) == []
    assert network(REPEATED) == ["releases[0].event.type: expected poisson-gaussian, got repeated-gaussian"]
    assert network(SAMPLED, occurrences=11) == [
        "releases[0].event.type: expected repeated-gaussian, got poisson-gaussian"
    ]


@pytest.mark.parametrize(("field", "value", "wanted"), [("sampling_prob", 0.05, "0.1"), ("steps", 1, "200"),
                                                        ("occurrences", 10, "11")])  # fmt: skip
def test_sampling_terms_and_steps_must_follow(field, value, wanted):
    said = f"releases[0].event.{field}: expected {wanted}, as settings and public facts say, got {value}"
    assert network({**REPEATED, field: value}, occurrences=11) == [said]


PICKED = TopRows("pages", [4, 3], 0, event="exponential", count=4, limits=(9, 9), picks=2)
LINES = [[0, 1, 5], [0, 8, 5], [7, 0, 5], [7, 7, 5]]


def test_picked_entries_are_charged_one_by_one():
    release = {"event": {"type": "exponential", "epsilon": 0.1, "count": 4}, "shape": [4, 3], "affected_coordinates": 0}
    assert list(PICKED.faults("", release)) == []
    for event in ({**release["event"], "count": 3}, {"type": "gaussian", "noise_multiplier": 1.0, "count": 4}):
        assert list(PICKED.faults("", {**release, "event": event})) == [
            "event: expected 4 releases of type exponential"
        ]
    assert list(PICKED.faults("", {**release, "shape": [5, 3]})) != []


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        (LINES, ""),
        ([[0, 1, 5], [0, 3, 5], [0, 8, 5], [7, 0, 5]], "row 0 holds 3 entries, expected 2"),
        ([[0, 1, 5], [0, 1, 5], [7, 0, 5], [7, 7, 5]], "not in ascending order"),
        ([[0, 1, 5], [0, 9, 5], [7, 0, 5], [7, 7, 5]], "columns from 0 to 9"),
    ],
)
def test_each_row_has_so_many_entries(lines, named):
    found = list(PICKED.value_faults({"pages": Held(lines)}))
    assert len(found) == bool(named)
    assert all(named in text for text in found)


ROWS = PageRankRows("appr/columns", [2, 3], 0, event="exponential", count=6, nodes=9, parts=("appr/columns",))


@pytest.mark.parametrize(
    ("rows", "named"),
    [
        ([[0, 4, 8], [1, 2, 3]], ""),
        ([[0, 4, 8], [1, 2, 2]], "not in ascending order, each node once"),
        ([[0, 8, 4], [1, 2, 3]], "not in ascending order, each node once"),
        ([[0, 4, 9], [1, 2, 3]], "holds nodes from 0 to 9, expected 0 to 8"),
        ([[-1, 4, 8], [1, 2, 3]], "holds nodes from -1 to 8, expected 0 to 8"),
    ],
)
def test_each_row_of_pagerank_names_a_node_once(rows, named):
    found = list(ROWS.value_faults({"appr/columns": Held(rows)}))
    assert len(found) == bool(named)
    assert all(named in text for text in found)


@pytest.mark.parametrize(
    ("arcs", "directed", "named"),
    [
        ([[0, 1], [2, 1]], True, ""),
        ([[0, 1], [2, 2]], True, "two different ends"),
        ([[0, 1], [2, 2]], False, "the smaller end first"),
        ([[0, 1], [2, 1]], False, "the smaller end first"),
        ([[0, 1], [0, 1]], True, "not in ascending order"),
    ],
)
def test_edges_are_between_two_nodes_and_each_once(arcs, directed, named):
    released = EdgeSet("edges", [None, 2], 0, limits=(3, 3), directed=directed)
    found = list(released.value_faults({"edges": Held(arcs)}))
    assert len(found) == bool(named)
    assert all(named in text for text in found)
