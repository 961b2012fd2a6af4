"""The tensors of a release: headers that hold nothing else, and the values that can be checked.

Part of the verifier: it needs NumPy and the other ``_verify_*.py``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .documents import loads, plain
from .local import FEATURE_SEED, LINKS, REPORT_TYPES
from .reports import report_form

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
"""Types, in the order in which a file holds them."""


def tensor_shapes(path: Path, problems: list[str]) -> dict[str, list[int]] | None:
    """Return the shape of every tensor in the file, or None if it cannot be read."""
    if not path.is_file() or path.is_symlink():
        return None
    try:
        return _shapes(path)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        problems.append(f"{path.name}: header: is not a valid safetensors header: {plain(str(error))}")
        return None


def _shapes(path: Path) -> dict[str, list[int]]:
    text, data = _header_text(path)
    header = loads(text)
    if "__metadata__" in header:
        raise ValueError("it carries __metadata__, which no release needs")
    end, shapes, expected, kinds = 0, {}, {}, list(_BYTES)
    for name, entry in sorted(header.items(), key=lambda item: (kinds.index(item[1]["dtype"]), item[0])):
        kind, shapes[name] = entry["dtype"], entry["shape"]
        if not all(type(n) is int and 0 <= n <= 2**53 for n in shapes[name]):
            raise ValueError(f"shape of {name}")
        # a cache: only without privacy
        integer = name.startswith("cache/") or name.endswith(".num_batches_tracked") or name == FEATURE_SEED
        allowed: tuple[str, ...] = ("I64",) if integer or path.name == "releases.safetensors" else ("F32",)
        allowed = REPORT_TYPES.get(name, allowed) if path.name == "releases.safetensors" else allowed
        if kind not in allowed:
            raise ValueError(f"{name} has dtype {kind}, expected {' or '.join(allowed)}")
        start, end = end, end + _BYTES[kind] * math.prod(shapes[name])
        expected[name] = {"dtype": kind, "shape": shapes[name], "data_offsets": [start, end]}
    canonical = json.dumps(expected, separators=(",", ":"), ensure_ascii=False).encode()
    if text != canonical + b" " * (-len(canonical) % 8):
        raise ValueError(
            "it is not canonical (by type and name, back to back, no spaces but those up to a multiple of 8)"
        )
    if data + end != path.stat().st_size:
        raise ValueError("the tensors do not fill the file")
    return shapes


def answer_faults(path: Path, certificate: dict[str, Any]) -> Iterator[str]:
    """Reports of another type, or with other answers, than the mechanism of the settings sends; all else was checked."""
    header, data = _header(path)
    for name, entry in header.items():
        shape, where = entry["shape"], f"{path.name}: {plain(name)}: "
        if name == LINKS:
            bits = np.memmap(path, np.uint8, "r", data + entry["data_offsets"][0], tuple(shape))
            yield from (f"{where}{text}" for text in _bit_faults(bits))
        form = report_form(name, certificate, shape[-1])
        if form is None or 0 in shape:
            continue
        kind, split, *ranges = form
        if entry["dtype"] != kind:
            yield f"{where}has dtype {entry['dtype']}, expected {kind}, as the settings say"
            continue
        at, dtype = data + entry["data_offsets"][0], np.dtype(f"<{kind[0].lower()}{_BYTES[kind]}")
        answers = np.memmap(path, dtype, "r", at, (shape[0], math.prod(shape[1:])))
        for part, (low, high) in zip((answers[:, :split], answers[:, split:]), ranges, strict=True):
            if part.size and not low <= int(part.min()) <= int(part.max()) <= high:
                found = f"{int(part.min())} to {int(part.max())}"
                yield f"{where}holds answers from {found}, expected {low} to {high}, as the settings say"


def _bit_faults(bits: np.ndarray) -> Iterator[str]:
    """Packed neighbor lists, one of n bits a user: bits that are nobody's, and links of users with themselves."""
    n = len(bits)
    own = np.arange(n)
    if n % 8 and (bits[:, -1] >> n % 8).any():
        yield f"holds bits beyond the {n} users"
    if (bits[own, own // 8] >> (own % 8) & 1).any():
        yield "holds links of users with themselves"


def whole_numbers(path: Path, name: str) -> np.ndarray:
    """A tensor of type I64, of a file whose header was checked."""
    header, data = _header(path)
    entry = header[name]
    return np.memmap(path, "<i8", "r", data + entry["data_offsets"][0], tuple(entry["shape"]))


def unreal_faults(path: Path) -> Iterator[str]:
    """Weights, in a file whose header was checked, that are no finite numbers."""
    header, data = _header(path)
    for name, entry in header.items():
        kind, shape = entry["dtype"], tuple(entry["shape"])
        dtype = np.dtype(f"<{kind[0].lower()}{_BYTES[kind]}")
        if (
            0 not in shape
            and not np.isfinite(np.memmap(path, dtype, "r", data + entry["data_offsets"][0], shape)).all()
        ):
            yield f"{path.name}: {plain(name)}: holds numbers that are not finite"


def _header(path: Path) -> tuple[Any, int]:
    """The header of a safetensors file, and where its data begin."""
    text, data = _header_text(path)
    return loads(text), data


def _header_text(path: Path) -> tuple[bytes, int]:
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > min(size - 8, 10**8):
            raise ValueError(f"a header of {length} bytes does not fit a file of {size}")
        return file.read(length), 8 + length
