"""The codes that stand for labels in messages."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def simplex(num_classes: int) -> NDArray[np.float32]:
    """Return the codes of the classes, [num_classes, num_classes]: corners of a regular simplex around 0, of norm 1.

    >>> simplex(2).round(3).tolist()
    [[0.7070000171661377, -0.7070000171661377], [-0.7070000171661377, 0.7070000171661377]]
    """
    codes = np.eye(num_classes) - 1 / num_classes
    return (codes / np.linalg.norm(codes[0])).astype(np.float32)
