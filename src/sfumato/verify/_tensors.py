"""The tensors of a release: headers that hold nothing else, types, and weights that are numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._documents import loads, plain

# Types, in the order in which a file holds them.
_BYTES = {
    "U64": 8,
    "I64": 8,
    "F64": 8,
    "F32": 4,
    "U32": 4,
    "I32": 4,
    "BF16": 2,
    "F16": 2,
    "U16": 2,
    "I16": 2,
    "I8": 1,
    "U8": 1,
}
_WHOLE = ("U8", "U16", "I32", "I64")
_CACHED, _COUNTED = (
    "cache/",
    (".num_batches_tracked", "feature_seed", "history.marks"),
)  # integers of a model; a cache has unit none alone


@dataclass(frozen=True)
class Stored:
    """A tensor in a file whose header was read: type and shape as stated there, and where its numbers ``start``, in bytes."""

    path: Path
    dtype: str
    shape: list[int]
    start: int

    def array(self) -> NDArray[Any]:
        """Return the numbers of the tensor. They are read from disk when they are used."""
        dtype, shape = np.dtype(f"<{self.dtype[0].lower()}{_BYTES[self.dtype]}"), tuple(self.shape)
        return np.empty(shape, dtype) if 0 in shape else np.memmap(self.path, dtype, "r", self.start, shape)


def read_tensors(path: Path, problems: list[str]) -> dict[str, Stored] | None:
    """Return every tensor of the file, or None if its header is not what it must be."""
    if not path.is_file() or path.is_symlink():
        return None
    try:
        return _tensors(path)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        problems.append(f"{path.name}: header: is not a valid safetensors header: {plain(str(error))}")
        return None


def _tensors(path: Path) -> dict[str, Stored]:
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > min(size - 8, 10**8):
            raise ValueError(f"a header of {length} bytes does not fit a file of {size}")
        text = file.read(length)
    header = loads(text)
    if "__metadata__" in header:
        raise ValueError("it carries __metadata__, which no release needs")
    end, found, expected, kinds = 0, {}, {}, list(_BYTES)
    for name, entry in sorted(header.items(), key=lambda item: (kinds.index(item[1]["dtype"]), item[0])):
        dtype, shape = entry["dtype"], entry["shape"]
        if not all(type(n) is int and 0 <= n <= 2**53 for n in shape):
            raise ValueError(f"shape of {name}")
        if dtype not in (allowed := _types(path, name)):
            raise ValueError(f"{name} has dtype {dtype}, expected {' or '.join(allowed)}")
        start, end = end, end + _BYTES[dtype] * math.prod(shape)
        expected[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
        found[name] = Stored(path, dtype, shape, 8 + length + start)
    canonical = json.dumps(expected, separators=(",", ":"), ensure_ascii=False).encode()
    if text != canonical + b" " * (-len(canonical) % 8):
        raise ValueError(
            "it is not canonical (by type and name, back to back, no spaces but those up to a multiple of 8)"
        )
    if 8 + length + end != size:
        raise ValueError("the tensors do not fill the file")
    return found


def _types(path: Path, name: str) -> tuple[str, ...]:
    """Releases are integers, of a kind's own type; weights are of one type, but for what only counts, seeds or marks."""
    if path.name in ("releases.safetensors", "rows.safetensors"):
        return _WHOLE
    return ("I64",) if name.startswith(_CACHED) or name.endswith(_COUNTED) else ("F32",)


def unreal_faults(weights: dict[str, Stored]) -> Iterator[str]:
    for name, stored in weights.items():
        if not np.isfinite(stored.array()).all():
            yield f"{stored.path.name}: {plain(name)}: holds numbers that are not finite"
