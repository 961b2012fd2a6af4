"""What the verifier knows of methods under unit servers: two servers open noisy counts of public cells."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ._kinds import Planned, Reports, Values, type_faults

if TYPE_CHECKING:
    from ._rules import Certificate, Known
    from ._tensors import Stored

COUNTS = "cell-counts"
LEAST_EPSILON, SIZE = 1e-3, 32
_UNLIKELY = 36.0  # an honest column is refused with a chance of at most e to minus this
_LARGEST = 1 << 31


@dataclass(frozen=True)
class Opened(Reports):
    """A row for each node: the number of its cell, or -1, and what was opened of that cell, one count a class.

    ``epsilon`` is that of each server's noise. In a run on what real servers opened (``collected``) they agreed on the cells, and
    some users may not have answered.
    """

    epsilon: float
    collected: bool = False

    def value_faults(self, stored: Mapping[str, Stored]) -> Iterator[str]:
        found = stored[self.name]
        if found.dtype != "I64":
            yield from type_faults(self.name, found, "I64")
            return
        rows = found.array()
        cells, counts = rows[:, 0], rows[:, 1:]
        if np.abs(counts, dtype=np.float64).max(initial=0.0) >= _LARGEST:
            yield f"{self.name}: holds counts beyond 2^31"
            return
        most = int(cells.max(initial=-1))
        if cells.min(initial=0) < -1 or most >= len(rows) or most < 0:
            yield f"{self.name}: expected cells that are numbered from 0, and -1 for nodes that are not asked"
            return
        inside = cells >= 0
        users = np.bincount(cells[inside], minlength=most + 1)
        first = np.zeros((most + 1, counts.shape[1]), counts.dtype)
        first[cells[inside]] = counts[inside]
        if not users.all():
            yield f"{self.name}: holds a cell without users"
        if (first[cells[inside]] != counts[inside]).any():
            yield f"{self.name}: holds different counts for users of one cell"
        counted = first.sum(axis=1)
        if (counted != users).any() and not (self.collected and (counted >= 0).all() and (counted <= users).all()):
            yield f"{self.name}: holds counts that do not sum to the users of their cell"
        if len(users) and (inside.sum() < 2 or users.max() > self._most()):
            yield f"{self.name}: expected at least 2 users, and at most 32 / epsilon in a cell"
        elif self.epsilon >= LEAST_EPSILON:
            heard = counted > 0  # a cell without reports holds no noise
            yield from self._small((first - np.rint(counted / counts.shape[1])[:, None])[heard])
        if counts[~inside].any():
            yield f"{self.name}: holds counts for nodes that are not asked"

    def _most(self) -> float:
        """The most users of a cell."""
        return math.inf if self.collected else max(1, round(SIZE / self.epsilon))

    def _small(self, values: NDArray[np.float64]) -> Iterator[str]:
        """Yield a problem if the numbers of a class are smaller than noise of both servers alone makes them (``_noise.py``)."""
        mean, square = moments(2 / self.epsilon, values.shape[1])
        cells = len(values)
        least = cells * mean - math.sqrt(2 * cells * _UNLIKELY * square) - cells / 2
        if (np.abs(values).sum(axis=0) < least).any():
            yield f"{self.name}: holds less noise than was charged: that of both servers would be about {mean:.3g} in size"


def moments(scale: float, columns: int) -> tuple[float, float]:
    """Return the means of |Z| and Z^2, for one entry of the noise of two servers that sums to zero, from exact laws.

    >>> mean, square = moments(4.0, 2)
    >>> round(square, 2)
    15.67
    """
    size = 1 << math.ceil(math.log2(64 * scale * math.sqrt(columns) + 64))
    p, angle = math.exp(-1 / scale), 2 * np.pi * np.arange(size) / size
    one = (1 - p) ** 2 / (1 - 2 * p * np.cos(angle) + p * p)
    rest = np.fft.ifft(one ** (columns - 1)).real  # of the sum of the other entries, and of one
    law = np.maximum(np.fft.ifft(one).real, 0) * np.maximum(rest, 0)
    law = np.fft.ifft(np.fft.fft(law / law.sum()) ** 2).real
    at = np.abs(np.fft.fftfreq(size, 1 / size))
    return float((law * at).sum()), float((law * at * at).sum())


def _faults(known: Known) -> Iterator[str]:
    if known.unit["name"] != "none" and (delta := known.certificate["claim"]["delta"]) != 0:
        yield f"certificate.json: claim.delta: expected 0, got {delta}"
    if known.epsilon_y < LEAST_EPSILON:
        yield f"certificate.json: settings.epsilon_y: expected at least {LEAST_EPSILON:g}, got {known.epsilon_y:g}"


def _faults_of_counts(certificate: Certificate, where: str, release: Values) -> Iterator[str]:
    """Yield what is wrong with opened counts: each user is in one cell, so that all together cost the epsilon asked for."""
    event, facts, asked = release["event"], certificate["public_facts"], certificate["settings"]["epsilon_y"]
    expected = [facts["num_nodes"], 1 + facts["num_classes"]]
    if release["shape"] != expected:
        yield f"{where}shape: expected {expected}, a cell and {facts['num_classes']} counts a node, got {release['shape'][:4]}"
    if release["affected_coordinates"] != 0:
        yield f"{where}affected_coordinates: expected 0, got {release['affected_coordinates']}"
    if event["type"] != "pure" or event["count"] != 1:
        yield f"{where}event: expected one report of type pure"
    elif event["epsilon"] != asked:
        yield f"{where}event.epsilon: expected {asked:.9g}, as the settings ask, got {event['epsilon']:.9g}"


def _releases(known: Known) -> list[Planned]:
    shape = [known.num_nodes, 1 + known.num_classes]
    check = partial(_faults_of_counts, known.certificate)
    collected = "collection" in known.certificate
    return [Opened(COUNTS, shape, 0, check, _integers, max(float(known.epsilon_y), 1e-9), collected)]


SEEN = {"anyone": ["opened counts", "weights", "predictions for all nodes"], "the node itself": [], "never": []}


def _integers(_: int) -> Any:
    return "I64", 0, (0, 0), (0, 0)


RULES: dict[str, Any] = {
    "settings": {"epsilon_y": "positive up to 100"}, "audience": {"servers": SEEN}, "faults": _faults, "releases": _releases,
    "tensors": lambda known, _: {"probabilities": [known.num_nodes, known.num_classes]},
}  # fmt: skip
