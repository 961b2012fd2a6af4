"""Error of one graph convolution of feature reports, measured beside its closed form: prints Markdown.

    python benchmarks/convolution_error.py [--datasets cora citeseer twitch] [--epsilons 1 3 5 7 9]

Every feature gets the whole epsilon (the published convention). The convolution is that of a GCN: symmetric, with
self-loops. Figures 2.1 to 2.5 of the thesis; one draw of all reports a setting.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import study

from sfumato.graph._graph import PublicFacts
from sfumato.local._collection import topology
from sfumato.local._heat import normalized_adjacency
from sfumato.noise.coins import SecretWords
from sfumato.randomizers._questions import Questions

if TYPE_CHECKING:
    import scipy.sparse as sp

    from sfumato.randomizers._randomizer import Randomizer

DATASETS = {"cora": "planetoid/cora", "citeseer": "planetoid/citeseer", "twitch": "musae/twitch_ENGB"}
PRINTED_MEANS = {"cora": 0.013, "citeseer": 0.009, "twitch": 0.008}
MECHANISMS = {"Laplace": "laplace", "Piecewise": "piecewise", "PGC": "pgc"}
CURVE = np.linspace(1, 5, 41)
PLACES = (0, 10, 20, 40)  # epsilon 1, 2, 3 and 5
_BLOCK = 256


@dataclass(frozen=True)
class Measured:
    """Errors at one epsilon: mean absolute error of every node [n], and root mean square, measured and expected."""

    by_node: np.ndarray
    rms: float
    expected: float

    @property
    def mean(self) -> float:
        return float(self.by_node.mean())


def randomizer(mechanism: str, epsilon: float, width: int = 1) -> Randomizer:
    found = Questions(epsilon, None, mechanism=mechanism, per_feature=True).features(PublicFacts(1, 0, width, 0, False))
    assert found is not None
    return found


def measure(x: sp.csr_matrix, step: sp.csr_matrix, mechanism: str, epsilon: float) -> Measured:
    """Ask every user about every feature, a block of columns at a time, and convolve what comes back."""
    n, d = x.shape
    source, squared = SecretWords(), step.multiply(step).tocsr()
    absolute, square, expected = np.zeros(n), 0.0, 0.0
    weight = np.asarray(squared.sum(axis=0)).ravel()  # of the variance at each node, over all that listen to it
    for first in range(0, d, _BLOCK):
        block = x[:, first : first + _BLOCK].toarray()
        asked = randomizer(mechanism, epsilon, block.shape[1])
        error = step @ (asked.estimate(asked.encode(block, source)).toarray() - block)
        absolute += np.abs(error).sum(axis=1)
        square += float((error**2).sum())
        expected += float((weight @ np.broadcast_to(asked.variance(block), block.shape)).sum())
    return Measured(absolute / d, math.sqrt(square / (n * d)), math.sqrt(expected / (n * d)))


def curve(mechanism: str, value: float) -> np.ndarray:
    """Variance at one value against epsilon, of the randomizers that run here."""
    at = np.full((1, 1), value)
    return np.array([float(np.ravel(randomizer(mechanism, float(e)).variance(at))[0]) for e in CURVE])


def printed_piecewise(value: float, epsilon: float) -> float:
    """Equation 2.34, with low 0 and high 1."""
    gap = math.expm1(epsilon / 2)
    return (value - 0.5) ** 2 / gap + (gap + 4) / (3 * gap**2) / 4


def crossing(largest: dict[str, np.ndarray]) -> float:
    """The first epsilon of the curve from which Piecewise is no worse than PGC."""
    return float(CURVE[np.argmax(largest["Piecewise"] <= largest["PGC"])])


def main() -> None:
    """Print the closed forms, and what was measured on each data set."""
    given = study.options(__doc__, datasets=DATASETS, epsilons=(1.0, 3.0, 5.0, 7.0, 9.0))
    ends, middle = ({label: curve(m, v) for label, m in MECHANISMS.items()} for v in (0.0, 0.5))
    rows = []
    for i in PLACES:
        both = [(min(ends[one][i], middle[one][i]), max(ends[one][i], middle[one][i])) for one in MECHANISMS]
        known = (printed_piecewise(v, CURVE[i]) for v in (0.5, 0))
        rows.append((f"{CURVE[i]:g}", *(f"{v:.4f}" for pair in both for v in pair), *(f"{v:.4f}" for v in known)))
    heads = [f"{label}, {word}" for label in MECHANISMS for word in ("least", "largest")]
    title = "### Variance over the range (figures 2.1 and 2.4); last: Piecewise as published, equation 2.34"
    study.table(("Epsilon", *heads, "published, least", "published, largest"), rows, title)
    means, tables = [], []
    for key in given.datasets:
        graph = study.graph_of(DATASETS[key], given.data_dir)
        x = graph.x[:, np.flatnonzero(graph.x.getnnz(axis=0))].tocsr()
        mean = float(x.mean(dtype=np.float64))
        for label, mechanism in MECHANISMS.items():
            at = curve(mechanism, mean)[[0, 20, 40]]
            means.append((key, f"{mean:.4f}", f"{PRINTED_MEANS[key]:g}", label, *(f"{v:.4f}" for v in at)))
        tables.append((key, x, topology(graph)))
    columns = ("Data set", "Mean", "Published", "Mechanism", "Epsilon 1", "Epsilon 3", "Epsilon 5")
    study.table(columns, means, "### Variance at the mean feature of each data set (figure 2.5, table 2.4)")
    for key, x, arcs in tables:
        errors(key, x, arcs, sorted({1.0, *given.epsilons}))


def errors(key: str, x: sp.csr_matrix, arcs: sp.csr_matrix, epsilons: list[float]) -> None:
    """Errors by epsilon, and at epsilon 1 by degree (figures 2.2 and 2.3)."""
    step, degree, lines = normalized_adjacency(arcs), np.diff(arcs.indptr), []
    found = {label: {e: measure(x, step, m, e) for e in epsilons} for label, m in MECHANISMS.items()}
    for e in epsilons:
        for label, by in found.items():
            told = (f"{one:.4f}" for one in (by[e].mean, by[e].rms, by[e].expected))
            lines.append((f"{e:g}", f"{e * x.shape[1]:g}", label, *told))
    columns = ("Epsilon a feature", "Epsilon a user", "Mechanism", "Mean absolute", "Root mean square", "Closed form")
    study.table(columns, lines, f"### {DATASETS[key]}")
    degrees = [k for k in range(1, int(np.quantile(degree, 0.99)) + 1) if (degree == k).any()]
    rows = ((label, *(f"{by[1.0].by_node[degree == k].mean():.4f}" for k in degrees)) for label, by in found.items())
    study.table(("By degree, epsilon 1", *degrees), rows)


if __name__ == "__main__":
    main()
