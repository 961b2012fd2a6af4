r"""DP-SGD over the groups of a split graph: one gradient a group, clipped over all parameters jointly, summed in integers.

**Formal guarantee** of :func:`split_steps`: a :class:`~sfumato.privacy.events.PoissonGaussianEvent` over groups, under
``NodeLevel`` with incident or owned arcs. Each group enters a step with probability q by a secret coin of its own, whatever it
holds. The divisor is the public q K.

**Proof.** The gradient of group k is a function of what the group holds, of public facts and of the weights, which earlier
steps released (:mod:`~sfumato.bounded._split_kernel`). It is scaled to norm at most :math:`2^{24} - 1`, in steps of
:math:`C / 2^{24}`, and each coordinate is rounded *toward zero*, which makes no norm longer. Then the squares of these whole
numbers are added over all parameters jointly. The group counts if they sum to at most :math:`2^{48}`, and gives zero otherwise
(a number overflowed). This check is exact: squares are integers, none is negative, so a floating-point sum of
them that ends at or below :math:`2^{48}` was exact all along. So a group adds integers of norm at most C, whatever
floating point did before. Sums over groups are int64, hence exact in any order. No sum is rounded again, so
the margin eta of other DP-SGD here is 0.

Neighboring graphs differ in what one public group holds (:mod:`~sfumato.bounded._splits`). If its coin falls tails, the sums
are equal. If it falls heads, they differ by what this group adds: at most 2 C under ``replace``; at most C under ``remove``,
since the group with the emptied record is left out and adds zero. The accountant carries the 2.

Where a record lies in up to R groups (:mod:`~sfumato.bounded._occurrences`), the same holds for each of them, with a coin of
its own: a :class:`~sfumato.privacy.events.RepeatedGaussianEvent`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from sfumato._validate import AT_LEAST_1, check_fields, check_real, fail, real
from sfumato.bounded._clip_kernel import LEAST_CLIP, MOST_CLIP
from sfumato.bounded._gradients import PrivateSGD, noisy_steps
from sfumato.bounded._split_kernel import Floats, group_sums
from sfumato.nn._training import Adam

if TYPE_CHECKING:
    from sfumato.bounded._splits import Split
    from sfumato.noise.keys import Key

Optimizer = Callable[[list[nn.Parameter], float], Adam]


@dataclass(frozen=True)
class SplitNetwork:
    """A graph convolution of two layers on a split graph, by the public numbers that its gradient needs.

    ``dropout`` is the share of hidden units that are dropped at each step, by words of the public ``seed``.

    >>> from sfumato.bounded._splits import split_graph
    >>> from sfumato.graph._graph import Graph
    >>> graph = Graph.from_edges([0], [1], 2, directed=False, x=np.eye(2), y=[0, 1], roles=[0, 0])
    >>> network = SplitNetwork(split_graph(graph, 1, seed=0), width=1, num_classes=2)
    >>> network.clipped_sum(np.r_[0.0, 1.0, np.zeros(5)], np.array([0]), 0.1).tolist()  # a loss of ln 2, but no slope
    [0, 0, 0, 0, 0, 0, 0]
    """

    split: Split
    width: int
    num_classes: int
    dropout: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        check_fields(self, width=AT_LEAST_1, num_classes=AT_LEAST_1, dropout=real(0, 1, below=True))

    @property
    def num_parameters(self) -> int:
        """Return the length of the vector of parameters: first layer, its bias, second layer, its bias."""
        columns: int = self.split.rows.shape[1]
        return columns * self.width + self.width + (self.width + 1) * self.num_classes

    def gradient(self, flat: Floats, groups: NDArray[np.int64], step: int = 0) -> Floats:
        """Sum the gradients of some groups without clipping: nothing is protected."""
        return self._sums(flat, groups, step, 0.0)

    def clipped_sum(
        self, flat: Floats, groups: NDArray[np.int64], l2_clip_norm: float, step: int = 0
    ) -> NDArray[np.int64]:
        """Sum the gradients of some groups, each clipped to ``l2_clip_norm`` over all parameters jointly.

        **Formal guarantee.** The result is exact: integers, in steps of ``l2_clip_norm`` / 2^24, of which a group adds a
        vector of norm at most 2^24, a function of what the group holds. A group without a labeled training node adds zero,
        and so does one whose gradient overflows.
        """
        check_real(low=LEAST_CLIP, high=MOST_CLIP, l2_clip_norm=l2_clip_norm)
        return self._sums(flat, groups, step, float(l2_clip_norm)).astype(np.int64)

    @cached_property
    def _parts(self) -> tuple[Any, ...]:
        split = self.split
        rows, hop = ((part.indptr, part.indices, part.data) for part in (split.rows, split.hop))
        return split.offsets, split.shares, rows, hop, split.targets

    def _sums(self, flat: Floats, groups: NDArray[np.int64], step: int, clip: float) -> Floats:
        word = np.uint64(((self.seed << 32) + step) * 0xD1342543DE82EF95 % 2**64)
        columns, dropout = self.split.rows.shape[1], float(self.dropout)
        arguments: Any = (groups, *self._parts, flat, self.width, columns, dropout, word, clip)
        sums: Floats = group_sums(*arguments)
        return sums


def split_steps(
    network: SplitNetwork,
    start: Floats,
    settings: PrivateSGD,
    key: Key,
    *,
    leave_out: bool,
    optimizer: Optimizer = Adam,
    progress: Callable[[int, int], None] | None = None,
    seen: Callable[[int, Floats], None] | None = None,
) -> tuple[Floats, bytes]:
    """Train a network on a split graph with noise. Return the last iterate, and a secret MAC of all sums that were read.

    ``seen`` is shown the parameters after each step: the guarantee covers all of them.

    **Formal guarantee.** That of the top of this file; under relation ``remove`` only with ``leave_out``, by which groups that
    hold an absent node add zero. ``start`` holds the first parameters, public.

    >>> from sfumato.bounded._splits import split_graph
    >>> from sfumato.graph._graph import Graph
    >>> graph = Graph.from_edges([0], [1], 2, directed=False, x=np.eye(2), y=[0, 1], roles=[0, 0])
    >>> network = SplitNetwork(split_graph(graph, 1, seed=0), width=1, num_classes=2)
    >>> settings = PrivateSGD(1.0, steps=2, l2_clip_norm=1.0, noise_multiplier=1.0, learning_rate=0.1)
    >>> len(split_steps(network, np.zeros(7), settings, bytes(32), leave_out=True)[0])
    7
    """
    if start.shape != (network.num_parameters,) or start.dtype != np.float64:
        raise fail("start", f"{start.dtype} {start.shape}", f"to be float64 [{network.num_parameters}]")
    vector = nn.Parameter(torch.from_numpy(start.copy()))
    descent = optimizer([vector], settings.learning_rate)

    def clipped(drawn: NDArray[np.int64], step: int) -> NDArray[np.int64]:
        counted = drawn[~network.split.left_out[drawn]] if leave_out else drawn
        return network.clipped_sum(descent.flat.numpy(), counted, settings.l2_clip_norm, step)

    def after(step: int, steps: int) -> None:
        if seen is not None:
            seen(step, descent.flat.numpy())
        if progress is not None:
            progress(step, steps)

    ids = np.arange(network.split.num_groups)
    operands = noisy_steps(descent, clipped, ids, settings, key, 0.0, after)
    return descent.flat.numpy(), operands
