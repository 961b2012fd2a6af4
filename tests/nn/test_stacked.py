"""Stacked networks are what single ones are, member by member, and no member sees another."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from sfumato.errors import InputError
from sfumato.nn._stacked import StackedCNN, StackedLinear, StackedMLP, _MaxOfFour, generators, take_member

MEMBERS = 3


def single(stack, member):
    """The same network for one member, from plain layers."""
    weights = {name: torch.from_numpy(value) for name, value in take_member(stack, member).items()}

    def cnn(x):
        x = functional.relu(functional.conv2d(x, weights["first.weight"], weights["first.bias"], stride=2))
        x = functional.conv2d(x, weights["second.weight"], weights["second.bias"], padding=1)
        return (
            functional.relu(functional.max_pool2d(x, 2)).flatten(1) @ weights["head.weight"][0]
            + weights["head.bias"][0]
        )

    def mlp(x):
        x = functional.relu(x @ weights["layers.0.weight"][0] + weights["layers.0.bias"][0])
        return x @ weights["layers.1.weight"][0] + weights["layers.1.bias"][0]

    return cnn if isinstance(stack, StackedCNN) else mlp


STACKS = {
    "cnn": (lambda draw: StackedCNN(2, (3, 5), 4, draw), (2, 28, 28)),
    "mlp": (lambda draw: StackedMLP((6, 7, 4), draw), (6,)),
}


@pytest.fixture(params=STACKS)
def stack_and_rows(request):
    make, shape = STACKS[request.param]
    return make(generators(MEMBERS)), torch.from_numpy(
        np.random.default_rng(0).random((MEMBERS, 5, *shape), np.float32)
    )


def test_member_by_member(stack_and_rows):
    stack, rows = stack_and_rows
    scores = stack(rows)
    assert scores.shape == (MEMBERS, 5, 4)
    for member in range(MEMBERS):
        assert torch.allclose(scores[member], single(stack, member)(rows[member]), atol=1e-5)
    assert not torch.allclose(scores[1], single(stack, 0)(rows[1]), atol=1e-3)


def test_shared_rows_are_the_same_rows_for_all(stack_and_rows):
    stack, rows = stack_and_rows
    repeated = rows[:1].expand(MEMBERS, *rows.shape[1:])
    assert torch.allclose(stack.forward_shared(rows[0]), stack(repeated), atol=1e-5)


def test_no_member_sees_another(stack_and_rows):
    stack, rows = stack_and_rows
    before = gradients(stack, rows)
    changed = rows.clone()
    changed[1] = 5 - 3 * rows[1]
    after = gradients(stack, changed)
    for member, same in enumerate((True, False, True)):
        assert all((left[member] == right[member]).all() == same for left, right in zip(before, after, strict=True))


def gradients(stack, rows):
    """Scores and the gradient of each parameter, split by member."""
    stack.zero_grad()
    scores = stack(rows)
    functional.cross_entropy(scores.flatten(0, 1), torch.arange(len(rows) * 5) % 4, reduction="sum").backward()
    return [scores.detach(), *(torch.stack(p.grad.chunk(MEMBERS)) for p in stack.parameters())]


def test_batch_norm_over_members_is_caught():
    class Shared(nn.Module):
        def __init__(self, stack):
            super().__init__()
            self.stack, self.norm = stack, nn.BatchNorm1d(4, affine=False)

        def forward(self, rows):
            scores = self.stack(rows)
            return self.norm(scores.flatten(0, 1)).view_as(scores)

    rows = torch.from_numpy(np.random.default_rng(0).random((MEMBERS, 5, 6), np.float32))
    with pytest.raises(AssertionError):
        test_no_member_sees_another((Shared(StackedMLP((6, 7, 4), generators(MEMBERS))), rows))


def test_first_weights_depend_on_seed_and_member_alone():
    few, many = StackedMLP((6, 4), generators(2)), StackedMLP((6, 4), generators(4))
    assert (take_member(few, 1)["layers.0.weight"] == take_member(many, 1)["layers.0.weight"]).all()
    other = take_member(StackedMLP((6, 4), generators(2, seed=1)), 1)["layers.0.weight"]
    assert (take_member(few, 1)["layers.0.weight"] != other).any()


@pytest.mark.parametrize("levels", [2, 10**6])  # the first with many ties
def test_maximum_of_four_is_torch_s(levels):
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(levels, (3, 2, 6, 8), generator=generator).float().requires_grad_()
    weight = torch.rand(3, 2, 3, 4, generator=generator)
    ours, theirs = _MaxOfFour.apply(x), functional.max_pool2d(x, 2)
    assert torch.equal(ours, theirs)
    grads = [torch.autograd.grad((out * weight).sum(), x)[0] for out in (ours, theirs)]
    assert torch.allclose(grads[0].view(3, 2, 3, 2, 4, 2).sum((3, 5)), weight)
    assert (grads[0] != 0).sum() == weight.numel()
    if levels > 2:
        assert torch.equal(*grads)


def test_he_bound():
    weight = StackedLinear(600, 50, generators(2)).weight.detach()
    assert 0.099 < float(weight.abs().max()) <= 0.1
    assert float(weight.std()) == pytest.approx(np.sqrt(2 / 600), rel=0.02)


def test_absent_member_is_named():
    with pytest.raises(InputError, match=r"member.*0 to 1"):
        take_member(StackedMLP((2, 2), generators(2)), 2)
