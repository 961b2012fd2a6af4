"""The functions of :mod:`sfumato.loops._products`, compiled from products.c and rows.c."""

from __future__ import annotations

import ctypes
from array import array
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from sfumato.loops._native import threads
from sfumato.loops._torch_products import padded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.loops._torch_products import Parts

_TYPES = {"d": torch.float64, "l": torch.int64, "i": torch.int32, "s": torch.int16}
"""Of arrays, or none, by letters; N is an integer or an address, and X a number."""
_COUNTS = "use_level", "memory_of_chain", "chain_forward"
_SIGNATURES = {
    "whole_rows": "d N N N N X s N d",
    "products_of_rows": "i d N N d N N X d d N N",
    "products_of_sparse": "l i s d N d N N X d d N N",
    "selu": "d N d d",
    "class_slope": "d l N N d",
    "normalize": "d N N d d",
    "normalize_slope": "d d d N N d",
    "clipped_sums": "N N N X X N",
    "memory_of_chain": "N N N N N",
    "chain_forward": "N",
    "chain_backward": "N N X X",
    "use_level": "N",
}
_LAYER = "ddslisll"
"""Of the arrays of a layer, by the same letters: four numbers stand after the sixth, as rows.h has it."""


class Compiled:
    NAME = "C"

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        scalars = {"N": ctypes.c_int64, "X": ctypes.c_double}
        self._letters = {name: signature.split() for name, signature in _SIGNATURES.items()}
        for name, letters in self._letters.items():
            function = getattr(library, name)
            function.argtypes = [scalars.get(letter, ctypes.c_void_p) for letter in letters]
            function.restype = ctypes.c_int64 if name in _COUNTS else None

    def whole_rows(self, rows: Tensor, room: float, *, bias: bool) -> tuple[Tensor, Tensor]:
        out = torch.empty(len(rows), padded(rows.shape[1]), dtype=torch.int16)
        norms = torch.empty(len(rows), dtype=torch.float64)
        self._call("whole_rows", rows, rows.shape[1], *rows.shape, int(bias), room, out, out.shape[1], norms)
        return out, norms

    def times(self, rows: Tensor | Parts, norms: Tensor, weights: Tensor, room: float, bias: Tensor | None) -> Tensor:
        (units, columns), count = weights.shape, len(norms)
        out = torch.empty(count, units, dtype=torch.float64)
        if isinstance(rows, Tensor):
            if rows.shape != (count, padded(columns)):
                raise ValueError(f"Expected {count} rows of {padded(columns)} padded columns, got {tuple(rows.shape)}.")
            ends = units, columns, room, bias, out, units, threads()
            self._call("products_of_rows", rows.view(torch.int32), norms, count, rows.shape[1] // 2, weights, *ends)
        else:
            self._call(
                "products_of_sparse", *rows, norms, count, weights, units, columns, room, bias, out, units, threads()
            )
        return out

    def clipped_sums(
        self,
        grads: Sequence[Tensor],
        rows: Sequence[tuple[Tensor | Parts, Tensor]],
        room: float,
        most: float,
        sums: Sequence[tuple[Tensor, Tensor | None]],
    ) -> None:
        count, fields = len(grads[0]), array("q")
        for grad, (entered, norms), (weight, bias) in zip(grads, rows, sums, strict=True):
            units, width = weight.shape
            if grad.shape != (count, units) or len(norms) != count:
                raise ValueError(f"Expected {count} gradients of {units} units, got {tuple(grad.shape)}.")
            if not isinstance(entered, Tensor):
                parts: tuple[Tensor | None, ...] = (None, *entered)
            elif entered.shape == (count, padded(width)):
                parts = entered, None, None, None
            else:
                raise ValueError(
                    f"Expected {count} rows of {padded(width)} padded columns, got {tuple(entered.shape)}."
                )
            given = _addresses(_LAYER, (grad, norms, *parts, weight, bias))
            fields.extend(one or 0 for one in (*given[:6], units, width, padded(width), units, *given[6:]))
        address, _ = fields.buffer_info()
        self.library.clipped_sums(address, len(grads), count, room, most, threads())

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

    def normalize(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        rows = rows.contiguous()
        out, norms = torch.empty_like(rows), torch.empty(rows.shape[:-1], dtype=torch.float64)
        self._call("normalize", rows, norms.numel(), rows.shape[-1], out, norms)
        return out, norms

    def normalize_slope(self, grad: Tensor, unit: Tensor, norms: Tensor) -> Tensor:
        out = torch.empty_like(unit)
        self._call("normalize_slope", grad.contiguous(), unit, norms, norms.numel(), unit.shape[-1], out)
        return out

    def _call(self, name: str, *arguments: Any) -> Any:
        return getattr(self.library, name)(*_addresses(self._letters[name], arguments))


def _addresses(letters: Sequence[str], arguments: Sequence[Any]) -> list[Any]:
    """The addresses of arrays, after a check of their types, and other arguments as they are."""
    found = []
    for letter, one in zip(letters, arguments, strict=True):
        if isinstance(one, Tensor):
            if one.dtype is not _TYPES[letter] or not one.is_contiguous():
                raise TypeError(f"Expected {_TYPES[letter]} in C order, got {one.dtype}.")
            one = one.data_ptr()
        found.append(one)
    return found
