"""Kinds of releases: what each leaves in a release folder, how it may be charged, and which values it can hold.

Sparse rows and edge sets may have a random number of lines: certificate and ledger write their number as null, and their
coordinates are those that the method states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ._documents import differences, plain
from ._noise import noise_faults

if TYPE_CHECKING:
    from ._tensors import Stored

Shape = list[int | None]
Values = dict[str, Any]
_ROW = 32767
"""Steps of a row of norm 1."""
Form = tuple[str, int, tuple[int, int], tuple[int, int]]
"""Type of reports, how many of their columns come first, and the ranges of these and of the others."""


@dataclass(frozen=True)
class Planned:
    """A release that a method must have made.

    A number in ``shape`` is None if the release decides it, and ``affected`` is None if no bound on the coordinates that a
    record can touch is known. ``count`` is the number in its event, such as that of noisy rows or of entries that were picked.
    ``arc_change`` is, under owned arcs, how far one arc that another node owns moves the release, over its sensitivity; None
    without a bound. Where it need not be stated, earlier runs did not know it. ``parts`` are the names of its tensors, if there
    are others than its own.
    """

    seen_by: ClassVar[str] = "anyone"
    stored: ClassVar[bool] = True
    must_state: ClassVar[bool] = True
    name: str
    shape: Shape
    affected: int | None
    axes: ClassVar[str] = ""
    event: str = field(default="gaussian", kw_only=True)
    count: int = field(default=1, kw_only=True)
    arc_change: float | None = field(default=None, kw_only=True)
    parts: tuple[str, ...] | None = field(default=None, kw_only=True)

    def faults(self, where: str, release: Values) -> Iterator[str]:
        """Yield what is wrong with the ``release`` as it was charged; ``where`` opens each problem."""
        event = release["event"]
        if event["type"] != self.event or event.get("count") != self.count:
            number = "one release" if self.count == 1 else f"{self.count} releases"
            yield f"{where}event: expected {number} of type {self.event}"
        if self.affected is None:
            yield f"{where}name: an aggregate has no bounded sensitivity under this unit"
        else:
            yield from self.size_faults(where, release)

    def size_faults(self, where: str, release: Values) -> Iterator[str]:
        stated = (("shape", self.shape, self.axes), ("affected_coordinates", self.affected, ""))
        for key, value, axes in stated:
            if release.get(key, value) != value:
                yield f"{where}{key}: expected {axes}{plain(repr(value))}, got {plain(repr(release[key]))}"
        yield from self.reader_faults(where, release)

    def reader_faults(self, where: str, release: Values) -> Iterator[str]:
        if release.get("visible_to", self.seen_by) != self.seen_by:
            yield f"{where}visible_to: expected {plain(repr(self.seen_by))}, got {plain(repr(release['visible_to']))}"

    @property
    def names(self) -> tuple[str, ...]:
        """Of the tensors of ``releases.safetensors`` that hold the release."""
        return () if not self.stored else (self.name,) if self.parts is None else self.parts

    def tensors(self, release: Values) -> dict[str, Shape]:
        shape: Shape = release["shape"]
        return dict.fromkeys(self.names, shape)

    def value_faults(self, stored: Mapping[str, Stored]) -> Iterator[str]:
        """Yield a problem for values that the mechanism cannot release; shapes were checked before."""
        for name in self.names:
            yield from type_faults(name, stored[name], "I64")


def type_faults(name: str, stored: Stored, dtype: str) -> Iterator[str]:
    if stored.dtype != dtype:
        yield f"{plain(name)}: has dtype {stored.dtype}, expected {dtype}, as the settings say"


@dataclass(frozen=True)
class Matrix(Planned):
    """A matrix of integers with noise on every entry.

    ``sensitivity`` is that of the sums, in rows of norm 1, where every entry has Gaussian noise, of the deviation sensitivity
    times multiplier, or, in a pure release, Laplace noise of the scale sensitivity over epsilon; else None.
    """

    axes: ClassVar[str] = "nodes and width, "
    sensitivity: float | None = field(default=None, kw_only=True)

    def noise_faults(self, stored: Stored, event: Values) -> Iterator[str]:
        """Yield a problem for a release that holds less noise than its ``event`` says."""
        if self.sensitivity is None or event["type"] != self.event:
            return
        if self.event == "gaussian":
            yield from noise_faults(self.name, stored, self.sensitivity * _ROW * event["noise_multiplier"], 2)
        else:
            yield from noise_faults(self.name, stored, self.sensitivity * _ROW / event["epsilon"], 1)


@dataclass(frozen=True)
class Network(Planned):
    """Weights that DP-SGD trained, in ``model.safetensors``; a record can touch all of them.

    ``sampling_prob`` is that of an example, or of each term of a record; ``occurrences`` are the most terms that a record
    reaches, charged as repeated Gaussian releases, None where it is one example.
    """

    stored: ClassVar[bool] = False
    sampling_prob: float = 1.0
    steps: int = 1
    occurrences: int | None = None

    def faults(self, where: str, release: Values) -> Iterator[str]:
        yield from self.size_faults(where, release)
        event, planned = release["event"], {"sampling_prob": self.sampling_prob, "steps": self.steps}
        kind = "poisson-gaussian"
        if self.occurrences is not None:
            kind, planned["occurrences"] = "repeated-gaussian", self.occurrences
        if event["type"] != kind:
            yield f"{where}event.type: expected {kind}, got {event['type']}"
            return
        for key, value in planned.items():
            if event[key] != value:
                yield f"{where}event.{key}: expected {value:.9g}, as settings and public facts say, got {event[key]:.9g}"


@dataclass(frozen=True)
class Replaced(Network):
    """Weights of a network where a record that leaves takes its own term away and replaces those of others.

    Earlier runs charged all terms as replaced, which is never less, and stated no price.
    """

    must_state: ClassVar[bool] = False

    def faults(self, where: str, release: Values) -> Iterator[str]:
        yield from super().faults(where, release)
        if release["event"].get("relation") not in ("replace", "leave"):
            yield f"{where}event.relation: expected leave or replace, since terms of other nodes change"


@dataclass(frozen=True)
class Weights(Planned):
    """Numbers that one Gaussian release gave. They are in ``model.safetensors``."""

    stored: ClassVar[bool] = False


@dataclass(frozen=True)
class OwnRows(Matrix):
    """Rows that are each for their own node alone. They stand beside ``release/`` and not in it."""

    seen_by: ClassVar[str] = "the node itself"
    stored: ClassVar[bool] = False


@dataclass(frozen=True)
class Reports(Planned):
    """One report for each user; ``check`` has the mechanism's own rules, ``form`` types and ranges of answers of a width."""

    check: Callable[[str, Values], Iterator[str]]
    form: Callable[[int], Form]

    def faults(self, where: str, release: Values) -> Iterator[str]:
        yield from self.reader_faults(where, release)
        if None in release["shape"]:
            yield f"{where}shape: expected integers, got {release['shape'][:4]}"
        else:
            yield from self.check(where, release)

    def value_faults(self, stored: Mapping[str, Stored]) -> Iterator[str]:
        found = stored[self.name]
        dtype, split, *ranges = self.form(found.shape[-1])
        if found.dtype != dtype:
            yield from type_faults(self.name, found, dtype)
            return
        answers = found.array().reshape(found.shape[0], -1)
        for part, (low, high) in zip((answers[:, :split], answers[:, split:]), ranges, strict=True):
            if part.size and not low <= int(part.min()) <= int(part.max()) <= high:
                seen = f"{int(part.min())} to {int(part.max())}"
                yield f"{self.name}: holds answers from {seen}, expected {low} to {high}, as the settings say"


