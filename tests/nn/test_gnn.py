"""Graph layers against dense formulas on five nodes, and gradients through rows that are never formed."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.nn import functional

from sfumato.errors import InputError
from sfumato.nn._gnn import BACKBONES, GNN
from sfumato.nn._topology import PropagatedRows, Topology

ARCS = np.array([[0, 1, 1, 0, 0], [1, 0, 1, 0, 0], [1, 1, 0, 1, 0], [0, 0, 1, 0, 0], [0, 0, 0, 0, 0]], np.float32)
TOPOLOGY = Topology(sp.csr_matrix(ARCS))
DENSE = torch.from_numpy(ARCS)
LOOPED = DENSE + torch.eye(5)
X = torch.randn(5, 6, generator=torch.Generator().manual_seed(1))


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def normalized(matrix):
    scale = matrix.sum(1).clamp_min(1).rsqrt()
    return scale[:, None] * matrix * scale


def parts(layer):
    return {name: value.detach() for name, value in layer.named_parameters()}


def dense_sage(layer, x):
    p, mean = parts(layer), DENSE / DENSE.sum(1, keepdim=True).clamp_min(1)
    return x @ p["own.weight"].T + mean @ (x @ p["neighbor.weight"].T) + p["neighbor.bias"]


def dense_gcn(layer, x):
    return normalized(LOOPED) @ x @ parts(layer)["weight"].T + parts(layer)["bias"]


def dense_gat(layer, x):
    p, out = parts(layer), []
    for h, values in enumerate((x @ p["weight"].T).chunk(len(p["to_source"]), dim=1)):
        scores = (values @ p["to_target"][h])[:, None] + (values @ p["to_source"][h])[None]
        scores = functional.leaky_relu(scores, 0.2).masked_fill(LOOPED == 0, -torch.inf)
        out.append(scores.softmax(1) @ values)
    return torch.cat(out, 1) + p["bias"]


def dense_mlp(layer, x):
    return x @ parts(layer)["own.weight"].T + parts(layer)["own.bias"]


FORMULAS = {"sage": dense_sage, "gcn": dense_gcn, "gat": dense_gat, "mlp": dense_mlp}


@pytest.mark.parametrize("backbone", BACKBONES)
def test_a_network_is_its_dense_formula(backbone):
    network, formula = GNN(backbone, 6, 4, 3, dropout=0.5).eval(), FORMULAS[backbone]
    wanted = formula(network.second, functional.selu(formula(network.first, X)))
    assert torch.allclose(network(X, TOPOLOGY), wanted, atol=1e-5)
    other = GNN(backbone, 6, 4, 3, activation="relu").eval()
    other.load_state_dict(network.state_dict())
    assert not torch.allclose(other(X, TOPOLOGY), wanted, atol=1e-3)


def propagated(steps, density=0.4, missing=None):
    rows = sp.random(5, 6, density, format="csr", random_state=0)
    offset, shift = np.linspace(-1, 1, 6), None if missing is None else np.linspace(3, 2, 6)
    power = torch.linalg.matrix_power(normalized(DENSE), steps)
    dense = rows.toarray() + offset
    if missing is not None:
        dense[missing] += shift
    return PropagatedRows(rows, offset, TOPOLOGY, steps, missing, shift), power @ torch.from_numpy(dense).float()


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize(("steps", "density"), [(0, 0.3), (1, 0.3), (3, 0.3), (2, 0.9)])
@pytest.mark.parametrize("entries", [0, 4])
@pytest.mark.parametrize("missing", [None, np.array([False, True, False, True, False])])
def test_rows_give_the_scores_and_gradients_of_formed_ones(backbone, steps, density, entries, missing, monkeypatch):
    monkeypatch.setattr("sfumato.nn._topology._FORMED", entries)
    network, results = GNN(backbone, 6, 4, 3), []
    assert propagated(steps, density)[0].steps == (0 if entries else steps)
    for x in propagated(steps, density, missing):
        out = network(x, TOPOLOGY)
        results.append((out, *torch.autograd.grad(out.tanh().square().sum(), list(network.parameters()))))
    for one, other in zip(*results, strict=True):
        assert torch.allclose(one, other, atol=1e-5)
    assert all(other.abs().max() > 0 for other in results[1][1:3])


@pytest.mark.parametrize("at_once", [4, 4096])
def test_gradients_are_those_of_finite_differences(at_once, monkeypatch):
    monkeypatch.setattr("sfumato.nn._gnn._AT_ONCE", at_once)
    """In attention, whose gradient is written by hand, and one network deep."""
    network = GNN("gat", 6, 4, 3)
    rows = propagated(2)[0]

    def loss():
        return network(rows, TOPOLOGY).tanh().sum()

    weight = network.first.weight
    (gradient,) = torch.autograd.grad(loss(), weight)
    direction = torch.randn_like(weight)
    with torch.no_grad():
        weight += 0.01 * direction
        above = loss().item()
        weight -= 0.02 * direction
        below = loss().item()
    assert (above - below) / 0.02 == pytest.approx((gradient * direction).sum().item(), rel=2e-2, abs=2e-3)


def test_dropout_comes_after_the_activation_only():
    network = GNN("sage", 6, 4, 3, dropout=0.5).train()
    assert torch.equal(network.hidden(X, TOPOLOGY), network.hidden(X, TOPOLOGY))
    hidden = network.hidden(X, TOPOLOGY)
    assert not torch.equal(network.head(hidden, TOPOLOGY), network.head(hidden, TOPOLOGY))
    network.eval()
    assert torch.equal(network.head(hidden, TOPOLOGY), network.head(hidden, TOPOLOGY))


def test_unknown_backbones_are_refused():
    with pytest.raises(InputError, match="backbone"):
        GNN("transformer", 6, 4, 3)
