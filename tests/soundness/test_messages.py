"""A message is a function of the sender's own record: what the proof of every node-level hop takes for granted."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from sfumato.central._gap import encode
from sfumato.central._learning import Features
from sfumato.graph._checks import MOST_FEATURE
from sfumato.graph._graph import Graph
from sfumato.nn._models import Encoder

RECORDS, COLUMNS = 500, 200


def encodings(x):
    """Messages of all nodes, by GAP's own encoder with fixed weights."""
    torch.manual_seed(0)
    encoder = Encoder(COLUMNS, 16, 3, batch_norm=False)
    graph = Graph.from_csr(np.zeros(RECORDS + 1, np.int64), np.zeros(0, np.int32), directed=True, x=x)
    return encode(encoder, Features(graph))


def assert_own_record_alone(store, filled, records=(0, 1, RECORDS - 1)):
    """Emptying, filling or inflating one record leaves every other message as it was, bit for bit."""
    rng = np.random.default_rng(0)
    x = np.zeros((RECORDS, COLUMNS), np.float32)
    for row in x:
        row[rng.choice(COLUMNS, filled, replace=False)] = rng.random(filled) + 0.1
    before = encodings(store(x))
    for v in records:
        others = np.arange(RECORDS) != v
        for record in (0.0, 1.0, MOST_FEATURE):
            neighbor = x.copy()
            neighbor[v] = record
            after = encodings(store(neighbor))
            assert np.array_equal(before[others], after[others]), "another record changes this message"
            assert not np.array_equal(before[v], after[v])


@pytest.mark.parametrize("filled", [3, 20, 100])
def test_messages_from_dense_features(filled):
    assert_own_record_alone(lambda x: x, filled)


@pytest.mark.parametrize("filled", [3, 100])
def test_messages_from_sparse_features(filled):
    assert_own_record_alone(sp.csr_matrix, filled)


def test_messages_from_features_at_a_tenth_of_the_entries():
    assert_own_record_alone(sp.csr_matrix, COLUMNS // 10)


def test_planted_fault_features_centered_by_their_mean():
    with pytest.raises(AssertionError, match="another record"):
        assert_own_record_alone(lambda x: x - x.mean(0, keepdims=True), 20)
