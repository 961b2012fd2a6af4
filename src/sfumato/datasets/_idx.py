"""Files in the IDX format become arrays: MNIST and Fashion-MNIST are published so."""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import DataError

_FILES = {"train": "train", "test": "t10k"}
_UNSIGNED_BYTES = 8
_CLASSES = 10


def read_idx(path: str | Path) -> NDArray[np.uint8]:
    """Read an IDX file of bytes, compressed by gzip or plain, of any number of dimensions."""
    try:
        content = Path(path).read_bytes()
        content = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"Cannot read {str(path)!r}: {error}. Fetch the file again.") from error
    dimensions = content[3] if len(content) > 3 else 0
    start = 4 + 4 * dimensions
    if content[:3] != bytes([0, 0, _UNSIGNED_BYTES]) or dimensions == 0 or len(content) < start:
        found = content[:4].hex() or "nothing"
        raise DataError(
            f"{str(path)!r} starts with {found}: expected 000008 and a number of dimensions, an IDX file of bytes."
        )
    shape = tuple(np.frombuffer(content, ">u4", dimensions, offset=4).tolist())
    if len(content) - start != math.prod(shape):
        sizes = " x ".join(map(str, shape))
        raise DataError(f"{str(path)!r} says it holds {sizes} bytes, got {len(content) - start}. Fetch the file again.")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def read_parts(folder: Path) -> list[tuple[NDArray[np.uint8], NDArray[np.uint8]]]:
    """Read images [n, 28, 28] and labels [n] of the training and the test part, in this order.

    >>> read_parts(Path("nowhere/mnist"))
    Traceback (most recent call last):
    ...
    sfumato.errors.DataError: No file 'nowhere/mnist/train-images-idx3-ubyte.gz'.
    """
    parts = []
    for prefix in _FILES.values():
        images, labels = folder / f"{prefix}-images-idx3-ubyte.gz", folder / f"{prefix}-labels-idx1-ubyte.gz"
        for path in (images, labels):
            if not path.exists():
                raise DataError(f"No file {str(path)!r}.")
        parts.append(_labeled(images, labels))
    return parts


def _labeled(images: Path, labels: Path) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    x, y = read_idx(images), read_idx(labels)
    if x.ndim != 3 or x.shape[1:] != (28, 28) or y.shape != x.shape[:1]:
        raise DataError(
            f"Expected {images.name} of the shape [n, 28, 28] and {labels.name} of the shape [n], got {x.shape} and {y.shape}."
        )
    if y.size and y.max() >= _CLASSES:
        row = int(np.argmax(y >= _CLASSES))
        raise DataError(f"Expected labels 0 to {_CLASSES - 1} in {str(labels)!r}, but label {row}, from 0, is none.")
    return x, y


def joined(
    parts: Sequence[tuple[NDArray[np.uint8], NDArray[Any]]], roles: Iterable[int]
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.uint8]]:
    """Return the images and the labels of all parts, and the role of each, which its part has."""
    images, labels = zip(*parts, strict=True)
    each = np.repeat(np.array([*roles], np.uint8), [len(part) for part in labels])
    return np.concatenate(images), np.concatenate(labels).astype(np.int64), each
