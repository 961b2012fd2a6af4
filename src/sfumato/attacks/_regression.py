"""What attackers train on candidates whose answer they know: plain regressions, and a network of two hidden layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sfumato.nn._models import MLP
from sfumato.nn._training import train_full_batch
from sfumato.nn._weights import seeded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

REGRESSIONS = ("ridge", "neighbors")
_PENALTIES = tuple(10.0**power for power in range(-4, 5))  # for each known row
_NEAREST = 10
_CHUNK = 256


def network_odds(
    known: NDArray[np.float32],
    is_in: NDArray[np.bool_],
    asked: NDArray[np.float32],
    width: int,
    seed: int,
    **settings: Any,
) -> Floats:
    """Train a network on known rows, and compute its log-odds of being in for others; ``settings`` are those of the training."""
    rows, truth = torch.from_numpy(known), torch.from_numpy(is_in.astype(np.int64))
    with seeded(seed):
        network = MLP((known.shape[1], width, width, 2))
    train_full_batch(network, lambda: network(rows), truth, num_classes=2, validation_targets=truth[:0], **settings)
    with torch.no_grad():
        said = network(torch.from_numpy(asked)).double().numpy()
    odds: Floats = said[:, 1] - said[:, 0]
    return odds


def regress(kind: str, known: Floats, answers: Floats, asked: Floats) -> Floats:
    r"""Train a regression on known rows, and compute its answers for others.

    Columns are scaled by mean and deviation of the known rows alone. ``ridge`` minimizes :math:`\|y - \beta_0 - Z \beta\|^2 +
    \lambda \|\beta\|^2`, with the lambda of the smallest error when each known row is left out once, which for a hat matrix H is
    :math:`\sum_i ((y_i - \hat y_i) / (1 - H_{ii}))^2`; an answer by the mean alone is among the candidates. ``neighbors`` is the
    mean of the 10 nearest known rows.

    Source: Golub, Heath and Wahba (1979), Generalized Cross-Validation (the form with one row left out).
    """
    mean, scale = known.mean(0), known.std(0)
    scale = np.where(scale > 0, scale, 1.0)
    near, far = (known - mean) / scale, (asked - mean) / scale
    return _ridge(near, answers, far) if kind == "ridge" else _neighbors(near, answers, far)


def _ridge(near: Floats, answers: Floats, far: Floats) -> Floats:
    level, rest = answers.mean(), answers - answers.mean()
    u, s, vt = np.linalg.svd(near, full_matrices=False)
    best, chosen = ((rest * len(rest) / (len(rest) - 1)) ** 2).sum(), np.zeros(near.shape[1])
    told = u.T @ rest
    for penalty in (len(near) * one for one in _PENALTIES):
        shrunk = s**2 / (s**2 + penalty)
        left = 1 - (u**2 @ shrunk) - 1 / len(near)
        error = (((rest - u @ (shrunk * told)) / np.maximum(left, 1e-9)) ** 2).sum()
        if error < best:
            best, chosen = error, vt.T @ (np.divide(s, s**2 + penalty) * told)
    found: Floats = level + far @ chosen
    return found


def _neighbors(near: Floats, answers: Floats, far: Floats) -> Floats:
    found = np.empty(len(far))
    sizes, count = (near**2).sum(1), min(_NEAREST, len(near))
    for start in range(0, len(far), _CHUNK):
        part = slice(start, start + _CHUNK)
        apart = sizes - 2 * far[part] @ near.T
        found[part] = answers[np.argpartition(apart, count - 1, axis=1)[:, :count]].mean(1)
    return found
