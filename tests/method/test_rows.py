"""Released rows leave as embeddings where anyone may see them, and are refused with the reason elsewhere."""

from dataclasses import replace

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import InputError
from sfumato.graph._synthetic import stochastic_block_model
from sfumato.loops.kernels import INT16_ONE

GRAPH = replace(
    stochastic_block_model(120, 3, mean_degree=12, num_features=6, seed=0).with_split(seed=0), max_degree=60
)
EDGE, NODE = sf.EdgeLevel(directed=False), sf.NodeLevel(max_out_degree=5)


def fit(method, unit=EDGE):
    budget = sf.Budget(4.0, 1e-6) if unit.private else None
    return method.calibrate(budget, unit, GRAPH.public_facts(unit)).fit(GRAPH)


@pytest.mark.parametrize(
    ("method", "unit", "columns"),
    [
        (sf.GAP(num_hops=2, epochs=1), EDGE, 32),
        (sf.GAP(num_hops=1, epochs=1), NODE, 16),
        (sf.LabelMessages(num_hops=1, epochs=1), EDGE, 3),
        (sf.LinkMessages(), EDGE, 3),
    ],
)
def test_rows_are_what_was_released(method, unit, columns, tmp_path):
    fitted = fit(method, unit)
    rows = fitted.embeddings(GRAPH)
    assert (rows.shape, rows.dtype) == ((120, columns), np.float32)
    first = next(iter(fitted.released.values()))
    first = first[: 120 * 3].reshape(120, 3) if first.ndim == 1 else first
    np.testing.assert_array_equal(rows[:, : first.shape[1]], (first / INT16_ONE).astype(np.float32))
    head = fitted.ledger.head
    np.testing.assert_array_equal(sf.load(fitted.save(tmp_path / "run")).embeddings(GRAPH), rows)
    assert fitted.ledger.head == head


@pytest.mark.parametrize(
    ("method", "unit", "said"),
    [
        (sf.MLP(epochs=1), EDGE, "to let anyone see noisy aggregates"),
        (sf.GAP(num_hops=1, epochs=1), sf.NoPrivacy(), "to let anyone see noisy aggregates"),
    ],
)
def test_rows_that_may_not_leave_are_refused(method, unit, said):
    with pytest.raises(InputError, match=said):
        fit(method, unit).embeddings(GRAPH)


def test_rows_for_single_nodes_are_refused():
    from sfumato.central._promised import PromisedMessages

    fitted = fit(PromisedMessages(), sf.NodeLevel(arcs="incident"))
    with pytest.raises(InputError, match="to let anyone see noisy aggregates"):
        fitted.embeddings(GRAPH)


def test_another_graph_is_refused():
    with pytest.raises(InputError, match="other node ids"):
        fit(sf.LinkMessages()).embeddings(replace(GRAPH, node_ids=np.arange(120) + 1))


def test_methods_that_score_nodes_refuse_pairs():
    with pytest.raises(InputError, match="method to score pairs of nodes, got 'label-messages'"):
        fit(sf.LabelMessages(epochs=1)).score_pairs(GRAPH, np.array([[0], [1]]))
