"""What a mechanism from outside returned, read to the last bit: a key that equal outputs share, and all numbers in it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import fail

Read = tuple[Hashable, NDArray[np.float64]]
_PLAIN = (str, bytes, type(None))


def read_output(output: Any) -> Read:
    """Return a key and the numbers of what was returned, in order: of containers those of all that they hold.

    Numbers, texts, None, NumPy arrays, tensors, tables of pandas, sparse matrices, networks, and lists, tuples, sets and mappings
    of these are read.

    Raises:
        InputError: it holds an object of another kind.

    >>> key, numbers = read_output({"counts": (3, np.array([1.5, 2.5])), "said": "yes"})
    >>> numbers.tolist(), read_output({"counts": (3, np.array([1.5, 2.5])), "said": "yes"})[0] == key
    ([3.0, 1.5, 2.5], True)
    """
    parts: list[NDArray[np.float64]] = []
    key = tuple(_walked(output, parts))
    return key, np.concatenate(parts) if parts else np.empty(0)


def _walked(output: Any, parts: list[NDArray[np.float64]]) -> Iterator[Hashable]:
    """Yield what tells an output from others, and add its numbers to ``parts``."""
    yield type(output).__name__
    if isinstance(output, _PLAIN):
        yield output
    elif isinstance(output, bool | int | float | complex):
        yield repr(output)
        parts.append(_floats(np.array([output])))
    elif isinstance(output, np.ndarray | np.generic):
        yield from _of_array(np.asarray(output), parts)
    elif isinstance(output, Mapping):
        for name, value in output.items():
            yield from _walked(name, [])
            yield from _walked(value, parts)
    elif isinstance(output, list | tuple | set | frozenset):
        yield len(output)
        for one in sorted(output, key=repr) if isinstance(output, set | frozenset) else output:
            yield from _walked(one, parts)
    else:
        yield from _walked(_plainer(output), parts)


def _of_array(array: NDArray[Any], parts: list[NDArray[np.float64]]) -> Iterator[Hashable]:
    yield array.shape
    yield array.dtype.str
    if array.dtype == object:
        for one in array.ravel():
            yield from _walked(one, parts)
        return
    yield array.tobytes()
    if array.dtype.kind in "mM":
        array = array.view(np.int64)
    if array.dtype.kind in "biufc":
        parts.append(_floats(array.ravel()))


def _floats(numbers: NDArray[Any]) -> NDArray[np.float64]:
    """Numbers as floats; of complex ones both parts. An integer without a float next to it counts as infinite."""
    if np.iscomplexobj(numbers):
        return np.concatenate([numbers.real, numbers.imag]).astype(np.float64)
    try:
        return numbers.astype(np.float64)
    except OverflowError:
        return np.array([np.inf if one > 0 else -np.inf for one in numbers.tolist()])


def _plainer(output: Any) -> Any:
    """Arrays, lists or mappings in place of a table, a tensor, a sparse matrix or a network."""
    if hasattr(output, "detach") and hasattr(output, "numpy"):
        dense = output.detach().to_dense() if hasattr(output, "to_dense") else output.detach()
        return dense.cpu().double().numpy() if "bfloat" in str(dense.dtype) else dense.cpu().numpy()
    if hasattr(output, "toarray"):
        return output.toarray()
    if hasattr(output, "state_dict"):
        return output.state_dict()
    if hasattr(output, "columns") and hasattr(output, "to_numpy"):
        return [list(output.columns), getattr(output, "index", None), output.to_numpy()]
    if hasattr(output, "to_numpy"):
        return output.to_numpy()
    raise fail(
        "mechanism",
        f"an object of class {type(output).__name__}",
        "to return numbers, texts, arrays, tables, or lists and dictionaries of these",
        "Return what others see of the object.",
    )
