"""The options of methods for images, and of cells under unit subclass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato._validate import check_choice, check_int
from sfumato.catalog import words_with
from sfumato.cli._table import spelled
from sfumato.errors import InputError
from sfumato.privacy.units import class_for

if TYPE_CHECKING:
    from sfumato.cli._options import Options

_OWN = {option: words_with(option) for option in ("network", "steps", "augment", "public_rows")}
_OF_CELLS = ("subclasses", "partition")
_PARTITIONS = ("directions", "centroids", "kmeans")


def check(options: Options) -> None:
    """Refuse options of images that the method or the unit does not take."""
    for name, words in _OWN.items():
        if getattr(options, name) is not None and options.method not in words:
            raise InputError(
                f"Expected {spelled(name)} with one of {', '.join(words)}, got method {options.method!r}. Drop it."
            )
    for name in _OF_CELLS:
        if getattr(options, name) is not None and not class_for(options.unit).takes_cells:
            raise InputError(f"Expected {spelled(name)} with --unit subclass, got unit {options.unit!r}. Drop it.")
    if options.subclasses is not None:
        check_int(low=1, subclasses=options.subclasses)
    if options.partition is not None:
        check_choice(_PARTITIONS, partition=options.partition)
