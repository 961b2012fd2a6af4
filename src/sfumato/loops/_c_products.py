"""The functions of :mod:`sfumato.loops._products`, compiled from products.c and rows.c."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from sfumato.loops._native import threads
from sfumato.loops._torch_products import BITS, factors, padded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.loops._torch_products import Parts

_TYPES = {"d": torch.float64, "l": torch.int64, "i": torch.int32, "s": torch.int16}
"""Of arrays, by letters; N is an integer and X a number. A letter in capitals may stand for no array."""
_SIGNATURES = {
    "whole_rows": "d N N N X s N d",
    "multiply": "i d N N i d D N N d N",
    "multiply_sparse": "l i s d N s d D N N d N",
    "pair_rows": "s N N i",
    "peaks": "s N N i",
    "find_runs": "i i N l",
    "outer_sums": "i i l N N N N l N",
    "outer_sums_sparse": "l i s N s i N N l N",
    "add_squares": "d N N D d",
    "round_rows": "d N N d s N d",
    "selu": "d N d d",
    "class_slope": "d l N N d",
    "use_level": "N",
}
_VECTOR = 16  # numbers of 32 bits, the most that a processor holds in one register


class Compiled:
    NAME = "C"

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        scalars = {"N": ctypes.c_int64, "X": ctypes.c_double}
        self._letters = {name: signature.split() for name, signature in _SIGNATURES.items()}
        for name, letters in self._letters.items():
            function = getattr(library, name)
            function.argtypes = [scalars.get(letter, ctypes.c_void_p) for letter in letters]
            function.restype = ctypes.c_int64 if name in ("find_runs", "use_level") else None

    def whole_rows(self, rows: Tensor, room: float, *, bias: bool) -> tuple[Tensor, Tensor]:
        out = torch.empty(len(rows), padded(rows.shape[1]), dtype=torch.int16)
        norms = torch.empty(len(rows), dtype=torch.float64)
        self._call("whole_rows", rows, *rows.shape, int(bias), room, out, out.shape[1], norms)
        return out, norms

    def multiply(self, rows: Tensor, norms: Tensor, weights: Tensor, scales: Tensor, bias: Tensor | None) -> Tensor:
        count, width = len(rows), len(weights)
        if rows.shape[1] != weights.shape[1]:
            raise ValueError(f"Expected weights of {rows.shape[1]} padded columns, got {weights.shape[1]}.")
        pairs = _wide(weights.view(torch.int32).T)
        out = torch.empty(count, width, dtype=torch.float64)
        sizes = width, pairs.shape[1]
        self._call(
            "multiply", rows.view(torch.int32), norms, count, len(pairs), pairs, scales, bias, *sizes, out, threads()
        )
        return out

    def multiply_sparse(
        self, rows: Parts, norms: Tensor, weights: Tensor, scales: Tensor, bias: Tensor | None
    ) -> Tensor:
        count, width = len(norms), len(weights)
        by_column = _wide(weights.T)
        out = torch.empty(count, width, dtype=torch.float64)
        sizes = width, by_column.shape[1]
        self._call("multiply_sparse", *rows, norms, count, by_column, scales, bias, *sizes, out, threads())
        return out

    def outer_sums(self, slopes: Tensor, rows: Tensor, width: int) -> Tensor:
        count, units = slopes.shape
        out, ends = torch.zeros(units, width, dtype=torch.int64), torch.empty((count + 1) // 2, dtype=torch.int64)
        runs = self._call("find_runs", self._peaks(slopes), self._peaks(rows), count, ends)
        sizes = units, width, rows.shape[1]
        self._call("outer_sums", self._paired(slopes), self._paired(rows), ends, runs, *sizes, out, threads())
        return out

    def outer_sums_sparse(self, columns: Parts, slopes: Tensor) -> Tensor:
        count, units, wide = len(columns[0]) - 1, slopes.shape[1], _wide(slopes)
        out, most = torch.zeros(count, units, dtype=torch.int64), self._peaks(slopes)
        self._call("outer_sums_sparse", *columns, count, wide, most, units, wide.shape[1], out, threads())
        return out.T

    def clip(self, grads: Sequence[Tensor], norms: Sequence[Tensor], room: float, most: float) -> list[Tensor]:
        squares, whole_squares = torch.zeros(2, len(grads[0]), dtype=torch.float64)
        for grad, norm in zip(grads, norms, strict=True):
            self._call("add_squares", grad, *grad.shape, norm, squares)
        factor, whole = factors(squares, room, most), []
        for grad, norm in zip(grads, norms, strict=True):
            whole.append(torch.empty(grad.shape, dtype=torch.int16))
            self._call("round_rows", grad, *grad.shape, factor * norm, whole[-1], grad.shape[1], whole_squares)
        lost = ~(whole_squares <= 4**BITS)
        if lost.any():  # a pass that is seldom needed
            for part in whole:
                part[lost] = 0
        return whole

    def selu(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = x.contiguous()
        out, slope = torch.empty_like(x), torch.empty_like(x)
        self._call("selu", x, x.numel(), out, slope)
        return out, slope

    def class_slope(self, scores: Tensor, classes: Tensor) -> Tensor:
        scores, classes = scores.contiguous(), classes.contiguous()
        if len(classes) != len(scores):
            raise ValueError(f"Expected {len(scores)} classes, one a row, got {len(classes)}.")
        out = torch.empty_like(scores)
        self._call("class_slope", scores, classes, *scores.shape, out)
        return out

    def _peaks(self, rows: Tensor) -> Tensor:
        """The largest absolute value of each row."""
        out = torch.empty(len(rows), dtype=torch.int32)
        self._call("peaks", rows, *rows.shape, out)
        return out

    def _paired(self, rows: Tensor) -> Tensor:
        """Pairs of rows, as 32 bits each."""
        out = torch.empty((len(rows) + 1) // 2, rows.shape[1], dtype=torch.int32)
        self._call("pair_rows", rows, *rows.shape, out)
        return out

    def _call(self, name: str, *arguments: Any) -> Any:
        for letter, one in zip(self._letters[name], arguments, strict=True):
            if isinstance(one, Tensor) and (one.dtype != _TYPES[letter.lower()] or not one.is_contiguous()):
                raise TypeError(f"Expected {_TYPES[letter.lower()]} in C order for {name}, got {one.dtype}.")
        return getattr(self._library, name)(*(one.data_ptr() if isinstance(one, Tensor) else one for one in arguments))


def _wide(rows: Tensor) -> Tensor:
    """Rows padded with zeros to whole vectors."""
    out = torch.zeros(len(rows), -(-rows.shape[1] // _VECTOR) * _VECTOR, dtype=rows.dtype)
    out[:, : rows.shape[1]] = rows
    return out
