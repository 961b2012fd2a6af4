"""Gradients by hand have the bits of autograd, for every network of images and any few rows."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from sfumato.nn._convolution import ConvNet, image_network
from sfumato.nn._dense import mean_gradient

NETWORKS = {
    "softmax": lambda: image_network("softmax", 30, None, 4, 0),
    "mlp": lambda: image_network("mlp", 30, None, 4, 9),
    "head": lambda: ConvNet((1, 28, 28), 33, 4).head,
    "cnn": lambda: ConvNet((1, 12, 12), 9, 4),
}


def by_autograd(network, inputs, targets, scale):
    loss = scale * functional.cross_entropy(network(inputs), targets)
    return torch.cat([part.reshape(-1) for part in torch.autograd.grad(loss, list(network.parameters()))])


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize("rows", [1, 2, 16, 33])
def test_gradients_are_those_of_autograd(name, kind, rows):
    torch.manual_seed(rows)
    network = NETWORKS[name]().to(kind)
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.3)
    width = 144 if name == "cnn" else next(network.parameters()).shape[1]
    inputs, targets = torch.randn(rows, width, dtype=kind), torch.randint(0, 4, (rows,))
    for scale in (1.0, 1000.0):
        found = mean_gradient(network, inputs, targets, scale)
        wanted, ulp = by_autograd(network, inputs, targets, scale), torch.finfo(kind).eps
        # Some processors multiply transposed matrices in another order: a few units in the last place.
        torch.testing.assert_close(found, wanted, rtol=16 * ulp, atol=16 * ulp * float(wanted.abs().max()))
        assert found.dtype == kind
        assert found.abs().max() > 1e-3
    assert not inputs.requires_grad
    assert all(parameter.grad is None for parameter in network.parameters())


def test_layers_that_are_not_known_are_left_to_autograd():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    inputs, targets = torch.randn(5, 3), torch.tensor([0, 1, 1, 0, 1])
    assert torch.equal(mean_gradient(network, inputs, targets), by_autograd(network, inputs, targets, 1.0))
