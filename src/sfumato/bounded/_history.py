r"""Counts of neighbors by class over a whole history of edges that come and go, released day by day under one budget.

**Stream.** Every row v (a node that receives) is *refreshed* on public days (:mod:`~sfumato.bounded._refreshes`). Its j-th
refresh is told the change of its counts since the one before, :math:`x_{v,j}`, one number a class: arcs that came, less arcs
that went if deletions are counted. An arc that came and went between two refreshes is in none.

**Neighbors** differ in one edge and all of its history: the day on which it came and the day on which it went. By
:func:`~sfumato.bounded._routing.one_way` an edge is one arc, or a unit is one arc, so one row and one class differ: :math:`x`
by :math:`e_i` if deletions are not counted, by :math:`e_i` or :math:`e_i - e_k` with :math:`i < k` if they are, or not at all.

**Two forms** of noise release the rows, under one budget for all days.

* *Increments* (:class:`Increments`): :math:`y_j = x_j + N_j` with discrete Laplace noise of scale b. *Guarantee:* pure
  :math:`\epsilon = \Delta_1 / b`, with :math:`\Delta_1 = 1`, or 2 if deletions are counted, whatever the number of refreshes.
  *Proof:* along any course of events the releases of the two histories differ, refresh by refresh, by numbers
  :math:`\delta_j` with :math:`\sum_j |\delta_j| \le \Delta_1`, and given the past the ratio of the probabilities of
  :math:`y_j` is at most :math:`e^{|\delta_j| / b}`. (Edges may be chosen by looking at earlier releases: the bound holds along
  each course.) The noise of a count after j refreshes is the sum of j draws. There is no horizon: refreshes may go on for ever.
* *Sums* (:class:`Sums`): :math:`y_j = \sum_{i \le j} q_{j-i} x_i + \mathrm{round}(\sigma Z_j)`, where q are integers that
  fall with age (:mod:`~sfumato.bounded._encoder`). *Guarantee:* a Gaussian event of noise multiplier
  :math:`\sigma / \Delta_2`. With Q the lower triangular matrix of q, for m refreshes, :math:`\Delta_2` is
  :math:`\max_i \|Q e_i\|`, and :math:`\max(\max_i \|Q e_i\|, \max_{i < k} \|Q e_i - Q e_k\|)` if deletions are counted.
  All of it is computed in integers. *Proof:* the releases are :math:`\mathrm{round}(Q x + \sigma Z)`, since Q x is integer; Q x
  moves by :math:`Q e_i` or :math:`Q (e_i - e_k)`. If edges are chosen by looking at earlier releases, the shifts
  :math:`\delta_j` along any course have :math:`\sum_j \delta_j^2 \le \Delta_2^2`, and a sequence of Gaussian releases whose
  squared shifts have a sum bounded along each course is as private as one (Denisov et al. 2022, theorem 2.1; Smith and
  Thakurta 2022, theorem 1).

**Keys.** The noise of a day follows from the key, the day, the form, a MAC of the exact rows of that day, and (row, column). A
row is refreshed at most once a day. So a day that is computed again, after a crash, has the same noise on the same rows, and
nothing else ever has the same noise: the same draws at two scales could give the rows away.

**Reading** (:class:`Reader`) is post-processing, and keeps one number for each row and class.

Sources: Dwork, Naor, Pitassi and Rothblum (2010), Differential privacy under continual observation; McSherry (2009), theorem
4; Denisov, McMahan, Rush, Smith and Thakurta (2022), Improved differential privacy for SGD via optimal private linear operators
on adaptive streams; Smith and Thakurta (2022), Fully adaptive composition for Gaussian differential privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import fail
from sfumato.bounded._refreshes import MOST_DAYS, Ints, Schedule
from sfumato.loops.kernels import INT16_ONE
from sfumato.noise._geometric import keyed_discrete_laplace
from sfumato.noise.gaussian import rounded_gaussian
from sfumato.noise.keys import Key, derive_key, operand_mac

if TYPE_CHECKING:
    from sfumato.bounded._encoder import Encoder

NEVER = MOST_DAYS + 1
"""The day on which an edge goes that is still there."""


@dataclass(frozen=True)
class History:
    """Arcs that carry a message, each with the row and the class that it counts in and the days on which it came and went.

    ``gone`` is :data:`NEVER` for an arc that is still there. All arrays are int64 [num_arcs].
    """

    rows: Ints
    classes: Ints
    came: Ints
    gone: Ints


@dataclass(frozen=True)
class Stream:
    """A history as its rows tell it: each arc with the refresh that would tell first that it came, and that it went.

    ``first`` and ``end`` are int64 [num_arcs], numbers of refreshes from 0 on, of the row in ``rows`` that counts the arc in one
    of ``classes``. An arc is told if ``first`` is below ``end``. ``schedule`` and ``phases`` [num_nodes] are public.
    """

    schedule: Schedule
    phases: Ints
    num_classes: int
    rows: Ints
    classes: Ints
    first: Ints
    end: Ints

    @classmethod
    def of(cls, history: History, schedule: Schedule, phases: Ints, num_classes: int) -> Stream:
        """Number the refreshes of a history.

        >>> history = History(*np.array([[0, 0], [1, 1], [2, 3], [3, NEVER]]))
        >>> stream = Stream.of(history, Schedule(4, 2), np.zeros(1, np.int64), 2)
        >>> stream.first.tolist(), (stream.first < stream.end).tolist()
        ([1, 1], [False, True])
        """
        own = phases[history.rows]
        first, end = (schedule.done(own, days - 1) for days in (history.came, history.gone))
        return cls(schedule, phases, num_classes, history.rows, history.classes, first, end)

    def due(self, day: int) -> tuple[Ints, Ints]:
        """Return the rows that are refreshed on a day, and the number of that refresh, from 0 on."""
        before, after = (self.schedule.done(self.phases, end) for end in (day - 1, day))
        rows = np.flatnonzero(after > before)
        return rows, before[rows]


@dataclass(frozen=True)
class Increments:
    """Changes since the last refresh, with discrete Laplace noise of ``scale`` b on every number; 0 protects nothing.

    >>> Increments(Fraction(1, 2)).weights(np.arange(3)).tolist()
    [1, 0, 0]
    """

    scale: Fraction
    deletions: bool = False

    @property
    def name(self) -> str:
        """Return a name that no other scale has."""
        return f"increments {self.scale}"

    def weights(self, ages: Ints) -> Ints:
        """Return how often a change is told that was so many refreshes ago."""
        return np.asarray(ages == 0, np.int64)

    def noise(self, key: Key, size: int) -> Ints:
        """Draw the noise of so many numbers."""
        return keyed_discrete_laplace(key, self.scale, 0, size) if self.scale else np.zeros(size, np.int64)


@dataclass(frozen=True)
class Sums:
    """Weighed sums of all changes, with rounded Gaussian noise of ``stddev`` on every number; 0 protects nothing."""

    encoder: Encoder
    stddev: float
    deletions: bool = False

    @property
    def name(self) -> str:
        """Return a name that no other deviation or horizon has."""
        return f"sums {self.stddev!r} {len(self.encoder.steps)}"

    def weights(self, ages: Ints) -> Ints:
        """Return the weight of a change that was so many refreshes ago.

        Raises:
            InputError: there are more refreshes than the encoder has coefficients, for which nothing is proved.
        """
        most = len(self.encoder.steps)
        if ages.max(initial=0) >= most:
            remedy = "The noise was found for this horizon. A new history costs again."
            raise fail("refreshes", int(ages.max()) + 1, f"to be at most {most}", remedy)
        return np.asarray(self.encoder.steps[ages])

    def noise(self, key: Key, size: int) -> Ints:
        """Draw the noise of so many numbers."""
        return rounded_gaussian(key, self.stddev, 0, size) if self.stddev else np.zeros(size, np.int64)


Form = Increments | Sums
"""How the changes of rows become what is released."""


def increment_sensitivity(deletions: bool) -> int:
    """Return by how much one edge moves all increments together, in L1 norm: 1, or 2 if its deletion is counted.

    >>> increment_sensitivity(False), increment_sensitivity(True)
    (1, 2)
    """
    return 2 if deletions else 1


def noisy_day(stream: Stream, day: int, form: Form, key: Key) -> tuple[Ints, Ints, Ints]:
    r"""Release the rows that are due on a day: their numbers, those of their refreshes, and one row of integers each.

    **Formal guarantee.** All days of one history together are one event (module). What came or went after the day is not told:
    its refresh is a later one. ``key`` is that of the whole history.

    Shapes: int64 [num_due] twice, and [num_due, num_classes].

    >>> one = Stream.of(History(*np.array([[1], [0], [1], [NEVER]])), Schedule(2, 2), np.zeros(2, np.int64), 2)
    >>> [part.tolist() for part in noisy_day(one, 1, Increments(Fraction(0)), bytes(32))]
    [[0, 1], [0, 0], [[0, 0], [1, 0]]]
    """
    rows, refreshes = stream.due(day)
    sums = exact_sums(stream, rows, refreshes, form)
    key = derive_key(key, "day", day, form.name, operand_mac(key, rows, sums))
    return rows, refreshes, sums + form.noise(key, sums.size).reshape(sums.shape)


def exact_sums(stream: Stream, rows: Ints, refreshes: Ints, form: Form) -> Ints:
    """Return what ``rows`` tell before noise at the refreshes of these numbers, int64 [num_rows, num_classes].

    What came and went between two refreshes is told by none, and what comes or goes later has a later number.
    """
    place, sums = np.full(len(stream.phases), -1), np.zeros((len(rows), stream.num_classes), np.int64)
    place[rows] = np.arange(len(rows))
    at, classes, first, end = place[stream.rows], stream.classes, stream.first, stream.end
    if len(rows) < len(place):
        read = at >= 0
        at, classes, first, end = at[read], classes[read], first[read], end[read]
    last, cell = refreshes[at], at * stream.num_classes + classes
    told = (first <= last) & (first < end)
    sums += _added(cell[told], form.weights(last[told] - first[told]), sums)
    if form.deletions:
        told &= end <= last
        sums -= _added(cell[told], form.weights(last[told] - end[told]), sums)
    return sums


def _added(cells: Ints, weights: Ints, like: Ints) -> Ints:
    """Add integers below 2^16 by cell. Their sums are exact in float64: they are below 2^53 for up to 2^37 arcs."""
    return np.bincount(cells, weights, like.size).astype(np.int64).reshape(like.shape)


def laplace_deviation(scale: Fraction) -> float:
    """Return the standard deviation of discrete Laplace noise of a scale.

    >>> round(laplace_deviation(Fraction(1, 2)), 4)
    0.6017
    """
    if not scale:
        return 0.0
    ratio = math.exp(-float(1 / scale))
    return math.sqrt(2 * ratio) / (1 - ratio)


def deviation(form: Form, refreshes: Ints) -> NDArray[np.float64]:
    """Return the standard deviation of the noise of a count, as it is read, after so many refreshes of its row.

    >>> deviation(Increments(Fraction(1, 2)), np.array([0, 4])).round(2).tolist()
    [0.0, 1.2]
    """
    if isinstance(form, Increments):
        return np.asarray(laplace_deviation(form.scale) * np.sqrt(refreshes))
    assert isinstance(form, Sums)
    lengths = np.sqrt(form.encoder.squares[refreshes])
    return np.asarray(np.divide(form.stddev * refreshes, lengths, out=np.zeros(len(refreshes)), where=lengths > 0))


@dataclass
class Reader:
    """What is kept of all releases: one number for each count, ``kept`` float64 [num_nodes, num_classes].

    >>> form = Increments(Fraction(0))
    >>> reader = Reader(np.zeros((2, 1)))
    >>> for refresh, change in enumerate((2, 3)):
    ...     reader.add(np.array([1]), np.array([refresh]), np.array([[change]]), form)
    >>> (reader.read(np.array([2, 2]), form) / INT16_ONE).tolist()
    [[0.0], [5.0]]
    """

    kept: NDArray[np.float64]

    def add(self, rows: Ints, refreshes: Ints, values: Ints, form: Form) -> None:
        """Read the release of a day, as :func:`noisy_day` returns it."""
        weights = form.encoder.readers[refreshes] if isinstance(form, Sums) else np.ones(len(rows))
        self.kept[rows] += weights[:, None] * values

    def read(self, done: Ints, form: Form) -> Ints:
        """Return counts, noise included, in steps of 1 / 32767, int64 [num_nodes, num_classes].

        ``done`` says how many refreshes each row has had.
        """
        scale = np.ones(len(done))
        if isinstance(form, Sums):
            scale = done / np.maximum(form.encoder.squares[done], 1)
        return np.rint(self.kept * (scale * INT16_ONE)[:, None]).astype(np.int64)
