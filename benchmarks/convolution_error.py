"""Error of one graph convolution of feature reports, measured beside its closed form: writes Markdown and SVG.

    python benchmarks/convolution_error.py --out docs/results [--datasets cora citeseer twitch] [--quick]

Every feature gets the whole epsilon (the published convention). The convolution is that of a GCN: symmetric, with
self-loops. Figures 2.1 to 2.5 of the thesis; one draw of all reports a setting.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sfumato.datasets._loading import load_dataset
from sfumato.experiments._pages import stamped
from sfumato.graph._graph import PublicFacts
from sfumato.local._collection import topology
from sfumato.local._heat import normalized_adjacency
from sfumato.noise.coins import SecretWords
from sfumato.randomizers._questions import Questions
from sfumato.report._drawing import MARKERS, PALETTE, Figure, canvas, finish, legend, style
from sfumato.report._markdown import to_markdown
from sfumato.report._page import Code, Page, Section, Table

if TYPE_CHECKING:
    import scipy.sparse as sp

    from sfumato.randomizers._randomizer import Randomizer

DATASETS = {"cora": "planetoid/cora", "citeseer": "planetoid/citeseer", "twitch": "musae/twitch_ENGB"}
MECHANISMS = {"Laplace": "laplace", "Piecewise": "piecewise", "PGC": "pgc"}
PRINTED_MEANS = {"cora": 0.013, "citeseer": 0.009, "twitch": 0.008}
CURVE = np.linspace(1, 5, 41)
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


def plot(
    name: str, title: str, words: str, axis: str, lines: dict[str, tuple[np.ndarray, np.ndarray]], *, unit: str,
    between: dict[str, tuple[np.ndarray, np.ndarray]] | None = None, log: bool = True,
) -> Figure:  # fmt: skip
    """Lines by name, on a logarithmic scale where wanted; ``between`` holds bands, least and largest, by name."""
    with style():
        figure, axes = canvas(3.6)
        handles = []
        for i, (label, (places, values)) in enumerate(lines.items()):
            marker = MARKERS[i] if len(places) < 12 else None
            dashes = ("-", (0, (5, 2)), (0, (1, 1.5)))[i % 3]
            handles += axes.plot(places, values, color=PALETTE[i], marker=marker, linestyle=dashes)
            if between and label in between:
                axes.fill_between(places, *between[label], color=PALETTE[i], alpha=0.2, linewidth=0)
        if log:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axes.yaxis.set_minor_formatter(lambda *_: "")
        axes.set_xlabel(axis)
        axes.set_ylabel(unit)
        legend(figure, handles, list(lines))
        return finish(figure, name, title, f"{title}. {words}")


def crossing(largest: dict[str, np.ndarray]) -> float:
    """The first epsilon of the curve from which Piecewise is no worse than PGC."""
    return float(CURVE[np.argmax(largest["Piecewise"] <= largest["PGC"])])


def variances(means: dict[str, float]) -> Iterator[Section]:
    ends, middle = ({label: curve(m, v) for label, m in MECHANISMS.items()} for v in (0.0, 0.5))
    bands = {label: (np.minimum(ends[label], middle[label]), np.maximum(ends[label], middle[label])) for label in ends}
    places = (0, 20, 40)

    def words(values: dict[str, np.ndarray]) -> str:
        each = (f"{label}: " + ", ".join(f"{v[i]:.3f}" for i in places) for label, v in values.items())
        return "At epsilon 1, 3, 5, " + "; ".join(each) + "."

    largest = {label: high for label, (_, high) in bands.items()}
    all_lines = {label: (CURVE, values) for label, values in largest.items()}
    rows = [
        (f"{e:g}", *(f"{bands[label][k][i]:.4f}" for label in MECHANISMS for k in (0, 1)), f"{printed_piecewise(0.5, e):.4f}",
         f"{printed_piecewise(0, e):.4f}")
        for i, e in ((0, 1.0), (10, 2.0), (20, 3.0), (40, 5.0))
    ]  # fmt: skip
    heads = [f"{label}, {word}" for label in MECHANISMS for word in ("least", "largest")]
    yield Section("bands", "Variance over the range (figure 2.1)", (
        "Least and largest variance of one feature in [0, 1]. PGC is best at the ends, Piecewise in the middle; Laplace "
        "does not depend on the value. Lines are the largest variance, bands reach down to the least. The source says that "
        f"Piecewise's largest is always the lowest; below epsilon {crossing(largest):.1f} PGC's is lower.",
        plot("local-errors-bands", "Variance of one feature against epsilon", words(largest), "epsilon of the feature",
             all_lines, unit="variance", between=bands),
        Table("bands", "Closed forms of the randomizers here; last columns: Piecewise as printed, equation 2.34",
              ("Epsilon", *heads, "printed, least", "printed, largest"), tuple(rows)),
    ))  # fmt: skip
    yield Section("ends", "Variance at the ends of the range (figure 2.4)", (
        "A feature of 0 or 1, as in a bag of words.",
        plot("local-errors-ends", "Variance of one feature at 0 or 1 against epsilon", words(ends), "epsilon of the feature",
             {label: (CURVE, values) for label, values in ends.items()}, unit="variance"),
    ))  # fmt: skip
    parts: list[Figure] = []
    table: list[tuple[str, ...]] = []
    for key, mean in means.items():
        at_mean = {label: curve(m, mean) for label, m in MECHANISMS.items()}
        title = f"Variance at the mean feature of {key} against epsilon"
        lines = {label: (CURVE, values) for label, values in at_mean.items()}
        parts.append(plot(f"local-errors-mean-{key}", title, words(at_mean), "epsilon of the feature", lines,
                          unit="variance"))  # fmt: skip
        table += [(key, f"{mean:.4f}", f"{PRINTED_MEANS[key]:g}", label, *(f"{v[i]:.4f}" for i in places))
                  for label, v in at_mean.items()]  # fmt: skip
    yield Section("means", "Variance at the mean feature of each data set (figure 2.5)", (
        *parts,
        Table("means", "Mean feature, ours and printed (table 2.4), and the variance there",
              ("Data set", "Mean", "Printed", "Mechanism", "Epsilon 1", "Epsilon 3", "Epsilon 5"), tuple(table),
              text=("Mechanism",)),
    ))  # fmt: skip


def errors(
    key: str, name: str, x: sp.csr_matrix, step: sp.csr_matrix, degree: np.ndarray, epsilons: list[float]
) -> Section:
    found = {label: {e: measure(x, step, m, e) for e in epsilons} for label, m in MECHANISMS.items()}
    places = np.array(epsilons)
    overall = {label: (places, np.array([by[e].mean for e in epsilons])) for label, by in found.items()}
    cut = int(np.quantile(degree, 0.99))
    degrees = np.array([k for k in range(1, cut + 1) if (degree == k).any()])
    by_degree = {
        label: (degrees, np.array([by[1.0].by_node[degree == k].mean() for k in degrees]))
        for label, by in found.items()
    }

    def words(lines: dict[str, tuple[np.ndarray, np.ndarray]], what: str) -> str:
        each = (
            f"{label}: {at[0]:g} gives {v[0]:.4f}, {at[-1]:g} gives {v[-1]:.4f}" for label, (at, v) in lines.items()
        )
        return f"By {what}, " + "; ".join(each) + "."

    rows = [(f"{e:g}", f"{e * x.shape[1]:g}", label, f"{by[e].mean:.4f}", f"{by[e].rms:.4f}", f"{by[e].expected:.4f}")
            for e in epsilons for label, by in found.items()]  # fmt: skip
    return Section(f"error-{key}", f"{name} (figures 2.2 and 2.3)", (
        "Degrees are shown up to their 99 % quantile.",
        plot(f"local-errors-epsilon-{key}", f"Mean absolute error of the convolution against epsilon on {key}",
             words(overall, "epsilon"), "epsilon of each feature", overall, unit="mean absolute error"),
        plot(f"local-errors-degree-{key}", f"Mean absolute error at epsilon 1 against degree on {key}",
             words(by_degree, "degree"), "degree", by_degree, unit="mean absolute error", log=False),
        Table(key, "Error of an entry of the convolution; the closed form is the root of its mean variance",
              ("Epsilon a feature", "Epsilon a user", "Mechanism", "Mean absolute", "Root mean square", "Closed form"),
              tuple(rows), text=("Mechanism",)),
    ))  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", choices=tuple(DATASETS), default=list(DATASETS))
    parser.add_argument(
        "--epsilons", nargs="+", type=float, default=[1.0, 3.0, 5.0, 7.0, 9.0], help="1 is always measured"
    )
    parser.add_argument("--quick", action="store_true", help="Cora at epsilon 1 and 5")
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    parser.add_argument("--data-dir", default=os.environ.get("SFUMATO_DATA", "../shared/data"))
    options = parser.parse_args()
    if options.quick:
        options.datasets, options.epsilons = ["cora"], [1.0, 5.0]
    means, sections = {}, []
    for key in options.datasets:
        graph = load_dataset(DATASETS[key], data_dir=options.data_dir)
        x = graph.x[:, np.flatnonzero(graph.x.getnnz(axis=0))].tocsr()
        arcs = topology(graph)
        means[key] = float(x.mean(dtype=np.float64))
        degree, epsilons = np.diff(arcs.indptr), sorted({1.0, *options.epsilons})
        sections.append(errors(key, DATASETS[key], x, normalized_adjacency(arcs), degree, epsilons))
    page = Page(
        "Errors of a graph convolution of feature reports",
        "S. Sajadmanesh (2023), Privacy-Preserving Machine Learning on Graphs, EPFL thesis, chapter 2, figures 2.1 to 2.5: "
        "closed forms and measurements of Laplace, Piecewise and PGC. Epsilon is spent on every single feature, so a user "
        "with d features spends d times as much; features are 0 or 1, the public range; columns that no node uses are left "
        "out. Errors read true features: they are evaluation by whoever holds the data, outside every guarantee.",
        (*variances(means), *sections, Section("again", "Run it again", (
            Code("python benchmarks/convolution_error.py --out docs/results"),))),
    )  # fmt: skip
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "local-errors.md").write_text(stamped(to_markdown(page), [1]))
    for figure in page.figures():
        (options.out / f"{figure.name}.svg").write_text(figure.alone())


if __name__ == "__main__":
    main()
