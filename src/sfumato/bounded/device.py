"""Neighborhood sums on a device of torch, such as a GPU. Whole numbers are added, so the bits are those of the processor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numpy.typing import NDArray

from sfumato._optional import require
from sfumato.graph._weights import FULL

if TYPE_CHECKING:
    import numpy as np

    from sfumato.bounded.aggregation import Arcs


def sum_on_device(arcs: Arcs, steps: NDArray[np.int16], device: str, *, block: int = 1 << 24) -> NDArray[np.int64]:
    """Sum the messages that reach every node, exactly, on ``device``. Not private: the caller must add noise.

    The result has the bits of :func:`~sfumato.bounded.aggregation.neighborhood_sum`, in any order of additions.

    Args:
        arcs: the arcs, grouped by destination.
        steps: messages in steps of 1 / 32767, int16 [num_nodes, width].
        device: a device of torch, such as ``"cuda"``.
        block: number of arcs handled at a time, which bounds the memory on the device.

    Shapes: int64 [num_nodes, width].

    >>> import numpy as np
    >>> from sfumato.bounded.aggregation import Arcs
    >>> both = Arcs(np.array([0, 1, 2]), np.array([1, 0], np.int32))
    >>> sum_on_device(both, np.array([[5, 0], [0, 7]], np.int16), "cpu").tolist()
    [[0, 7], [5, 0]]
    """
    torch = require("torch")
    rows, offsets = torch.tensor(steps, device=device), torch.tensor(arcs.offsets, device=device)
    sums = torch.zeros((arcs.num_nodes, steps.shape[1]), dtype=torch.int64, device=device)
    for first in range(0, len(arcs.sources), block):
        sources = torch.tensor(arcs.sources[first : first + block], device=device)
        positions = torch.arange(first, first + len(sources), device=device)
        targets = torch.searchsorted(offsets, positions, right=True) - 1
        messages = rows[sources].long()
        if arcs.weights is not None:
            weights = torch.tensor(arcs.weights[first : first + block].astype("int64"), device=device)
            messages = torch.div(messages * weights[:, None], FULL, rounding_mode="trunc")
        sums.index_add_(0, targets, messages)
    total: NDArray[np.int64] = sums.cpu().numpy()
    return total
