"""Products of integer rows and what stands between two layers: compiled from C, or else by Torch, with the same bits.

There is no privacy here, only exact arithmetic: :mod:`sfumato.bounded._exact` has the bounds under which no sum overflows.
Rows of int16 are padded with zeros to a multiple of 32 columns. Tensors are contiguous and on the processor.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from sfumato.loops import _native

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from sfumato.loops._torch_products import Parts


class _Products(Protocol):
    @property
    def NAME(self) -> str: ...  # noqa: N802

    @property
    def library(self) -> Any:
        """The compiled library, or None."""

    def whole_rows(self, rows: Tensor, room: float, *, bias: bool) -> tuple[Tensor, Tensor]:
        """Return float64 rows as int16 [n, padded], scaled to a norm of ``room``, and what 2^BITS stands for in each, [n].

        With ``bias`` the column after the last stands for the bias's input 1. A row whose integers have a norm above 2^BITS
        is zero.
        """

    def times(self, rows: Tensor | Parts, norms: Tensor, weights: Tensor, room: float, bias: Tensor | None) -> Tensor:
        """Return int16 rows [n, padded], or sparse ones, times norms [n], by weights float64 [m, k], plus a bias [m].

        Each row of the weights is made integers of norm ``room``.
        """

    def clipped_sums(
        self,
        grads: Sequence[Tensor],
        rows: Sequence[tuple[Tensor | Parts, Tensor]],
        room: float,
        most: float,
        sums: Sequence[tuple[Tensor, Tensor | None]],
    ) -> None:
        """Add exact sums of outer products to ``sums``, int64 [m, k] and those with the column after the last, [m].

        The gradients of each layer [n, m] are made int16: times the norms of its rows, which stand beside the rows, or their
        columns if they are sparse, and times one factor a row. The factor is that which gives all layers of the row the joint
        norm ``room``, or ``most`` where that is less. A row whose integers have a joint norm above 2^BITS is zero in all layers.
        """

    def selu(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return SELU of float64 numbers, and its slope."""

    def normalize(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return float64 rows [..., k] over their norms, and these, at least 1e-12."""

    def normalize_slope(self, grad: Tensor, unit: Tensor, norms: Tensor) -> Tensor:
        """Return the gradient in rows of a gradient in what :meth:`normalize` made of them."""

    def class_slope(self, scores: Tensor, classes: Tensor) -> Tensor:
        """Return the slopes of cross-entropy in float64 scores [n, C]; a class of -1 is missing."""


@cache
def products() -> _Products:
    """Return what computes; its ``NAME`` is the language.

    >>> products().NAME in ("C", "Torch")
    True
    """
    library = _native.library()
    if library is None:
        from sfumato.loops import _torch_products

        return _torch_products
    from sfumato.loops._c_products import Compiled

    return Compiled(library)
