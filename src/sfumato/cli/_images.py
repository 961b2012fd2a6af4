"""The options of cells under unit subclass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato._validate import check_choice, check_int
from sfumato.cli._table import spelled
from sfumato.errors import InputError
from sfumato.privacy.units import class_for

if TYPE_CHECKING:
    from sfumato.cli._options import Options

_OF_CELLS = ("subclasses", "partition")
_PARTITIONS = ("directions", "centroids", "kmeans")


def check(options: Options) -> None:
    """Refuse options of cells that the unit does not take."""
    for name in _OF_CELLS:
        if getattr(options, name) is not None and not class_for(options.unit).takes_cells:
            raise InputError(f"Expected {spelled(name)} with --unit subclass, got unit {options.unit!r}. Drop it.")
    if options.subclasses is not None:
        check_int(low=1, subclasses=options.subclasses)
    if options.partition is not None:
        check_choice(_PARTITIONS, partition=options.partition)
