"""Options of commands that make decisions from probabilities."""

from __future__ import annotations

import typer

COVERAGE = typer.Option(
    None,
    "--coverage",
    help="Give for each node a set of classes; for this share of new nodes it holds the true one. Free where labels are public; "
    "else predict needs --epsilon the first time.",
)
EACH_CLASS = typer.Option(False, "--each-class", help="Let --coverage cover each class by itself.")
POSITIVE = typer.Option(None, "--positive", help="The class that is looked for, by --threshold or as the top.")
THRESHOLD = typer.Option(
    None,
    "--threshold",
    help="Choose nodes by the probability of that class: from a number on, or by recall=R such as recall=0.8, or by "
    "cost=FP:FN, what one chosen in vain and one missed cost, such as cost=1:10.",
)
TOP_SHARE = typer.Option(
    None,
    "--top-share",
    help="Choose this share of the nodes without a known label, by their probability of that class.",
)
TOP_COUNT = typer.Option(
    None, "--top-count", help="Choose so many of the nodes without a known label, by their probability of that class."
)
CLASS_WEIGHT = typer.Option(
    None, "--class-weight", help="Predict as if all classes were equally many: balanced (default: as many as they are)."
)
