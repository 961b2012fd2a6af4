"""What an attacker learns, unit by unit: attacks on models with and without privacy; writes a page and a figure for each unit.

    OMP_NUM_THREADS=1 python benchmarks/attacker.py [--seeds 3] [--log FILE] [--out docs/results] [--data-dir DIR]

Edges: links of planetoid/cora from predictions. Nodes and records: whether a node of planetoid/cora, or a face of orl_faces (28 x
24 pixels), was in training. Local reports: what the outputs of a randomizer prove of its budget, by 20,000 users a side. Every
model is the method with its defaults and secret noise; seeds choose splits, initial weights and candidates. Figures are of seed
0. Nothing was tuned here.
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato._threads import set_threads
from sfumato.attacks._listing import attack_named
from sfumato.audit._frequencies import audit_randomizer
from sfumato.catalog import method_named
from sfumato.evaluation._source import Source
from sfumato.experiments._pages import stamped
from sfumato.privacy.budget import Budget
from sfumato.privacy.units import EdgeLevel, NodeLevel, NoPrivacy, RecordLevel
from sfumato.randomizers._randomized_response import RandomizedResponse
from sfumato.report._evidence import curves_figure, rates
from sfumato.report._markdown import to_markdown
from sfumato.report._page import Code, Items, Page, Section, Table

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph
    from sfumato.privacy.units import Unit

CORA, FACES, DELTA = "planetoid/cora", "orl_faces", 1e-5
NONE, EDGE, NODE, RECORD = NoPrivacy(), EdgeLevel(directed=False), NodeLevel(max_out_degree=100), RecordLevel()
FINDINGS = {
    "edge": (
        "Without privacy, predictions give links away: an AUC of 0.92 for gap, where features alone reach 0.81.",
        "At epsilon 1 gap tells no more of links than features do. label-messages still does: it is the better model, and a "
        "better model says more exactly which nodes are alike. Linked nodes are alike in this graph.",
        "Edge-level privacy bounds what *one* edge adds. It does not hide that alike nodes tend to be linked.",
    ),
    "node": (
        "Without privacy an MLP shows who was in training (AUC 0.74). At epsilon 8 little of it is left, and at epsilon 1 next "
        "to nothing; the price is accuracy. gap without privacy shows less, since its rows are means over neighbors.",
        "None of these attacks finds single nodes with certainty: at 1 % false positives they find about as many as a guess. "
        "Attacks with shadow models find more of them (results/membership.md).",
    ),
    "record": (
        "Faces: without privacy the model shows who was in training (AUC 0.90); under privacy this attack finds no more than "
        "an attacker without the model. But with 7 images of each of 40 people the private models have learned next to "
        "nothing: so small a data set is protected at the price of its use.",
    ),
}
TITLES = {"edge": "One edge", "node": "One node", "record": "One record"}


@dataclass(frozen=True)
class Cell:
    """One attack on one model, under the heading of a unit."""

    heading: str
    attack: str
    method: str
    dataset: str
    unit: Unit
    epsilon: float | None = None

    @property
    def label(self) -> str:
        """Its name in tables and figures."""
        return (
            f"{self.attack} on {self.method}, {'no privacy' if self.epsilon is None else f'epsilon {self.epsilon:g}'}"
        )


def cells() -> list[Cell]:
    """All attacks."""
    made = []
    for method in ("gap", "label-messages"):
        for unit, epsilon in ((NONE, None), (EDGE, 8.0), (EDGE, 1.0)):
            made.append(Cell("edge", "links", method, CORA, unit, epsilon))
    for method in ("mlp", "gap"):
        for unit, epsilon in ((NONE, None), (NODE, 8.0), (NODE, 1.0)):
            made.append(Cell("node", "membership-confidence", method, CORA, unit, epsilon))
    for unit, epsilon in ((NONE, None), (RECORD, 8.0), (RECORD, 1.0)):
        made.append(Cell("record", "membership-confidence", "mlp", FACES, unit, epsilon))
    return made


@cache
def graph_of(dataset: str, data_dir: str, seed: int) -> Graph:
    """A data set with the split of a seed."""
    size = "24x28" if dataset == FACES else None
    source = Source(dataset, data_dir, image_size=size, split="public" if dataset == FACES else "75/10/15").check()
    return source.with_roles(source.load(), seed)


def run(cell: Cell, seed: int, data_dir: str) -> dict[str, Any]:
    """Fit the model, attack it, and return what the page needs."""
    graph = graph_of(cell.dataset, data_dir, seed)
    budget = None if cell.epsilon is None else Budget(cell.epsilon, DELTA)
    fitted = method_named(cell.method).calibrate(budget, cell.unit, graph.public_facts(cell.unit)).fit(graph, seed=seed)
    found = attack_named(cell.attack).run(fitted, graph, seed=seed)
    right = (fitted.predict(graph) == graph.y)[graph.test_mask & (graph.y >= 0)].mean()
    return {**found.to_dict(), "attack": cell.label, "curve": rates(found.scores), "accuracy": float(right)}


def main() -> None:
    """Run every cell, seed by seed, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--log", type=Path, help="keeps what was found; nothing in it is run again")
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    parser.add_argument("--data-dir", default=os.environ.get("SFUMATO_DATA", "../shared/data"))
    options = parser.parse_args()
    set_threads(None)
    lines = options.log.read_text().splitlines() if options.log and options.log.exists() else ()
    found = {(one["attack"], one["seed"]): one for one in map(json.loads, lines)}
    for seed in range(options.seeds):
        for cell in cells():
            if (cell.label + cell.dataset, seed) in found:
                continue
            one = run(cell, seed, options.data_dir) | {"seed": seed, "attack": cell.label + cell.dataset}
            print(
                f"{cell.label}, seed {seed}: AUC {one['auc']:.3f}, without the model {one['baseline']:.3f}", flush=True
            )
            found[one["attack"], seed] = one
            if options.log:
                with options.log.open("a") as file:
                    file.write(json.dumps(one) + "\n")
    write(options.out, found, options.seeds)


