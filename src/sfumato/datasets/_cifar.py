"""CIFAR-10 becomes arrays: the five training batches and the test batch of the version for Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato._pickles import load_pickle, reading
from sfumato._validate import check_int
from sfumato.datasets._idx import joined
from sfumato.errors import DataError

_BATCHES = {**{f"data_batch_{number}": 0 for number in range(1, 6)}, "test_batch": 2}
_SHAPE = (3, 32, 32)
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
"""The names of the classes, in the order of their numbers."""


def read_cifar10(folder: str | Path) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.uint8]]:
    """Read ``data_batch_1`` to ``data_batch_5`` (role 0) and ``test_batch`` (role 2) in this order; no code of the pickles runs.

    Images are uint8 [n, 3, 32, 32], channels red, green and blue; labels int64 [n], 0 to 9; roles uint8 [n].
    """
    parts = []
    for path in (Path(folder) / name for name in _BATCHES):
        with reading(path), path.open("rb") as stream:
            parts.append(_checked(load_pickle(stream, path), path))
    return joined(parts, _BATCHES.values())


def center_crop(images: NDArray[Any], side: int) -> NDArray[Any]:
    """Return the center patch of ``side`` x ``side`` pixels of images [n, channels, height, width]; a view."""
    height, width = images.shape[-2:]
    check_int(low=1, high=min(height, width), side=side)
    top, left = (height - side) // 2, (width - side) // 2
    return images[..., top : top + side, left : left + side]


def _checked(batch: Any, path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Pixels and labels of a batch. Python 2 wrote the keys as bytes, which arrive as text."""
    if not isinstance(batch, dict) or not {"data", "labels"} <= set(batch):
        raise DataError(f"Expected {path} to hold 'data' and 'labels'. Use the version of CIFAR-10 for Python.")
    pixels, labels = np.asarray(batch["data"]), np.asarray(batch["labels"])
    if pixels.dtype != np.uint8 or pixels.ndim != 2 or pixels.shape[1] != np.prod(_SHAPE):
        raise DataError(f"Expected 'data' of {path} as bytes [n, 3072], got {pixels.dtype} {list(pixels.shape)}.")
    if (
        labels.shape != pixels.shape[:1]
        or labels.dtype.kind != "i"
        or not ((labels >= 0) & (labels < len(CLASSES))).all()
    ):
        raise DataError(f"Expected 'labels' of {path} as {len(pixels)} numbers from 0 to 9. Fetch the file again.")
    return pixels.reshape(-1, *_SHAPE), labels.astype(np.int64)
