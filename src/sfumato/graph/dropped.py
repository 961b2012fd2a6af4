"""What a reader leaves out is said: names of columns and attributes that no method reads. Names are public, values are not."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from sfumato.errors import DroppedWarning


def tell_dropped(names: Iterable[str], place: str, above: int = 1) -> None:
    """Tell in a warning which columns or attributes are not read.

    Args:
        names: of what is left out; without any, nothing is said.
        place: where it stands.
        above: how many functions of this package stand between this one and the line that is warned of.

    >>> with warnings.catch_warnings(record=True, action="always") as told:
    ...     tell_dropped(["weight", "since"], "edges.csv")
    >>> print(told[0].message)
    Not read: weight, since of edges.csv. Every edge counts the same.
    """
    listed = ", ".join(names)
    if listed:
        warnings.warn(
            f"Not read: {listed} of {place}. Every edge counts the same.", DroppedWarning, stacklevel=above + 2
        )
