"""What `sfumato collect estimate` says of what two servers opened: every number follows from the file, and is computed again."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ._documents import differences
from ._openings import read
from ._servers import LEAST_EPSILON, moments

if TYPE_CHECKING:
    from ._openings import Opening

_NORMAL = 1.959963984540054
_NEAR = 1e-7
"""How far a share may be off: it is computed in another order of operations."""


def share_faults(stated: dict[str, Any], data: bytes) -> Iterator[str]:
    """Yield a problem unless all that is ``stated`` follows from the opened file.

    Raises:
        ValueError: the file is malformed, or not signed by both servers.
    """
    opening = read(data)
    epsilon = float(opening.agreement["epsilon"])
    if epsilon < LEAST_EPSILON:
        yield "the epsilon of the agreement is so small that counts say nothing"
        return
    expected = _expected(opening, data, epsilon, by_cell="cells" in stated)
    yield from differences(_rounded(stated, expected), expected, "it")


def _expected(opening: Opening, data: bytes, epsilon: float, *, by_cell: bool) -> dict[str, Any]:
    classes, counted = opening.agreement["classes"], opening.counts.sum(axis=1)
    _, variance = moments(2 / epsilon, len(classes))
    privacy = {"unit": "servers", "epsilon": opening.agreement["epsilon"], "delta": 0.0}
    found: dict[str, Any] = {**opening.facts(data), "confidence": 0.95, "privacy": privacy}
    found["collection"] = found.pop("name")
    del found["opens"], found["closes"]
    found["counts"] = {"label": found["reports"]}
    found["answers"] = {"label": _shares(classes, opening.counts[counted > 0], variance)}
    if by_cell:
        asked = np.bincount(list(opening.cells.values()))
        found["cells"] = [
            {
                "cell": cell,
                "asked": int(asked[cell]),
                "reports": int(reports),
                "shares": _shares(classes, opening.counts[cell : cell + 1], variance) if reports else [],
            }
            for cell, reports in enumerate(counted)
        ]
    return found


def _shares(classes: list[str], counts: NDArray[np.int64], variance: float) -> list[dict[str, Any]]:
    total, half = int(counts.sum()), _NORMAL * math.sqrt(len(counts) * variance) + 0.5
    found = []
    for name, count in zip(classes, counts.sum(axis=0).tolist(), strict=True):
        low, high = (min(max((count + side * half) / total, 0.0), 1.0) for side in (-1, 1))
        one = {"name": name, "kind": "share", "estimate": count / total, "low": low, "high": high}
        found.append({**one, "least": 0.0, "most": 1.0})
    return found


def _rounded(stated: Any, expected: Any) -> Any:
    """The stated value, in which numbers that are near enough to what is expected are that."""
    if isinstance(stated, dict) and isinstance(expected, dict):
        return {name: _rounded(value, expected.get(name)) for name, value in stated.items()}
    if isinstance(stated, list) and isinstance(expected, list) and len(stated) == len(expected):
        return [_rounded(*pair) for pair in zip(stated, expected, strict=True)]
    near = type(stated) is float and type(expected) is float and abs(stated - expected) <= _NEAR
    return expected if near else stated
