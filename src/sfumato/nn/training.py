"""One plain full-batch training loop. Nothing here is private; private training lives in `bounded/gradients.py`."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

Progress = Callable[[int, int], None]


def train_full_batch(
    model: nn.Module,
    scores: Callable[[], Tensor],
    targets: Tensor,
    *,
    epochs: int,
    learning_rate: float,
    validate: Callable[[], Tensor] | None = None,
    validation_targets: Tensor,
    progress: Progress | None = None,
) -> list[float]:
    """Minimize cross-entropy with Adam, in place; with ``validate``, keep the epoch with the best accuracy there.

    Choosing an epoch reads the validation labels: callers pass ``validate`` only where labels are public.

    Args:
        model: the network.
        scores: scores of the training rows, [num_train, num_classes], in training mode.
        targets: int64 [num_train]; -1 has no loss.
        epochs: passes over the training rows.
        learning_rate: of Adam.
        validate: scores of the validation rows, in evaluation mode.
        validation_targets: int64 [num_val].
        progress: called with (epoch, epochs).

    Returns:
        The training loss of each epoch.
    """
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate, fused=True)
    best, best_state, losses = -1.0, None, []
    for epoch in range(epochs):
        model.train()
        optimizer.zero_grad()
        loss = functional.cross_entropy(scores(), targets, ignore_index=-1)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        if validate is not None:
            model.eval()
            with torch.no_grad():
                accuracy = float(torch.eq(validate().argmax(1), validation_targets).double().mean())
            if accuracy > best:
                best, best_state = accuracy, copy.deepcopy(model.state_dict())
        if progress is not None:
            progress(epoch + 1, epochs)
    if best_state is not None:
        model.load_state_dict(best_state)
    model.eval()
    return [float(loss) for loss in losses]
