"""`sfumato train --task link`: link prediction from feature reports, and the scores of link prediction."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from sfumato._files import write_json
from sfumato.cli.local import in_clear, look
from sfumato.cli.output import plain_console
from sfumato.cli.scores import show_guarantee

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.cli.options import Options
    from sfumato.evaluation.links import LinkEvaluation


def train_links(options: Options, as_json: bool) -> None:
    """Score held-out links from feature reports, and print and store the scores. Nothing is released.

    Every feature of a user costs ``epsilon_x``.

    Args:
        options: the checked options of the command, whose ``out`` must be a new folder.
        as_json: whether one JSON object is printed instead of sentences.
    """
    from sfumato.evaluation.scores import Summary
    from sfumato.local.link_prediction import LinkPrediction
    from sfumato.record.release_folder import check_new_folder

    check_new_folder(options.out)
    epsilon = None if in_clear(options.epsilon_x) else options.epsilon_x
    task = LinkPrediction(epsilon, options.mechanism or "pgc")
    source = options.source()
    graph, start = source.load(), time.perf_counter()
    look(graph, task.asked, links=True)
    results = [task.fit(graph, seed) for seed in range(options.seeds)]
    total = results[0].epsilon_total
    relation = "none" if total is None else "replace"
    result: dict[str, Any] = {
        "method": options.method,
        "dataset": source.place,
        "task": "link",
        "unit": "none" if total is None else "local",
        "test_auc": asdict(Summary.of([one.auc for one in results])),
        "test_average_precision": asdict(Summary.of([one.average_precision for one in results])),
        "privacy": {
            "unit": "none" if total is None else "local",
            "relation": relation,
            "epsilon": total,
            "delta": None if total is None else 0.0,
            "epsilon_x": epsilon,
            "epsilon_y": None,
            "per_feature": True,
        },
        "evaluation_private": False,
        "seconds": {"train": time.perf_counter() - start},
        "out": str(options.out),
    }
    source.write(options.out)
    write_json(options.out / "evaluation" / "metrics.json", result)
    if as_json:
        typer.echo(json.dumps(result))
        return
    for name in ("auc", "average_precision"):
        typer.echo(f"Test {name.replace('_', ' ')}: {Summary(**result[f'test_{name}'])}")
    cost = "features were read in the clear" if total is None else f"epsilon = {total:g} a user ({epsilon:g} a feature)"
    typer.echo(f"Links are public, and {cost}. Scores alone: {options.out} holds nothing to release.")


def show(result: dict[str, Any], evaluation: LinkEvaluation, out: Path) -> None:
    """Print how well held-out links were found, beside the controls, and what is guaranteed.

    Args:
        result: what the command also prints as JSON.
        evaluation: the scores of the run and of its controls.
        out: the run folder.
    """
    from rich import box
    from rich.table import Table

    title = f"{result['dataset']}: held-out links ({result['test_auc']['seeds']} seed(s))"
    table = Table("", "AUC", "average precision", box=box.SIMPLE_HEAD, title=title)
    for name, found in evaluation.scores.items():
        table.add_row(name, str(found.auc), str(found.average_precision))
    console = plain_console()
    console.print(table)
    if len(evaluation.scores) == 1:
        console.print("What privacy costs: --controls also scores pairs without edges, and without privacy.")
    console.print()
    show_guarantee(evaluation.first.certificate, out, "The scores above read held-out links, and must stay.")
    console.print(f"Score pairs of nodes: sfumato predict {out} --pairs FILE", soft_wrap=True, highlight=False)
