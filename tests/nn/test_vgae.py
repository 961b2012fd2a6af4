"""The auto-encoder's parts against hand-computed values, and that training finds the edges of two cliques."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from sfumato.local._heat import normalized_adjacency
from sfumato.nn._models import SparseRows
from sfumato.nn._vgae import VGAE, divergence, drawn, log_odds, reconstruction_loss, train_vgae


def test_convolution_of_projected_features_is_the_convolution_of_features():
    torch.manual_seed(0)
    path = sp.csr_matrix(np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]], np.float32))
    step = normalized_adjacency(path)
    model, x = VGAE(3, hidden=5, width=2).eval(), torch.randn(4, 3)
    dense = torch.from_numpy(step.toarray())
    hidden = torch.relu(dense @ x @ model.first.weight.T / (1 + 1e-5) ** 0.5)
    expected = dense @ hidden @ model.heads.weight.T
    mean, log_std = model.encode(x, SparseRows(step))
    torch.testing.assert_close(torch.cat((mean, log_std), 1), expected)
    torch.testing.assert_close(model(x, SparseRows(step)), mean)
    model.train()
    assert not torch.equal(model(x, SparseRows(step)), model(x, SparseRows(step)))


def test_codes_have_the_stated_spread():
    torch.manual_seed(0)
    codes = drawn(torch.full((20_000, 1), 3.0), torch.full((20_000, 1), float(np.log(0.5))))
    assert abs(codes.mean().item() - 3) < 0.02
    assert abs(codes.std().item() - 0.5) < 0.02


def test_loss_is_cross_entropy_of_the_log_odds():
    codes = torch.tensor([[1.0, 0.0], [2.0, 1.0], [0.0, -3.0]])
    edges, absent = torch.tensor([[0], [1]]), torch.tensor([[1, 0], [2, 2]])
    assert log_odds(codes, absent).tolist() == [-3.0, 0.0]
    expected = -np.log(1 / (1 + np.exp(-2))) - np.mean(np.log([1 / (1 + np.exp(-3)), 0.5]))
    assert reconstruction_loss(codes, edges, absent).item() == pytest.approx(expected, rel=1e-6)


def test_divergence_is_the_closed_form_summed_over_the_code():
    assert divergence(torch.zeros(3, 2), torch.zeros(3, 2)).item() == 0
    halved = divergence(torch.zeros(1, 2), torch.full((1, 2), float(np.log(0.5)))).item()
    assert halved == pytest.approx(2 * (np.log(2) + 0.25 / 2 - 0.5), rel=1e-6)


def cliques():
    blocks = sp.block_diag([np.ones((10, 10)) - np.eye(10)] * 2, format="csr")
    pairs = torch.from_numpy(np.stack(sp.triu(blocks, k=1).nonzero()).astype(np.int64))
    across = torch.from_numpy(np.stack([np.repeat(np.arange(10), 10), np.tile(np.arange(10, 20), 10)]))
    return SparseRows(normalized_adjacency(blocks)), pairs, across


def test_training_tells_edges_from_pairs_across():
    torch.manual_seed(1)
    step, pairs, across = cliques()
    model = VGAE(20, hidden=8, width=4)
    epochs = train_vgae(model, torch.eye(20), step, pairs, pairs, lambda m: across[:, torch.arange(m)], max_epochs=120)
    assert epochs == 120
    codes = model(torch.eye(20), step)
    assert log_odds(codes, pairs).min() > log_odds(codes, across).max()


@pytest.mark.parametrize(("min_epochs", "ends"), [(10, 110), (140, 140)])
def test_training_ends_after_ten_checks_without_a_better_loss(min_epochs, ends):
    torch.manual_seed(0)
    step, pairs, across = cliques()
    model = VGAE(20, hidden=4, width=2)
    epochs = train_vgae(
        model, torch.eye(20), step, pairs, pairs, lambda m: across[:, torch.arange(m)],
        learning_rate=1e-12, weight_decay=0.0, min_epochs=min_epochs,
    )  # fmt: skip
    assert ends <= epochs < 300
