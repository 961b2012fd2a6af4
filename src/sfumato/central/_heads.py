r"""Linear heads on rows of features, and the rows as they read them.

DP-SGD clips the gradient of a row and of the bias's input together. Beside rows of norm 1 an input of 1 takes half of the square
of each clipped gradient, to learn C numbers. So heads learn on rows of norm :data:`LENGTH`, with a clip as much larger: of the
square of a gradient, a seventeenth is the bias's. Weights learn at a rate as much smaller, so that they move as they do on rows
of norm 1, and biases at the full one, which a rare class needs. Kept weights are for rows of norm 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import nn

from sfumato.bounded._exact import WholeRows
from sfumato.central._learning import train_charged
from sfumato.nn._models import Linear as LinearLayer
from sfumato.nn._models import SparseRows
from sfumato.privacy.events import SampledEvent

if TYPE_CHECKING:
    from sfumato.central._learning import Rows, TrainSettings
    from sfumato.central._rows import Matrix
    from sfumato.graph._graph import Graph
    from sfumato.method.contract import Planned, Session
    from sfumato.noise.keys import Key

LENGTH = 4.0
"""The norm of rows that heads learn on, a power of two, so that weights are scaled without rounding."""

CLIP = 0.7
"""The clip of an example's gradient for rows of norm 1: about its norm where two classes are equally likely."""


@dataclass(frozen=True)
class OnLongRows:
    """The settings of steps on rows of norm :data:`LENGTH`, for those of rows of norm 1 (``settings``)."""

    settings: TrainSettings

    @property
    def epochs(self) -> int | None:
        return self.settings.epochs

    @property
    def learning_rate(self) -> float:
        return self.settings.learning_rate / LENGTH

    @property
    def l2_clip_norm(self) -> float:
        return self.settings.l2_clip_norm * LENGTH


@contextmanager
def for_long_rows(head: nn.Linear) -> Iterator[None]:
    """Let a head read rows of norm :data:`LENGTH` in a block, with the scores that it gives rows of norm 1 outside of it."""
    with torch.no_grad():
        head.weight.div_(LENGTH)
        try:
            yield
        finally:
            head.weight.mul_(LENGTH)


def train_head(
    settings: TrainSettings, plan: Planned, session: Session, head: nn.Linear, graph: Graph, inputs: Matrix
) -> nn.Linear:
    """Charge a head and train it in place by DP-SGD on rows of norm 1; return it as it was after a third of the steps."""
    told, early = session.watch.stage("head"), []

    def keep(step: int, steps: int) -> None:
        if step == max(steps // 3, 1):
            early.append(deepcopy(head).float())
        if told is not None:
            told(step, steps)

    event, key = plan.event_of(SampledEvent, "head"), session.charge("head")
    with for_long_rows(head):
        rows = chosen(inputs, LENGTH)
        read = train_charged(OnLongRows(settings), event, key, head, graph, rows, keep, bias_pace=LENGTH)
    session.bind("head", np.frombuffer(read, np.uint8))
    with torch.no_grad():
        early[0].weight.mul_(LENGTH)
    return early[0]


def train_further(
    settings: TrainSettings,
    event: SampledEvent,
    key: Key,
    session: Session,
    head: nn.Linear,
    graph: Graph,
    inputs: Matrix,
) -> NDArray[np.uint8]:
    """Train a head further, by steps that were charged before as this ``event``; return a secret MAC of what was read."""
    with for_long_rows(head):
        rows, told = chosen(inputs, LENGTH), session.watch.stage("head")
        read = train_charged(OnLongRows(settings), event, key, head, graph, rows, told, bias_pace=LENGTH)
    return np.frombuffer(read, np.uint8)


def chosen(inputs: Matrix, length: float = 1.0) -> Rows:
    """Return a function that gives rows of some nodes, times ``length``, as integers.

    Full batches ask for the same ones at every step; where persons are the records, for those of persons with one node, with two,
    and so on.
    """

    @lru_cache(maxsize=64)
    def rows(ids: bytes) -> WholeRows:
        part = inputs[np.frombuffer(ids, np.int64)] * np.float32(length)
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