@dataclass(frozen=True)
class Answers(Planned):
    """Answers to queries, for which the settings imply the whole event ``charged``."""

    charged: Values

    def faults(self, where: str, release: Values) -> Iterator[str]:
        yield from self.reader_faults(where, release)
        planned = {"event": self.charged, "shape": self.shape, "affected_coordinates": self.affected}
        for key, value in planned.items():
            found = differences(release[key], value, f"{where}{key}")
            yield from (f"{text} (compared with what the settings imply)" for text in found)


@dataclass(frozen=True)
class SparseRows(Planned):
    """Entries of a matrix that is zero elsewhere: lines of row, column and value, of shape [null, 3].

    ``limits`` are the numbers of rows and columns. Lines are in the order of row and column, and no place has two. So a
    set of entries has one spelling, and the order of lines reveals nothing.
    """

    limits: tuple[int, int]
    axes: ClassVar[str] = "lines of row, column and value, "

    def value_faults(self, stored: Mapping[str, Stored]) -> Iterator[str]:
        found = stored[self.name]
        yield from type_faults(self.name, found, "I64")
        lines = found.array()
        rows, columns = lines[:, 0], lines[:, 1]
        for axis, places, limit in (("rows", rows, self.limits[0]), ("columns", columns, self.limits[1])):
            if places.size and not 0 <= int(places.min()) <= int(places.max()) < limit:
                yield f"{self.name}: holds {axis} from {places.min()} to {places.max()}, expected 0 to {limit - 1}"
        if not _ascending(rows, columns):
            yield f"{self.name}: holds lines that are not in ascending order of row and column, each place once"


@dataclass(frozen=True)
class TopRows(SparseRows):
    """Sparse rows in which every row that has entries has exactly ``picks``: of M rows the shape is [M picks, 3].

    They are charged as ``count`` releases of their ``event``: draws of the exponential mechanism, one for each entry, or
    Gaussian rows of which the largest entries were kept.
    """

    picks: int = 1

    def value_faults(self, stored: Mapping[str, Stored]) -> Iterator[str]:
        yield from super().value_faults(stored)
        rows, found = np.unique(stored[self.name].array()[:, 0], return_counts=True)
        wrong = np.flatnonzero(found != self.picks)
        if wrong.size:
            yield f"{self.name}: row {rows[wrong[0]]} holds {found[wrong[0]]} entries, expected {self.picks}"


@dataclass(frozen=True)
class EdgeSet(SparseRows):
    """Arcs as pairs of source and target, of shape [null, 2], sorted, each once; undirected ones have the smaller end first."""

    directed: bool = True
    axes: ClassVar[str] = "arcs and their two ends, "

    def value_faults(self, stored: Mapping[str, Stored]) -> Iterator[str]:
        yield from super().value_faults(stored)
        sources, targets = stored[self.name].array().T
        if (sources == targets).any() or (not self.directed and (sources > targets).any()):
            wanted = "two different ends" if self.directed else "the smaller end first"
            yield f"{self.name}: holds arcs that are loops or turned, expected {wanted}"


def _ascending(rows: NDArray[Any], columns: NDArray[Any]) -> bool:
    later, same = np.diff(rows) > 0, np.diff(rows) == 0
    return bool((later | (same & (np.diff(columns) > 0))).all())
