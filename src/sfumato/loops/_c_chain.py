"""Networks of linear layers, SELU and norms of rows, forward and backward in two calls of chain.c.

The bits are those of the functions of :mod:`sfumato.loops._products`, one by one. There is no privacy here.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from sfumato.loops._native import threads
from sfumato.loops._torch_products import Parts, padded

if TYPE_CHECKING:
    from collections.abc import Sequence

LINEAR, SELU, NORMALIZE = range(3)
Weights = tuple[Tensor, Tensor | None, int, int]
"""Weights float64 [m, k] of a layer and its bias [m], and where their sums begin among those of all parameters."""
Whole = tuple[Tensor | None, Parts | None, Parts | None, Tensor]
"""Integer rows that enter, dense, or sparse by rows and by columns, and their norms."""


class Chain:
    """Steps from buffer to buffer, each of which is read by one step. Buffer 0 enters, and the last holds the scores.

    A step has its kind, the buffer that it reads, the first column and how many, and the same of the buffer that it writes.
    """

    def __init__(self, library: Any, steps: Sequence[tuple[int, ...]], widths: Sequence[int]) -> None:
        self._library, self._steps, self._widths = library, steps, array("q", widths)

    def forward(self, count: int, entering: Tensor | Whole, layers: Sequence[Weights], sums: Tensor) -> Tensor:
        """Return the scores of rows; :meth:`backward` adds to ``sums``, int64 of all parameters."""
        words, given = array("q"), iter(layers)
        whole = entering if isinstance(entering, tuple) else None
        for kind, source, *places in self._steps:
            words.extend((kind, -1 if whole is not None and source == 0 else source, *places))
            words.extend(_layer(next(given), places[1], places[4], sums) if kind == LINEAR else (0, 0, 0, 0))
        steps, widths = words.buffer_info()[0], self._widths.buffer_info()[0]
        ends = len(self._steps), widths, len(self._widths), count
        memory = torch.empty(self._library.memory_of_chain(steps, *ends), dtype=torch.float64)
        read = array("q", [0] * 8 if whole is None else _whole(whole, count, self._widths[0]))
        first = _address(entering, torch.float64, count * self._widths[0]) if isinstance(entering, Tensor) else 0
        last = first, read.buffer_info()[0], memory.data_ptr(), threads()
        chain = array("q", (steps, *ends, *last))
        at = (self._library.chain_forward(chain.buffer_info()[0]) - memory.data_ptr()) // memory.element_size()
        width = self._widths[-1]
        self._kept = chain, words, read, memory, entering, layers, sums
        return memory[at : at + count * width].view(count, width)

    def backward(self, slopes: Tensor, room: float, most: float) -> None:
        """Add the sums of the gradients of these slopes [n, C], clipped as :meth:`_Products.clipped_sums` does."""
        chain, *_ = self._kept
        address = _address(slopes.contiguous(), torch.float64, chain[4] * self._widths[-1])
        self._library.chain_backward(chain.buffer_info()[0], address, room, most)
        del self._kept


def _layer(weights: Weights, columns: int, units: int, sums: Tensor) -> tuple[int, ...]:
    weight, bias, weight_at, bias_at = weights
    found, start = _address(weight, torch.float64, columns * units), _address(sums, torch.int64, sums.numel())
    if not 0 <= weight_at <= sums.numel() - weight.numel() or not 0 <= bias_at <= sums.numel() - units:
        raise ValueError(f"Expected places among {sums.numel()} sums, got {weight_at} and {bias_at}.")
    if bias is None:
        return found, 0, start + 8 * weight_at, 0
    return found, _address(bias, torch.float64, units), start + 8 * weight_at, start + 8 * bias_at


def _whole(entering: Whole, count: int, width: int) -> list[int]:
    dense, by_row, by_column, norms = entering
    found = [0 if dense is None else _address(dense, torch.int16, count * padded(width))]
    for parts, lines in ((by_row, count), (by_column, width + 1)):
        if parts is None:
            found.extend((0, 0, 0))
        else:
            numbers = len(parts[2])
            found.append(_address(parts[0], torch.int64, lines + 1))
            found.extend((_address(parts[1], torch.int32, numbers), _address(parts[2], torch.int16, numbers)))
    return [*found, _address(norms, torch.float64, count)]


def _address(given: Tensor, kind: torch.dtype, size: int) -> int:
    if given.dtype is not kind or given.numel() != size or not given.is_contiguous():
        raise TypeError(f"Expected {size} numbers of {kind} in C order, got {given.dtype} of {tuple(given.shape)}.")
    return given.data_ptr()
