"""Gradients of single examples, by functional differentiation."""

import torch
from torch import nn
from torch.func import functional_call, grad, vmap


def classified(scores, label):
    """The loss of a class; a label that is missing has none."""
    return nn.functional.cross_entropy(scores, label[None], ignore_index=-1, reduction="sum")


def per_example(model, x, y, loss=classified):
    """One row for each example, [batch, parameters]."""
    parameters = {name: value.detach() for name, value in model.named_parameters()}

    def lost(values, row, target):
        return loss(functional_call(model, values, (row[None],)), target)

    found = vmap(grad(lost), in_dims=(None, 0, 0))(parameters, x, y)
    return torch.cat([found[name].reshape(len(x), -1) for name in parameters], dim=1)


def clipped(gradients, clip):
    """Their sum, each clipped."""
    return (gradients * (clip / gradients.norm(dim=1, keepdim=True)).clamp(max=1)).sum(0)
