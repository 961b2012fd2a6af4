"""Published files of images become arrays: MNIST and Fashion-MNIST (IDX), CIFAR-10 (pickles of batches) and SVHN (MATLAB)."""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato._pickles import load_pickle, reading
from sfumato._validate import check_int
from sfumato.errors import DataError

_FILES = {"train": "train", "test": "t10k"}
_UNSIGNED_BYTES = 8
_CLASSES = 10
_BATCHES = {**{f"data_batch_{number}": 0 for number in range(1, 6)}, "test_batch": 2}
_CIFAR_SHAPE = (3, 32, 32)
CIFAR_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_SVHN_PARTS = {"train_32x32.mat": 0, "test_32x32.mat": 2}
_SVHN_SHAPE = (32, 32, 3)
_ZERO = 10


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


def read_cifar10(folder: str | Path) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.uint8]]:
    """Read ``data_batch_1`` to ``data_batch_5`` (role 0) and ``test_batch`` (role 2) in this order; no code of the pickles runs.

    Images are uint8 [n, 3, 32, 32], channels red, green and blue; labels int64 [n], 0 to 9; roles uint8 [n].
    """
    parts = []
    for path in (Path(folder) / name for name in _BATCHES):
        with reading(path), path.open("rb") as stream:
            parts.append(_cifar_batch(load_pickle(stream, path), path))
    return joined(parts, _BATCHES.values())


def center_crop(images: NDArray[Any], side: int) -> NDArray[Any]:
    """Return the center patch of ``side`` x ``side`` pixels of images [n, channels, height, width]; a view."""
    height, width = images.shape[-2:]
    check_int(low=1, high=min(height, width), side=side)
    top, left = (height - side) // 2, (width - side) // 2
    return images[..., top : top + side, left : left + side]


def _cifar_batch(batch: Any, path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Pixels and labels of a batch. Python 2 wrote the keys as bytes, which arrive as text."""
    if not isinstance(batch, dict) or not {"data", "labels"} <= set(batch):
        raise DataError(f"Expected {path} to hold 'data' and 'labels'. Use the version of CIFAR-10 for Python.")
    pixels, labels = np.asarray(batch["data"]), np.asarray(batch["labels"])
    if pixels.dtype != np.uint8 or pixels.ndim != 2 or pixels.shape[1] != np.prod(_CIFAR_SHAPE):
        raise DataError(f"Expected 'data' of {path} as bytes [n, 3072], got {pixels.dtype} {list(pixels.shape)}.")
    if (
        labels.shape != pixels.shape[:1]
        or labels.dtype.kind != "i"
        or not ((labels >= 0) & (labels < len(CIFAR_CLASSES))).all()
    ):
        raise DataError(f"Expected 'labels' of {path} as {len(pixels)} numbers from 0 to 9. Fetch the file again.")
    return pixels.reshape(-1, *_CIFAR_SHAPE), labels.astype(np.int64)


def read_svhn(folder: str | Path) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.uint8]]:
    """Read ``train_32x32.mat`` (role 0) and ``test_32x32.mat`` (role 2); the file ``extra_32x32.mat`` is not read.

    Images are uint8 [n, 3, 32, 32], channels red, green and blue; labels int64 [n], the digit 0 to 9, which the files write as 1
    to 10; roles uint8 [n].
    """
    parts = []
    for path in (Path(folder) / name for name in _SVHN_PARTS):
        with reading(path), path.open("rb") as stream:
            from scipy.io import loadmat

            parts.append(_svhn_part(loadmat(stream, variable_names=["X", "y"]), path))
    return joined(parts, _SVHN_PARTS.values())


def _svhn_part(content: dict[str, Any], path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images with their index and channels first, and digits."""
    if not {"X", "y"} <= set(content):
        raise DataError(f"Expected {path} to hold X and y. Use the cropped digits (format 2) of SVHN.")
    pixels, digits = content["X"], content["y"].ravel()
    if pixels.dtype != np.uint8 or pixels.ndim != 4 or pixels.shape[:3] != _SVHN_SHAPE:
        raise DataError(f"Expected X of {path} as bytes [32, 32, 3, n], got {pixels.dtype} {list(pixels.shape)}.")
    if not pixels.shape[3]:
        raise DataError(f"Expected X of {path} to hold images, found none. Fetch the file again.")
    if len(digits) != pixels.shape[3] or digits.dtype.kind not in "iu" or not ((digits >= 1) & (digits <= _ZERO)).all():
        raise DataError(
            f"Expected y of {path} as {pixels.shape[3]} numbers from 1 to 10, the last for digit 0. Fetch the file again."
        )
    return np.ascontiguousarray(pixels.transpose(3, 2, 0, 1)), digits.astype(np.int64) % _ZERO
