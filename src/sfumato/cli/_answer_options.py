"""The options of `sfumato predict` that no other command has: what is answered, and for whom."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sfumato.cli._table import RUNS, option

_answers = partial(option, panel=RUNS, commands="predict")


@dataclass(frozen=True, kw_only=True)
class AnswerOptions:
    """What a finished run is asked for."""

    pairs: Path | None = _answers("Score links: a CSV file of node pairs (a header, then two columns of node ids).")
    top: int | None = _answers(
        "Suggest: write for each node so many others with the best scores, linked already or not."
    )
    viewer: str | None = _answers("With --top: the list of the node with this id alone.", flags="--for")
    linked: Path | None = _answers(
        "With --for, on the viewer's own device: a CSV file with ids of those that the viewer is linked with (a header, then one "
        "column), who are left out. The list then is for the viewer alone."
    )
    within: str | None = _answers(
        "With --top: suggest only others with the same value of this public column, or label."
    )
    among: int | None = _answers(
        "With --top: score so many others of each node at most, where all pairs are too many. How many of the best others are "
        "lost is measured on 100 nodes, and told."
    )
    embeddings: Path | None = _answers("Write the released row of each node to this new CSV file, for other tools.")
    explain: str | None = _answers(
        "Say which cells and released rows moved the prediction of the node with this id. --out also writes them to a CSV file."
    )
    force: bool = _answers("Replace the file, if this command wrote it.", default=False)
    new_run: Path | None = _answers(
        "A new run folder, for that other graph. Its ledger is written there before the first release."
    )
    new_nodes: Path | None = _answers(
        "The table of nodes that arrived after the run, with the columns of its own. They alone are predicted."
    )
    new_edges: Path | None = _answers(
        "The table of their edges, to each other and to nodes that were there before. Each row has a new end."
    )
    coverage: float | None = _answers(
        "Give for each node a set of classes; for this share of new nodes it holds the true one. Free where labels are "
        "public; else predict needs --epsilon the first time."
    )
    each_class: bool = _answers("Let --coverage cover each class by itself.", default=False)
    positive: str | None = _answers("The class that is looked for, by --threshold or as the top.")
    threshold: str | None = _answers(
        "Choose nodes by the probability of that class: from a number on, or by recall=R such as recall=0.8, or by "
        "cost=FP:FN, what one chosen in vain and one missed cost, such as cost=1:10."
    )
    top_share: float | None = _answers(
        "Choose this share of the nodes without a known label, by their probability of that class."
    )
    top_count: int | None = _answers(
        "Choose so many of the nodes without a known label, by their probability of that class."
    )
    class_weight: str | None = _answers(
        "Predict as if all classes were equally many: balanced (default: as many as they are)."
    )
