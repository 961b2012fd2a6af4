"""A row of a table without any value is the empty record that proofs at node level compare with every other one."""

import numpy as np
import pyarrow as pa
import pytest

from sfumato.bounded._occurrences import absent_nodes
from sfumato.bounded._split_gradients import SplitNetwork
from sfumato.bounded._splits import split_graph
from sfumato.graph._schema import Column
from sfumato.tables._features import Layout
from sfumato.tables._frames import from_frames

COLUMNS = 30
SCHEMA = {
    "directed": False,
    "classes": ["a", "b"],
    "columns": {f"c{column}": {"min": 0, "max": 100} for column in range(COLUMNS)},
}
EMPTY = {"f": None, "g": None, "k": None}


def table(first):
    """Sixty people; all but one value and the label of the first are as they are in every table."""
    rng = np.random.default_rng(0)
    rows = [[f"n{at}", *rng.integers(0, 100, COLUMNS).tolist(), "ab"[at % 2]] for at in range(60)]
    rows[0] = ["n0", *first]
    rows[38] = ["n38", 100, *[0] * (COLUMNS - 1), "b"]  # in the group of n0
    names = ["id", *SCHEMA["columns"], "y"]
    nodes = pa.table({name: pa.array(list(cells)) for name, cells in zip(names, zip(*rows, strict=True), strict=True)})
    edges = pa.table({"from": ["n1", "n3"], "to": ["n2", "n4"]})
    return from_frames(nodes, edges, label="y", schema=SCHEMA).with_split()


@pytest.mark.parametrize("first", [[100, *[0] * (COLUMNS - 1), "a"], [7, *[None] * COLUMNS], [*[None] * COLUMNS, "b"]])
def test_an_emptied_row_moves_a_sum_of_groups_by_no_more_than_is_charged(first):
    groups, clip, worst = 40, 0.01, 0.0
    splits = [split_graph(table(row), groups, 0) for row in (first, [None] * (COLUMNS + 1))]
    one, two = (SplitNetwork(split, 8, 2) for split in splits)
    assert splits[1].left_out.sum() == 1
    for seed in range(40):
        rng = np.random.default_rng(seed)
        flat = rng.normal(size=one.num_parameters) * rng.choice([0.3, 1, 3])
        sums = [
            net.clipped_sum(flat, np.arange(groups)[~split.left_out], clip)
            for net, split in zip((one, two), splits, strict=True)
        ]
        worst = max(worst, np.linalg.norm((sums[0] - sums[1]).astype(float)) / 2**24)
    assert 0.5 < worst <= 1


def test_an_emptied_row_is_absent():
    assert absent_nodes(table([None] * (COLUMNS + 1))).tolist() == [True] + [False] * 59


@pytest.mark.parametrize("wide", [0, 200])
@pytest.mark.parametrize("packed", [False, True])
def test_only_a_row_without_any_value_is_zero(packed, wide):
    """Dense, sparse and packed rows: a number, one with a range, and categories, of which the last row has an unknown one."""
    if packed and wide:
        pytest.skip("sparse rows are not packed")
    categories = ("x", "y", *map(str, range(wide)))
    parts = (("f", None, None), ("g", Column(min=20, max=120), None), ("k", Column(categories), categories))
    layout = Layout(parts, ())
    rows = [EMPTY, {**EMPTY, "f": 0.0}, {**EMPTY, "g": 20.0}, {**EMPTY, "k": "y"}, {**EMPTY, "k": "other"}]
    columns = {name: pa.chunked_array([pa.array([row[name] for row in rows])]) for name in EMPTY}
    encoded, _ = (layout.packed if packed else layout.rows)(columns, np.arange(len(rows)))
    dense = encoded.toarray() if layout.sparse else np.asarray(encoded[: len(rows)])
    expected = [[0, 0, 0, 0], [0, 0.5, 0, 0], [0, 0, 0, 0], [0, 0.5, 0, 1], [0, 0, 0, 0]]
    assert layout.sparse == bool(wide)
    assert dense[:, :4].tolist() == expected
