"""What an attacker learns, unit by unit: attacks on models with and without privacy; prints tables.

    OMP_NUM_THREADS=1 python benchmarks/attacker.py [--seeds 3] [--log FILE] [--pictures docs/results] [--data-dir DIR]

Edges: links of planetoid/cora from predictions. Nodes and records: whether a node of planetoid/cora, or a face of orl_faces (28 x
24 pixels), was in training. Local reports: what the outputs of a randomizer prove of its budget, by 20,000 users a side. Every
model is the method with its defaults and secret noise; seeds choose splits, initial weights and candidates. Figures are of seed
0. Nothing was tuned here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import study

from sfumato._threads import set_threads
from sfumato.attacks._listing import ATTACKS
from sfumato.audit._frequencies import audit_randomizer
from sfumato.evaluation._source import Source
from sfumato.privacy.budget import Budget
from sfumato.privacy.units import EdgeLevel, NodeLevel, NoPrivacy, RecordLevel
from sfumato.randomizers._randomized_response import RandomizedResponse
from sfumato.report._evidence import curves_figure, rates

if TYPE_CHECKING:
    from sfumato.privacy.units import Unit

CORA, FACES, DELTA = "planetoid/cora", "orl_faces", 1e-5
NONE, EDGE, NODE, RECORD = NoPrivacy(), EdgeLevel(directed=False), NodeLevel(max_out_degree=100), RecordLevel()


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


def run(heading: str, label: str, seed: int, data_dir: str) -> dict[str, Any]:
    """Fit the model, attack it, and return what tables and figures need."""
    cell = next(one for one in cells() if (one.heading, one.label) == (heading, label))
    faces = cell.dataset == FACES
    source = Source(
        cell.dataset, data_dir, image_size="24x28" if faces else None, split="public" if faces else "75/10/15"
    )
    graph = source.with_roles(source.check().load(), seed)
    budget = None if cell.epsilon is None else Budget(cell.epsilon, DELTA)
    fitted = study.fitted(cell.method, budget, cell.unit, graph, seed)
    found = ATTACKS[cell.attack]().run(fitted, graph, seed=seed)
    right = study.accuracy(graph, fitted)
    return {**found.to_dict(), "attack": cell.label, "curve": rates(found.scores), "accuracy": right}


def main() -> None:
    """Run every cell, seed by seed, print the tables, and draw a figure for each unit."""
    given = study.options(__doc__, log="attacker.jsonl", seeds=3, pictures=None)
    set_threads(None)
    asked = ((one.heading, one.label, seed) for seed in range(given.seeds) for one in cells())
    found = study.grouped(study.kept(given, asked, lambda *cell: run(*cell, given.data_dir)), 2)
    numbers = {"auc": 1, "baseline": 1, "tpr_at_1pct_fpr": 100, "accuracy": 100}
    columns = ("attack and model", "AUC", "AUC without the model", "found at 1 % FPR, %", "test accuracy, %")
    for heading in ("edge", "node", "record"):
        own = {label: runs for (one, label), runs in found.items() if one == heading}
        rows = (
            (
                label,
                *(
                    study.told([one[name] for one in runs], scale, 3 - (scale > 1) * 2)
                    for name, scale in numbers.items()
                ),
            )
            for label, runs in own.items()
        )
        study.table(columns, rows, f"### One {heading}")
        if given.pictures:
            shown = [{**runs[0], "attack": label} for label, runs in own.items()]
            figure = curves_figure(shown, f"attacker-{heading}")
            (Path(given.pictures) / f"{figure.name}.svg").write_text(figure.alone())
    local()


def local() -> None:
    """Bounds that the outputs of randomized response prove, beside its budget."""

    def row(epsilon: float) -> tuple[str, ...]:
        bound = audit_randomizer(RandomizedResponse(7, epsilon)).epsilon_lower_bound
        return f"{epsilon:g}", f"{bound:.3f}", f"{100 * bound / epsilon:.0f} %"

    study.table(
        ("claimed epsilon", "certified lower bound", "share"), map(row, (0.5, 1.0, 2.0, 4.0)), "### One user's report"
    )


if __name__ == "__main__":
    main()
