"""Images are described by the directions of their edges, and set upright first where they are slanted: fixed, public maps.

Source: Dalal and Triggs (2005), Histograms of Oriented Gradients for Human Detection.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

SIDE = 28
_AT_ONCE = 500
_DIRECTIONS, _CELL = 12, 4
EDGES = _DIRECTIONS * (SIDE // _CELL) ** 2
"""Length of a row of :func:`edge_histograms`."""


def upright(x: Tensor) -> Tensor:
    """Set images upright: center them and undo their slant, so that the mean column is the same in all rows, by moments."""
    ink, at = x.mean(1), (torch.arange(SIDE) - (SIDE - 1) / 2) * (2 / SIDE)
    total = ink.sum((1, 2)).clamp_min(1e-6)
    middle_row, middle_column = (ink.sum(2) @ at) / total, (ink.sum(1) @ at) / total
    down, right = at - middle_row[:, None], at - middle_column[:, None]
    shared = torch.einsum("nij,ni,nj->n", ink, down, right)
    slant = shared / torch.einsum("nij,ni->n", ink, down**2).clamp_min(1e-6)
    one, zero = torch.ones_like(slant), torch.zeros_like(slant)
    rows = torch.stack([one, slant, middle_column, zero, one, middle_row], 1).view(-1, 2, 3)
    grid = functional.affine_grid(rows, list(x.shape), align_corners=False)
    return functional.grid_sample(x, grid, align_corners=False)


def edge_histograms(x: Tensor) -> Tensor:
    """Describe images [n, channels, 28, 28] by the directions of their edges: a unit row [EDGES] each.

    Gradients of the smoothed image, split between the nearest of 12 directions and summed over overlapping cells; roots
    temper strong edges.
    """
    return torch.cat([_histograms(part) for part in x.split(_AT_ONCE)])


def _histograms(x: Tensor) -> Tensor:
    x = functional.avg_pool2d(functional.pad(x.mean(1, keepdim=True), (2,) * 4), 3, 1)
    right, down = (x[:, :, 1:-1, 2:] - x[:, :, 1:-1, :-2]), (x[:, :, 2:, 1:-1] - x[:, :, :-2, 1:-1])
    strength, angle = torch.hypot(right, down), torch.atan2(down, right) * (_DIRECTIONS / (2 * math.pi))
    away = (angle - torch.arange(_DIRECTIONS)[:, None, None]) % _DIRECTIONS
    shares = strength * (1 - torch.minimum(away, _DIRECTIONS - away)).clamp_min(0)
    cells = functional.avg_pool2d(shares, 2 * _CELL - 1, _CELL, padding=_CELL - 1)
    return functional.normalize(cells.sqrt().flatten(1))
