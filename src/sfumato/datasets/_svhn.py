"""SVHN becomes arrays: cropped house numbers in color, from the two published MATLAB files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato._pickles import reading
from sfumato.datasets._idx import joined
from sfumato.errors import DataError

_PARTS = {"train_32x32.mat": 0, "test_32x32.mat": 2}
_SHAPE = (32, 32, 3)
_ZERO = 10


def read_svhn(folder: str | Path) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.uint8]]:
    """Read ``train_32x32.mat`` (role 0) and ``test_32x32.mat`` (role 2); the file ``extra_32x32.mat`` is not read.

    Images are uint8 [n, 3, 32, 32], channels red, green and blue; labels int64 [n], the digit 0 to 9, which the files write as 1
    to 10; roles uint8 [n].
    """
    parts = []
    for path in (Path(folder) / name for name in _PARTS):
        with reading(path), path.open("rb") as stream:
            from scipy.io import loadmat

            parts.append(_checked(loadmat(stream, variable_names=["X", "y"]), path))
    return joined(parts, _PARTS.values())


def _checked(content: dict[str, Any], path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images with their index and channels first, and digits."""
    if not {"X", "y"} <= set(content):
        raise DataError(f"Expected {path} to hold X and y. Use the cropped digits (format 2) of SVHN.")
    pixels, digits = content["X"], content["y"].ravel()
    if pixels.dtype != np.uint8 or pixels.ndim != 4 or pixels.shape[:3] != _SHAPE:
        raise DataError(f"Expected X of {path} as bytes [32, 32, 3, n], got {pixels.dtype} {list(pixels.shape)}.")
    if not pixels.shape[3]:
        raise DataError(f"Expected X of {path} to hold images, found none. Fetch the file again.")
    if len(digits) != pixels.shape[3] or digits.dtype.kind not in "iu" or not ((digits >= 1) & (digits <= _ZERO)).all():
        raise DataError(
            f"Expected y of {path} as {pixels.shape[3]} numbers from 1 to 10, the last for digit 0. Fetch the file again."
        )
    return np.ascontiguousarray(pixels.transpose(3, 2, 0, 1)), digits.astype(np.int64) % _ZERO
