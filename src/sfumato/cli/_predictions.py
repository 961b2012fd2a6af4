"""The file of predictions that `sfumato predict` writes: a line for each node, and what was decided."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato._files import whole_file

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sfumato.graph._graph import Graph
    from sfumato.method._choosing import NoisyCounts
    from sfumato.method._decisions import Decision
    from sfumato.method._plan import Fitted


class Writer:
    """A writer makes a line for each node: what is predicted, its role in the run, and its known label where labels are public.

    Behind these stands what the ``decision`` asks for; ``facts`` and ``notes`` say what came of it.
    """

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        self.facts: Mapping[str, Any] = {}
        self.notes: tuple[str, ...] = ()
        self.calibration: NoisyCounts | None = None

    def check(self, fitted: Fitted, *, elsewhere: bool, calibrated: bool = False) -> None:
        """Refuse what a run cannot decide.

        ``fitted`` is the run, ``elsewhere`` says whether other nodes than its own are predicted, and ``calibrated`` whether there
        are counts that calibrate sets.
        """
        kind, classes = fitted.plan.public.target, fitted.graph_key.classes
        self.decision.check(fitted.plan.unit, kind, classes, elsewhere=elsewhere, calibrated=calibrated)

    def __call__(self, out: Path, graph: Graph, fitted: Fitted, table: NDArray[np.float32] | None = None) -> None:
        """Write predictions of a ``graph`` by a ``fitted`` model to ``out``; ``table`` has probabilities of another predictor."""
        from sfumato.method._answers import predictions_of
        from sfumato.scoring._answers import alike_words

        found = predictions_of(fitted, graph, table, self.decision, self.calibration)
        self.facts, self.notes = found.facts, found.notes
        unit = fitted.plan.unit
        shown = (
            not unit.private or not fitted.plan.method.who_may_see(unit)["the node itself"]
        )  # else unasked words tell of nodes
        if shown and fitted.plan.public.target is None:
            asked = found.probabilities[~found.returned]
            without = " without a known label of training" if found.returned.any() else ""
            self.notes += alike_words(asked.argmax(axis=1), asked, found.classes, without)
        columns = found.columns()
        out.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(out) as binary:
            file = io.TextIOWrapper(binary, encoding="utf-8", newline="")
            writer = csv.writer(file)
            writer.writerow(columns)
            cells = [map(_CELLS.get(name.partition("(")[0], _as_is), column) for name, column in columns.items()]
            writer.writerows(zip(*cells, strict=True))
            file.detach()  # its text is written; the file is still to be synced


def _as_is(value: Any) -> Any:
    return value


_CELLS: Mapping[str, Callable[[Any], Any]] = {
    "p": "{:.6f}".format,
    "chosen": lambda chosen: "true" if chosen else "false",
}
