"""One hop as SQL: the integers of the kernel, on a graph with hubs and empty rows and with saturated steps."""

import duckdb
import numpy as np
import pytest

from sfumato.bounded.aggregation import Arcs, neighborhood_sum
from sfumato.bounded.kernels import INT16_ONE


@pytest.mark.parametrize("width", [1, 17])
def test_grouped_sums_are_those_of_the_kernel(width):
    random = np.random.default_rng(width)
    nodes, count = 200, 100_000
    target = np.sort(np.r_[np.zeros(count // 2, np.int64), random.integers(0, nodes // 2, count // 2)])
    source = random.integers(0, nodes, count).astype(np.int32)
    steps = random.choice(np.array([-INT16_ONE, -1, 0, 1, INT16_ONE], np.int16), (nodes, width))
    offsets = np.r_[0, np.cumsum(np.bincount(target, minlength=nodes))]
    warehouse = duckdb.connect()
    warehouse.register("arcs", {"source": source, "target": target})
    columns = {f"c{i}": np.ascontiguousarray(steps[:, i]) for i in range(width)}
    warehouse.register("steps", {"node": np.arange(nodes), **columns})
    wanted = ", ".join(f"SUM({name})::BIGINT AS {name}" for name in columns)
    query = f"SELECT target, {wanted} FROM arcs JOIN steps ON source = node GROUP BY target"
    found = warehouse.sql(query).fetchnumpy()
    sums = np.zeros((nodes, width), np.int64)
    for i, name in enumerate(columns):
        sums[found["target"], i] = found[name]
    assert np.array_equal(sums, neighborhood_sum(Arcs(offsets, source), steps))
    assert np.abs(sums[0]).max() > INT16_ONE
    assert not sums[nodes // 2 :].any()