def write(out: Path, found: dict[tuple[str, int], dict[str, Any]], seeds: int) -> None:
    """Write the page and its figures."""
    sections = []
    for key, title in TITLES.items():
        rows, shown = [], []
        for cell in (one for one in cells() if one.heading == key):
            runs = [found[cell.label + cell.dataset, seed] for seed in range(seeds)]
            columns = (("auc", 1), ("baseline", 1), ("tpr_at_1pct_fpr", 100), ("accuracy", 100))
            rows.append((cell.label, *(middle([one[name] for one in runs], scale) for name, scale in columns)))
            shown.append({**runs[0], "attack": cell.label})
        figure = curves_figure(shown, f"attacker-{key}")
        (out / f"{figure.name}.svg").write_text(figure.alone())
        heads = ("attack and model", "AUC", "AUC without the model", "found at 1 % FPR, %", "test accuracy, %")
        caption = f"Means and ranges over {seeds} seeds, {'ORL faces' if key == 'record' else 'Cora'}"
        sections.append(Section(key, title, (Items(FINDINGS[key]), Table(key, caption, heads, tuple(rows)), figure)))
    sections.append(Section("local", "One user's report", (local(),)))
    sections.append(Section("again", "Run it again", (Code(f"python benchmarks/attacker.py --seeds {seeds}"),)))
    lead = (
        "Attacks on models with and without privacy, beside what the same attacker knows without the model. One edge is "
        "undirected, one node has its owned arcs (at most 100); delta is 1e-5."
    )
    page = Page("What an attacker learns: figures", lead, tuple(sections))
    (out / "attacker.md").write_text(stamped(to_markdown(page), [seeds]))


def middle(values: list[float], scale: float) -> str:
    """Mean and range."""
    scaled = scale * np.array(values)
    digits = 1 if scale > 1 else 3
    return f"{scaled.mean():.{digits}f} ({scaled.min():.{digits}f} to {scaled.max():.{digits}f})"


def local() -> Table:
    """Bounds that the outputs of randomized response prove, beside its budget."""
    rows = []
    for epsilon in (0.5, 1.0, 2.0, 4.0):
        bound = audit_randomizer(RandomizedResponse(7, epsilon)).epsilon_lower_bound
        rows.append((f"{epsilon:g}", f"{bound:.3f}", f"{100 * bound / epsilon:.0f} %"))
    caption = "Randomized response over 7 classes, 20,000 reports of each of two values, confidence 99.9 %"
    return Table("local", caption, ("claimed epsilon", "certified lower bound", "share"), tuple(rows))


if __name__ == "__main__":
    main()
