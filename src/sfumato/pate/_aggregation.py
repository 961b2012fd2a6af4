r"""Mechanisms for the noisy plurality of teachers are LNMax, GNMax, Confident-GNMax and interactive GNMax.

**Neighbors.** Data sets that differ in one record (added, removed, or replaced under its id) differ in the data of one
teacher, for teachers are trained on disjoint parts that no other record decides (:func:`sfumato.pate._teachers.assign`). That
teacher still votes, and may change its vote on *every* query. For each query one count falls by 1 and another rises by 1, or
nothing happens: the counts move by (-1, +1), at most sqrt 2 in L2 and 2 in L1, their maximum by at most 1. So noise
multipliers are sigma / sqrt 2, b / 2 and sigma_1.

**Noise.** Counts are integer numbers of grid steps of 2^-20 vote; noise is drawn as an integer number of steps by the keyed
samplers, :math:`\mathrm{round}(2^{20} \sigma Z)` or :math:`\mathrm{round}(2^{20} b L)`, and the answer is the class of the
largest sum, the first one in a tie. Rounding commutes with adding whole steps, so an answer is post-processing of the Gaussian or
Laplace mechanism on counts. A draw is within ``SAMPLER_TAU`` of its law (:mod:`sfumato.noise.keys`).

**Release order.** Queries are fixed by index before the first answer and answered in that order. A refused query has been
asked, and costs as much as the threshold does. Only answers leave: counts, noisy or not, do not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import check_int, check_real, fail
from sfumato.noise._laplace import rounded_laplace
from sfumato.noise.gaussian import rounded_gaussian
from sfumato.noise.keys import Key, derive_key, new_key, operand_mac
from sfumato.pate._data_dependent import GRID, Floats
from sfumato.pate._votes import Votes, check_votes
from sfumato.privacy.events import Event, GaussianEvent, LaplaceEvent

L2_SENSITIVITY = math.sqrt(2)  # of one query's counts
L1_SENSITIVITY = 2
MAX_SENSITIVITY = 1  # of their maximum
REFUSED = -1
_MOST_NOISE = 2.0**15  # votes; the samplers take 2^36 steps
_LEAST_NOISE = 2.0**-10


@dataclass(frozen=True, eq=False)
class Answers:
    """Answers are what leaves: a label for each query, ``REFUSED`` where there is none, in the order of the queries.

    ``asked`` queries were put to the teachers before the cap on answers was met. ``reinforced`` labels are the student's own,
    not the teachers'.

    ``labels`` holds the classes.

    >>> Answers(np.array([3, -1, -1]), asked=2).answered
    1
    """

    labels: NDArray[np.int64]
    asked: int
    reinforced: int = 0

    @property
    def answered(self) -> int:
        """Count the queries that the teachers answered."""
        return int((self.labels != REFUSED).sum()) - self.reinforced


@dataclass(frozen=True)
class LNMax:
    r"""LNMax answers with the class that has the most votes after Laplace noise of scale b on each count.

    With counts :math:`n_j` the answer is :math:`\arg\max_j (n_j + b L_j)`, where :math:`L_j` are independent Laplace variables
    of scale 1. Shapes: counts [queries, classes] to labels [queries].

    **Formal guarantee.** Each answer is a Laplace event of noise multiplier b / 2, that is pure :math:`\epsilon = 2 / b`.

    Args:
        scale: b in votes; more is more private. Papernot et al. 2017 write gamma = 1 / b.

    Source: Papernot et al. (2017), Semi-supervised Knowledge Transfer for Deep Learning from Private Training Data, equation 1.

    >>> LNMax(scale=20.0).events(100)
    (LaplaceEvent(noise_multiplier=10.0, count=100),)
    >>> LNMax(scale=0.1).aggregate(np.array([[9, 1], [2, 8]]), bytes(32)).labels.tolist()
    [0, 1]
    """

    scale: float
    name: ClassVar[str] = "lnmax"

    def __post_init__(self) -> None:
        _check_noise(scale=self.scale)

    def events(self, num_queries: int) -> tuple[Event, ...]:
        """Describe what ``num_queries`` answers cost, whatever the votes are."""
        return (LaplaceEvent(self.scale / L1_SENSITIVITY, num_queries),)

    def aggregate(self, votes: Votes, key: Key | None = None) -> Answers:
        """Release an answer to every query of ``votes`` [queries, classes]; a new key is drawn unless one is given."""
        votes = check_votes(votes)
        key = _release_key(key, self.name, votes)
        noise = rounded_laplace(key, self.scale / GRID, 0, votes.size)
        return Answers(_plurality(votes, noise), asked=len(votes))


@dataclass(frozen=True)
class GNMax:
    r"""GNMax answers with the class that has the most votes after Gaussian noise of deviation sigma on each count.

    With counts :math:`n_j` the answer is :math:`\arg\max_j (n_j + \sigma Z_j)`, where :math:`Z_j` are independent standard
    Gaussian variables. Shapes: counts [queries, classes] to labels [queries].

    **Formal guarantee.** Each answer is a Gaussian event of noise multiplier :math:`\sigma / \sqrt 2`, that is
    :math:`(\alpha, \alpha / \sigma^2)` Renyi private.

    Args:
        noise_stddev: sigma in votes.

    Source: Papernot et al. (2018), Scalable Private Learning with PATE, section 4.1 and proposition 8.

    >>> GNMax(noise_stddev=0.1).aggregate(np.array([[9, 1], [2, 8]]), bytes(32)).labels.tolist()
    [0, 1]
    """

    noise_stddev: float
    name: ClassVar[str] = "gnmax"

    def __post_init__(self) -> None:
        _check_noise(noise_stddev=self.noise_stddev)

    def events(self, num_queries: int) -> tuple[Event, ...]:
        """Describe what ``num_queries`` answers cost, whatever the votes are."""
        return (GaussianEvent(self.noise_stddev / L2_SENSITIVITY, num_queries),)

    def aggregate(self, votes: Votes, key: Key | None = None) -> Answers:
        """Release an answer to every query of ``votes`` [queries, classes]; a new key is drawn unless one is given."""
        votes = check_votes(votes)
        return Answers(_gaussian_plurality(votes, self.noise_stddev, _release_key(key, self.name, votes)), len(votes))


@dataclass(frozen=True)
class ConfidentGNMax:
    r"""Confident-GNMax answers queries whose largest count, with noise of its own, reaches a threshold; it refuses the others.

    A query passes if :math:`\max_j n_j + \sigma_1 Z \ge T`; the answer is then :math:`\arg\max_j (n_j + \sigma_2 Z_j)`. Shapes:
    counts [queries, classes] to labels [queries], ``REFUSED`` where there is none.

    **Formal guarantee.** Each query asked is a Gaussian event of noise multiplier :math:`\sigma_1`, each answer one of
    :math:`\sigma_2 / \sqrt 2` on top. Which queries are answered depends on earlier releases only, and at most
    ``max_answers`` are: a Gaussian composition bounded in advance (Smith and Thakurta 2022).

    Args:
        threshold: T in votes.
        threshold_stddev: sigma_1 in votes.
        noise_stddev: sigma_2 in votes.

    Source: Papernot et al. (2018), Scalable Private Learning with PATE, algorithm 1.

    Raises:
        InputError: a setting is out of range.

    >>> ConfidentGNMax(200.0, 150.0, 40.0).events(640, 286)[0]
    GaussianEvent(noise_multiplier=150.0, count=640)
    >>> ConfidentGNMax(7.0, 0.1, 0.1).aggregate(np.array([[9, 1], [6, 4], [1, 9]]), bytes(32)).labels.tolist()
    [0, -1, 1]
    """

    threshold: float
    threshold_stddev: float
    noise_stddev: float
    name: ClassVar[str] = "confident-gnmax"

    def __post_init__(self) -> None:
        check_real("It is a number of votes.", low=-_MOST_NOISE, high=2.0**40, threshold=self.threshold)
        _check_noise(threshold_stddev=self.threshold_stddev)
        _check_noise(noise_stddev=self.noise_stddev)

    def events(self, num_queries: int, max_answers: int | None = None) -> tuple[Event, ...]:
        """Describe what ``num_queries`` cost if at most ``max_answers`` (default: all) are answered, whatever the votes are.

        Raises:
            InputError: ``max_answers`` is below 1.
        """
        most = num_queries if max_answers is None else min(num_queries, check_int(low=1, max_answers=max_answers))
        return (
            GaussianEvent(self.threshold_stddev / MAX_SENSITIVITY, num_queries),
            GaussianEvent(self.noise_stddev / L2_SENSITIVITY, most),
        )

    def aggregate(self, votes: Votes, key: Key | None = None, *, max_answers: int | None = None) -> Answers:
        """Release answers to what passes, until ``max_answers`` are given; later queries are not asked.

        Args:
            votes: counts [queries, classes].
            key: the key of the noise; a new one is drawn unless one is given.
            max_answers: the public cap; None sets none.
        """
        votes = check_votes(votes)
        key = _release_key(key, self.name, votes)
        return self._answer(votes, on_grid(votes.max(axis=1)), key, max_answers)

    def _answer(self, votes: Votes, peaks: NDArray[np.int64], key: Key, max_answers: int | None) -> Answers:
        drawn = rounded_gaussian(derive_key(key, "threshold"), self.threshold_stddev / GRID, 0, len(votes))
        passed = peaks + drawn >= math.ceil(self.threshold / GRID)
        asked = len(votes)
        if max_answers is not None:
            given = passed.cumsum()
            asked = int(np.searchsorted(given, check_int(low=1, max_answers=max_answers))) + 1
            asked = min(asked, len(votes))
            passed[asked:] = False
        labels = _gaussian_plurality(votes, self.noise_stddev, derive_key(key, "answers"))
        return Answers(np.where(passed, labels, REFUSED), asked)


@dataclass(frozen=True)
class InteractiveGNMax(ConfidentGNMax):
    r"""Interactive GNMax answers what the student does not know yet: its threshold sees votes less its predictions.

    A query passes if :math:`\max_j (n_j - M p_j)` reaches the threshold, M teachers, p the student's probabilities. One that
    does not is labelled by the student itself where that is sure: such a label costs nothing beyond the threshold. Every query
    is asked, and charged for the threshold.

    **Formal guarantee.** As Confident-GNMax: M p is public, rounded to the grid, so the maximum moves by at most 1.

    Args:
        student_confidence: least probability at which the student's own label is taken.

    Source: Papernot et al. (2018), Scalable Private Learning with PATE, algorithm 2.

    Raises:
        InputError: a setting is out of range.

    >>> student = np.array([[0.1, 0.9], [0.0, 1.0]])
    >>> InteractiveGNMax(5.0, 0.1, 0.1).aggregate(np.array([[9, 1], [1, 9]]), bytes(32), student=student).labels.tolist()
    [0, 1]
    """

    student_confidence: float = 0.9
    name: ClassVar[str] = "interactive-gnmax"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_real(low=0, high=1, student_confidence=self.student_confidence)

    def aggregate(
        self,
        votes: Votes,
        key: Key | None = None,
        *,
        max_answers: int | None = None,
        student: Floats | None = None,
    ) -> Answers:
        """Release answers to what the student does not know and the teachers agree on.

        Args:
            votes: counts [queries, classes].
            key: the key of the noise; a new one is drawn unless one is given.
            max_answers: the public cap; None sets none.
            student: its probabilities [queries, classes].

        Raises:
            InputError: ``student`` holds no probabilities of the shape of ``votes``.
        """
        votes = check_votes(votes)
        student = check_student(student, votes)
        key = _release_key(key, self.name, votes, student)
        given = self._answer(votes, peaks_above(votes, student), key, max_answers)
        sure = (given.labels == REFUSED) & (student.max(axis=1) >= self.student_confidence)
        sure[given.asked :] = False
        return Answers(np.where(sure, student.argmax(axis=1), given.labels), given.asked, int(sure.sum()))


Mechanism = LNMax | GNMax | ConfidentGNMax


def on_grid(values: NDArray[np.generic]) -> NDArray[np.int64]:
    """Round ``values`` votes to the nearest integer numbers of grid steps."""
    return np.rint(np.asarray(values) / GRID).astype(np.int64)


def peaks_above(votes: Votes, student: Floats) -> NDArray[np.int64]:
    """Compute the largest count above what the student predicts already, in grid steps."""
    return np.asarray((on_grid(votes) - on_grid(votes[0].sum() * student)).max(axis=1))


def check_student(student: Floats | None, votes: Votes) -> Floats:
    """Return the student's probabilities, or say why they are none."""
    if student is None or np.shape(student) != votes.shape:
        shown = None if student is None else np.shape(student)
        raise fail(
            "student", shown, f"to hold probabilities of the shape {votes.shape} of votes", "Predict every query."
        )
    student = np.asarray(student, np.float64)
    if not (np.isfinite(student) & (student >= 0) & (student <= 1)).all():
        raise fail("student", (student.min(), student.max()), "to hold probabilities, 0 to 1", "Pass predict_proba's.")
    return student


def _check_noise(**kwargs: Any) -> None:
    check_real("It is counted in votes.", low=_LEAST_NOISE, high=_MOST_NOISE, **kwargs)


def _release_key(key: Key | None, name: str, *operand: NDArray[np.generic]) -> Key:
    key = new_key() if key is None else key
    return derive_key(key, "pate", name, operand_mac(key, *operand))


def _gaussian_plurality(votes: Votes, noise_stddev: float, key: Key) -> NDArray[np.int64]:
    return _plurality(votes, rounded_gaussian(key, noise_stddev / GRID, 0, votes.size))


def _plurality(votes: Votes, noise: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.asarray((on_grid(votes) + noise.reshape(votes.shape)).argmax(axis=1))
