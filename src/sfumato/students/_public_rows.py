"""Every student is given public rows that were answered, their noisy labels, and public rows without a label."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import fail


def check_public(
    x_labeled: Any,
    y_noisy: Any,
    x_unlabeled: Any,
    num_classes: int,
    *,
    sides: tuple[int, float] | None = None,
    least_unlabeled: int = 0,
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.float32]]:
    """Return labeled rows, labels and unlabeled rows as arrays that training reads, or say what does not fit.

    Rows are from 0 to 1; ``sides`` are the least and most pixels of a side of images, None for rows of any shape.
    """
    x, pool = (np.ascontiguousarray(part, np.float32) for part in (x_labeled, x_unlabeled))
    y = np.asarray(y_noisy)
    for name, part, least in (("x_labeled", x, 1), ("x_unlabeled", pool, least_unlabeled)):
        if part.ndim < 2 or part[:least].size < least or not ((part >= 0) & (part <= 1)).all():
            expected = f"to hold rows of numbers between 0 and 1, at least {least}"
            raise fail(name, part.shape, expected, "Scale pixels.")
        if sides and (part.ndim != 4 or not sides[0] <= min(part.shape[2:]) <= max(part.shape[2:]) <= sides[1]):
            expected = f"to be images [n, channels, height, width] with sides of {sides[0]} to {sides[1]} pixels"
            raise fail(name, part.shape, expected, "For other rows take GANStudent(network='mlp').")
    if pool.shape[1:] != x.shape[1:]:
        raise fail(
            "x_unlabeled", pool.shape, f"to hold rows of the shape {x.shape[1:]} of x_labeled", "Shape both alike."
        )
    if y.shape != x.shape[:1] or y.dtype.kind not in "iu":
        expected = f"to hold one integer for each of {len(x)} labeled rows"
        raise fail("y_noisy", f"{y.dtype}{list(y.shape)}", expected, "Leave refused queries out.")
    if not 0 <= y.min() <= y.max() < num_classes:
        shown = int(y.max() if y.min() >= 0 else y.min())
        raise fail("y_noisy", shown, f"to lie in 0 to {num_classes - 1}", "Leave refused queries out.")
    return x, y.astype(np.int64), pool
