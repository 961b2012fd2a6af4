"""The commands that write about a finished run: report and cite."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sfumato._optional import LIGHT, check_installed
from sfumato._validate import check_choice, fail
from sfumato.cli._completing import complete_run
from sfumato.cli._described import with_answers
from sfumato.cli._table import JSON
from sfumato.cli._verified import verified
from sfumato.errors import InputError
from sfumato.evaluation._kept import check_outside, write_page

if TYPE_CHECKING:
    from sfumato.report._run import Run

RUN = typer.Argument(..., help="The folder of a run.", autocompletion=complete_run)
_PAGES = {"owner": "index.html", "reviewer": "reviewer.html", "public": "public.html", "regulator": "regulator.html"}


def report(
    run: Path = RUN,
    out: Path | None = typer.Option(
        None,
        "--out",
        help="The HTML file to write (default: index.html for the owner, or AUDIENCE.html, under reports/ in the run folder).",
    ),
    audience: str = typer.Option(
        "owner",
        "--audience",
        help="Who reads it: owner (with scores, which must not leave), reviewer (who checks the claim), public (people whose "
        "data may have been used), or regulator (a data protection officer; with results of attacks).",
    ),
    deployment: Path | None = typer.Option(
        None,
        "--deployment",
        help="With --audience regulator: a TOML file that fills the blanks on the page. "
        "It cannot change what the certificate says.",
    ),
    as_json: bool = JSON,
) -> None:
    """Write one page about a run.

    It holds the certificate in words, the releases, and the scores, which are marked as outside the guarantee. The pages for
    reviewers and for the public hold no scores and may leave with the release. The page for regulators tells what attacks found.
    A run that sfumato verify refuses gets none of the three.
    """
    check_choice(tuple(_PAGES), audience=audience)
    out = out or run / "reports" / _PAGES[audience]
    if out.suffix.lower() != ".html":
        raise fail("out", str(out), "to end in .html")
    check_outside(out)
    if deployment is not None and audience != "regulator":
        raise InputError("Expected --deployment with --audience regulator alone: no other page has blanks. Drop it.")
    if audience == "owner":
        check_installed(*LIGHT, "matplotlib", "jinja2")
        from sfumato.report import read_run, run_page

        read = with_answers(run, read_run(run))
        page = run_page(read if read.described is not None else _with_graph(run, read))
        released = read.described is not None and read.private
        kept = "It holds what was released, and no scores." if released else "It holds scores: it is not for release."
    else:
        check_installed("safetensors", "matplotlib", "jinja2")
        page, kept = _page_for(audience, run, deployment)
    write_page(out, page)
    typer.echo(json.dumps({"out": str(out)}) if as_json else f"Wrote {out}. {kept}")


def cite(run: Path = RUN) -> None:
    """Print BibTeX entries for what a run used.

    They cite its method, mechanisms, accounting and data.
    """
    from sfumato.report import citations, read_run

    read = read_run(run)
    typer.echo(citations(read.certificate, read.graph), nl=False)


def _page_for(audience: str, run: Path, deployment: Path | None) -> tuple[str, str]:
    """Return the page of a valid run for readers who were not there, and what may be done with it."""
    from sfumato import verify as verifier
    from sfumato.record._deployment import Deployment
    from sfumato.report import public_page, read_run, regulator_page, reviewer_page
    from sfumato.report._regulator import tested_at_all

    read, later = read_run(run), None
    read.claimed()
    if deployment is not None:
        record = Deployment.read(deployment)
        record.check(read.certificate["claim"]["delta"])
        later = record.to_dict()
    read, result = with_answers(run, read), verified(run)
    kept = "It holds no scores, and may leave with the release."
    if audience == "public":
        return public_page(read), kept
    said = verifier.describe(run, result)
    if audience == "reviewer":
        return reviewer_page(read, said), kept
    if tested_at_all(read):
        kept = "It tells what attacks found: show it to those who supervise, and do not publish it."
    return regulator_page(read, said, later), kept


def _with_graph(folder: Path, run: Run) -> Run:
    """Add predictions and scores by class and degree if the graph is still where it was, or else the reason why not."""
    from sfumato.evaluation._source import Source

    if run.validation is not None:
        return run  # nobody has true labels
    from sfumato.catalog import load
    from sfumato.scoring._answers import answers_of
    from sfumato.scoring._detail import RUN as OWN
    from sfumato.scoring._detail import detail

    fitted = load(folder)
    try:
        source = Source.of_run(folder)
        graph = source.with_roles_of(source.load(), fitted)
        if fitted.plan.public.target is not None:
            return replace(run, missing="they are for classes alone, and this run learned other targets")
        predicted = fitted.predict(graph)
    except (InputError, OSError) as error:
        return replace(run, missing=str(error))
    if (run.metrics or {}).get("detail") is not None:
        return replace(run, predicted=predicted)
    return replace(run, predicted=predicted, detail=detail(graph, {OWN: [answers_of(fitted, graph, graph.test_mask)]}))
