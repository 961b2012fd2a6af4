"""Linear heads on rows of features, and the rows as they read them."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import nn

from sfumato.bounded._exact import WholeRows
from sfumato.nn._models import Linear as LinearLayer
from sfumato.nn._models import SparseRows

if TYPE_CHECKING:
    from sfumato.central._learning import Rows
    from sfumato.central._rows import Matrix


def chosen(inputs: Matrix) -> Rows:
    """Return a function that gives rows of some nodes as integers; full batches ask for the same ones at every step."""

    @lru_cache(maxsize=1)
    def rows(ids: bytes) -> WholeRows:
        part = inputs[np.frombuffer(ids, np.int64)]
        if sp.issparse(part):
            return WholeRows.of_csr(part)
        return WholeRows.of(torch.from_numpy(part.astype(np.float64)), bias=True)

    return lambda ids: rows(ids.astype(np.int64).tobytes())


def plain(inputs: Matrix) -> Rows:
    """Return a function that gives rows of some nodes as a network takes them."""
    return lambda ids: torch.from_numpy(inputs[ids]) if isinstance(inputs, np.ndarray) else SparseRows(inputs[ids])


def zero_head(num_inputs: int, num_classes: int) -> nn.Linear:
    """Return logistic regression that starts at zero: the problem is convex."""
    head = LinearLayer(num_inputs, num_classes)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return head


def head_size(num_inputs: int, num_classes: int) -> int:
    return (num_inputs + 1) * num_classes


def apply(head: nn.Module, inputs: Matrix) -> NDArray[np.float32]:
    return apply_rows(head, torch.from_numpy(inputs) if isinstance(inputs, np.ndarray) else SparseRows(inputs))


def apply_rows(network: nn.Module, rows: torch.Tensor | SparseRows) -> NDArray[np.float32]:
    """Apply a network to rows as it takes them, and return scores float32 [num_nodes, num_classes]."""
    with torch.no_grad():
        scores: NDArray[np.float32] = network(rows).numpy()
    return scores
