"""Declared ranges in spec.json are those of columns, each once and in order: they are no room for anything else."""

from dataclasses import replace

import pytest

from sfumato.errors import DataError
from sfumato.graph._synthetic import campus
from sfumato.method._checks import check_names
from sfumato.verify._copies import _range_faults

NAMES = ["dorm=north", "age", "height"]


def entry(name, low=0.0, high=1.0):
    return {"name": name, "min": low, "max": high}


@pytest.mark.parametrize(
    "ranges", [None, [entry("age")], [entry("age", None, 3), entry("height", 2, None)], [entry("age", 1, 1)]]
)
def test_ranges_of_columns_are_accepted(ranges):
    assert list(_range_faults(NAMES, ranges)) == []


@pytest.mark.parametrize(
    "ranges",
    [
        [],
        [entry("Jane Doe is 47")],
        [entry("height"), entry("age")],
        [entry("age"), entry("age")],
        [entry("age", 2, 1)],
        [entry("age", None, None)],
    ],
)
def test_anything_else_is_a_problem(ranges):
    assert list(_range_faults(NAMES, ranges))


@pytest.mark.parametrize("names", [("secret",), ("dorm=1", "dorm=0"), ("dorm=0", "dorm=0")])
def test_a_graph_with_other_ranges_is_not_fitted(names):
    graph = campus(50)
    graph = replace(graph, feature_names=tuple(f"dorm={i}" for i in range(graph.num_features)))
    check_names(replace(graph, ranges=(("dorm=0", 0.0, 1.0), ("dorm=1", None, 1.0))), ())
    with pytest.raises(DataError, match="each once and in their order"):
        check_names(replace(graph, ranges=tuple((name, 0.0, 1.0) for name in names)), ())
