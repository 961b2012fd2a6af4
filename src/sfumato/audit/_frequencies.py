"""Audits of mechanisms that run in a moment, from the frequencies of what they release on two neighboring inputs.

The mechanism runs thousands of times on either input. The outcomes of every second run teach a score, and which of its
thresholds is best; the bound comes from the runs between, on which nothing was chosen. So it holds for whatever score was
learned, whatever the mechanism does:

* Outcomes of few kinds are scored by the logarithm of their ratio of frequencies, with half a run added to each count.
* Reports of many kinds, or those that answer a public hash or direction of their user, are scored by how far their
  estimate leans to the first input: the log-likelihood ratio, up to a monotone map, of randomizers whose bits or cells
  are drawn alike for all columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from sfumato._validate import check_int, fail
from sfumato.audit._evidence import CONFIDENCE
from sfumato.audit._thresholds import Split, audit_runs
from sfumato.noise._geometric import replaced_scale, zero_sum_laplace
from sfumato.noise.coins import SecretWords
from sfumato.randomizers import Collision, Direction, NeighborLists, PrivUnit, Sketch
from sfumato.randomizers._randomized_response import Labels
from sfumato.randomizers._randomizer import Randomizer, Ranged, Reports

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.audit._evidence import Evidence

    Floats = NDArray[np.float64]

_RUNS_OF_A_KIND = 500  # on average; with fewer, the frequency of a kind is not known
_MOST_LINKS = 2000  # neighbor lists encoded at once: each has a bit for every other
_KNOWLEDGE = "both inputs and all outputs"


def farthest(randomizer: Randomizer) -> tuple[Any, Any]:
    """Return two allowed values that a randomizer finds hardest to hide.

    They are the ends of all ranges, two classes, disjoint sets of the largest size, or opposite vectors of the largest
    norm. Each attains the worst ratio of the randomizer's proof, in every report or up to rounding.
    """
    match randomizer:
        case Labels():
            return 0, randomizer.num_classes - 1
        case Ranged():
            return randomizer.start + randomizer.width, randomizer.start
        case Collision():
            place = np.arange(randomizer.num_features)
            first, second = place < randomizer.cap, (place >= randomizer.cap) & (place < 2 * randomizer.cap)
            return first.astype(float), second.astype(float)
        case Direction() | PrivUnit():
            vector = np.full(randomizer.num_features, randomizer.norm / randomizer.num_features**0.5)
            return vector, -vector
        case Sketch():
            vector = np.ones(randomizer.num_features)
            return vector, -vector
    raise fail("randomizer", type(randomizer).__name__, "to be of a known kind", "Pass the values to compare.")


def audit_randomizer(
    randomizer: Randomizer | NeighborLists,
    values: tuple[Any, Any] | None = None,
    *,
    runs: int = 20_000,
    confidence: float = CONFIDENCE,
    source: SecretWords | None = None,
) -> Evidence:
    """Return the epsilon that reports of many users rule out, half of whom hold one value and half another.

    **Formal guarantee.** Unit: the value of one user (one bit of one neighbor list for ``NeighborLists``). If the
    randomizer is (epsilon, delta)-LDP at its own delta, the bound exceeds epsilon with probability at most
    1 - ``confidence``. To be compared with ``total_epsilon``, or with ``realized_epsilon`` for neighbor lists.

    Source: the two-sample form of Ding et al. 2018, section 4, with exact bounds in place of tests.
    """
    runs, source = check_int(low=2, runs=runs), source or SecretWords()
    if isinstance(randomizer, NeighborLists):
        name, delta = "neighbor lists, one link", 0.0
        members, others = (_links(randomizer, linked, runs, source) for linked in (True, False))
    else:
        name, delta = f"{type(randomizer).__name__}, farthest values", randomizer.delta
        first, second = farthest(randomizer) if values is None else values
        ids = np.arange(2 * runs)
        reports = [
            randomizer.encode(np.broadcast_to(value, (runs, *np.shape(value))), source, part)
            for value, part in zip((first, second), (ids[:runs], ids[runs:]), strict=True)
        ]
        members, others = _scores(randomizer, reports, first, second)
    return audit_runs(
        members, others, name=name, knowledge=_KNOWLEDGE, delta=delta, confidence=confidence, policy=Split()
    )


def audit_counts(epsilon: float, num_classes: int, *, runs: int = 20_000, confidence: float = CONFIDENCE) -> Evidence:
    """Return the epsilon that one server's noisy counts of a cell of one user rule out, half of whom have another class.

    It is what the other server sees of an honest one if it knows everybody else of a cell. **Formal guarantee.** As for
    :func:`audit_randomizer`, about the label of one user.
    """
    check_int(low=2, runs=runs)
    source, sides = SecretWords(), []
    unit = np.eye(num_classes, dtype=np.int64)
    for own in (0, 1):
        seen = unit[own] + zero_sum_laplace(source, replaced_scale(epsilon), runs, num_classes)
        away = [np.abs(seen - unit[other]).sum(axis=1) for other in (0, 1)]
        sides.append((away[1] - away[0]).astype(np.float64))
    return audit_runs(
        *sides,
        name="noise of one server, one cell",
        knowledge=_KNOWLEDGE,
        delta=0.0,
        confidence=confidence,
        policy=Split(),
    )


def log_ratios(first: NDArray[Any], second: NDArray[Any], block: int = 1) -> tuple[Floats, Floats]:
    """Score outcomes by the log-ratio of their frequencies in every second run, the first run included."""
    _, kinds = np.unique(np.concatenate([first, second]), axis=0, return_inverse=True)
    sides = np.split(kinds.ravel(), [len(first)])
    seen = [
        np.bincount(side[np.arange(len(side)) // block % 2 == 0], minlength=kinds.max() + 1) + 0.5 for side in sides
    ]
    ratio = np.log(seen[0] / seen[1])
    return ratio[sides[0]], ratio[sides[1]]


def _scores(randomizer: Randomizer, reports: list[Reports], first: Any, second: Any) -> tuple[Floats, Floats]:
    rows = [
        side.values if side.indices is None else np.concatenate([side.indices, side.values], axis=1) for side in reports
    ]
    if reports[0].users is None:
        kinds = len(np.unique(np.concatenate([side[::2] for side in rows]), axis=0))
        if kinds * _RUNS_OF_A_KIND <= len(rows[0]):
            return log_ratios(rows[0], rows[1])
    if isinstance(randomizer, Labels):
        first, second = np.eye(randomizer.num_classes)[[first, second]]
    elif isinstance(randomizer, Sketch):
        first, second = randomizer.project(np.stack([first, second]))
    lean = np.asarray(first, float) - second
    members, others = (np.round(randomizer.estimate(side).sparse @ lean, 9) for side in reports)
    return members, others


def _links(randomizer: NeighborLists, linked: bool, runs: int, source: SecretWords) -> Floats:
    """Score what each user says about the next one: the bit, and among equal bits the degree."""
    found = []
    for start in range(0, runs, _MOST_LINKS):
        users = np.arange(max(2, min(_MOST_LINKS, runs - start)))
        pairs = users, np.roll(users, -1)
        lists = sparse.csr_matrix((np.full(len(users), float(linked)), pairs), (len(users), len(users)))
        reports = randomizer.encode(lists, source)
        found.append(4.0 * len(users) * reports.ones(np.stack(pairs, axis=1)) + reports.degrees)
    return np.concatenate(found)[:runs]
