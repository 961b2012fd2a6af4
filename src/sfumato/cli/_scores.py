"""The scores of a run and its controls, as `sfumato train` and `sfumato tune` print them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.cli._output import plain_console
from sfumato.cli._stored import by_options

_TRACK = 24  # characters from floor to ceiling
_UNITS = (
    "All but log-loss in percent; AUC and AP are means over classes (AP of two: that of the rarer); ECE is the calibration "
    "error."
)
_AS_THEY_ARE = ("mae", "rmse")
_OF_LINKS = {"auc": "AUC", "average_precision": "AP", "hits_at_50": "Hits@50", "mrr": "MRR", "ndcg_at_50": "NDCG@50"}
_LISTS = (
    "In percent. AUC and average precision (AP) tell held-out links apart from as many pairs without a link. The others look for "
    "them in lists of suggestions, of up to 200 nodes: all others that a node is not linked with in training."
)
_LEFT_OUT = ("macro_f1", "brier")
"""Scores that the table has no room for, where it has others that say nearly the same."""

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from sfumato.evaluation._kept import Job
    from sfumato.evaluation._links import LinkEvaluation
    from sfumato.evaluation._outcome import Evaluation, Scored
    from sfumato.record._certificate import Certificate
    from sfumato.scoring._scores import Summary


def note_uncharged(job: Job) -> None:
    """Say that controls and further seeds are not charged, if the job has a ledger and either of them; and of a second ledger."""
    if job.kept.ledger is not None and (job.request.controls or len(job.request.seeds) > 1):
        print(
            "Note: controls and further seeds read the data outside the guarantee and are not charged to the ledger. "
            "Their scores go to evaluation/, which must not leave.",
            file=sys.stderr,
        )
    if job.kept.ledger is not None:
        from sfumato.record._reading import same_people

        for text in same_people(job.kept.ledger.path, job.kept.ledger.population):
            print(f"Warning: {text}", file=sys.stderr)


def note_left_out(evaluation: Scored) -> None:
    """Say which controls could not be fitted, and why."""
    for note in evaluation.left_out:
        print(f"Note: {by_options(note)}", file=sys.stderr)


def show(result: dict[str, Any], evaluation: Evaluation, out: Path) -> None:
    """Print a table of scores, the price of privacy as one line, and what is guaranteed."""
    outcome = evaluation.outcome
    console = plain_console()
    console.print(_table(result, evaluation))
    console.print(_legend(result, evaluation), soft_wrap=True, highlight=False)
    for note in (*result["unused"], *(result.get("detail") or {}).get("warnings", ())):
        console.print(note, style="bold", soft_wrap=True, highlight=False)
    if evaluation.controls:
        console.print(price_line(result))
        for line in verdict_lines(result):
            console.print(line, soft_wrap=True, highlight=False)
    else:
        console.print(
            "What privacy costs: --controls also trains a floor without the graph, and a ceiling without privacy."
        )
    console.print()
    show_guarantee(outcome.first.certificate, out, "The scores above read true labels, and must stay.")


def show_links(result: dict[str, Any], evaluation: LinkEvaluation, out: Path) -> None:
    """Print how well held-out links were found, beside the controls, and what is guaranteed."""
    from rich import box
    from rich.table import Table

    links = "held-out links" if evaluation.from_day is None else f"new links from {evaluation.from_day} on"
    title = f"{result['dataset']}: {links} ({result['test_auc']['seeds']} seed(s))"
    table = Table("", *_OF_LINKS.values(), box=box.SIMPLE_HEAD, title=title, padding=(0, 1, 0, 0), pad_edge=False)
    for name, found in evaluation.scores.items():
        table.add_row(name, *(_cell("accuracy", found[one]) for one in _OF_LINKS))
    console = plain_console()
    console.print(table)
    console.print(_LISTS, soft_wrap=True, highlight=False)
    for line in verdict_lines(result):
        console.print(line, soft_wrap=True, highlight=False)
    if len(evaluation.scores) == 1:
        console.print("What privacy costs: --controls also scores pairs without edges, and without privacy.")
    console.print()
    show_guarantee(evaluation.first.certificate, out, "The scores above read held-out links, and must stay.")
    console.print(f"Score pairs of nodes: sfumato predict {out} --pairs FILE", soft_wrap=True, highlight=False)


def _table(result: dict[str, Any], evaluation: Evaluation) -> Table:
    """The scores of one answer for all, of the controls and of the run, above the ceiling."""
    from rich import box
    from rich.table import Table

    from sfumato.evaluation._controls import titles
    from sfumato.scoring._scores import SHORT, TITLES, Summary

    outcome = evaluation.outcome
    names = [name for name in outcome.scores if len(outcome.scores) < 5 or name not in _LEFT_OUT]
    seeds = f"{outcome.score.seeds} seeds: means and half of 95 % intervals" if outcome.score.seeds > 1 else "1 seed"
    table = Table(box=box.SIMPLE_HEAD, title=f"{result['dataset']} ({seeds})", padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("on test nodes")
    for name in names:
        table.add_column(SHORT.get(name, TITLES[name]).replace(" ", "\n"), justify="right", no_wrap=True)
    named = titles(result["method"], result)
    beside = {name: (_short(title), evaluation.controls.get(name)) for name, title in named.items()}
    ceiling = beside.pop("ceiling", ("", None))
    alone = {name: Summary.of([value]) for name, value in result["without_information"].items()}
    table.add_row("one answer for all", *(_cell(name, alone[name]) for name in names))
    for title, row in (*beside.values(), (f"{result['method']} (unit {result['unit']})", outcome), ceiling):
        if row is not None:
            table.add_row(
                title, *(_cell(name, row.scores[name]) for name in names), style="bold" if row is outcome else ""
            )
    return table


def shown(name: str, value: float) -> str:
    """Return a score in words: shares in percent, others as they are. ``name`` is that of the score."""
    from sfumato.scoring._scores import ERRORS

    return f"{value:.4g}" if name in ERRORS else f"{100 * value:.1f} %"


def _legend(result: dict[str, Any], evaluation: Evaluation) -> str:
    """What the words and columns of the table mean."""
    from sfumato.evaluation._controls import titles

    named = titles(result["method"], {}).items()
    ends = [title for name, title in named if name in evaluation.controls and ":" in title]
    units = _UNITS if "accuracy" in evaluation.outcome.scores else ""
    return " ".join([*([f"{'; '.join(ends)}."] if ends else []), units]).strip()


def _short(title: str) -> str:
    """The title of a control in a narrow table: its word and its method, or what it does."""
    word, _, rest = title.partition(":")
    return f"{word} {rest[rest.rindex('(') :]}" if "(" in rest else title.partition(",")[0]


def _cell(name: str, one: Summary) -> str:
    from sfumato.scoring._scores import ERRORS

    scale, form = (1, "#.4g" if name in _AS_THEY_ARE else ".3f") if name in ERRORS else (100, ".1f")
    half = "" if one.low is None or one.high is None else f"\n±{scale * (one.high - one.low) / 2:{form}}"
    return f"{scale * one.mean:{form}}{half}"


def price_line(result: dict[str, Any]) -> Text:
    """Return floor, run and ceiling on a line: the colored part is what the run keeps of what the graph adds.

    ``result`` is what metrics.json holds. Where the graph adds nothing to accuracy that test nodes could show, the line is of the
    log-loss, and where it adds nothing to that either, it has no colors.
    """
    from rich.text import Text

    from sfumato.evaluation._verdict import telling
    from sfumato.scoring._scores import TITLES

    name, kept = result["score"], result["graph_gain_recovered"]
    found = {"floor": result["floor"], "this run": result["test_scores"][name], "ceiling": result["ceiling"]}
    shares = (result.get("verdict") or {}).get("kept", {})
    if kept is not None and name in shares and not telling(shares[name]):
        name, kept = next(((one, share["share"]) for one, share in shares.items() if telling(share)), (name, None))
        scores = {**result["control_scores"], "run": result["test_scores"]}
        found = {end: scores[end.rpartition(" ")[2]][name] for end in found}
    words = {end: shown(name, one["mean"]) for end, one in found.items() if one}
    if kept is None:
        return Text(", ".join(f"{end} {words[end]}" for end in words))
    done = round(_TRACK * min(max(kept, 0.0), 1.0))
    of = "" if name == result["score"] else f"{TITLES[name]}: "
    return Text.assemble(
        f"{of}floor {words['floor']} ",
        ("━" * done, "bold green"),
        (f" this run {words['this run']} ", "bold"),
        ("━" * (_TRACK - done), "dim"),
        f" {words['ceiling']} ceiling",
    )


def verdict_lines(result: dict[str, Any]) -> list[str]:
    """Return what paired comparisons say of a run, and how its floor is released if that is not worse.

    ``result`` is what metrics.json holds.
    """
    said = result.get("verdict")
    if said is None:
        return []
    from sfumato.evaluation._verdict import floor_words, kept_words, verdict_words

    return [line for line in (verdict_words(said), kept_words(said), *floor_words(result)) if line]


def show_guarantee(certificate: Certificate, out: Path, scores: str) -> None:
    """Print what is guaranteed, what may leave, and where the rest is told: three lines."""
    values, console = certificate.values, plain_console()
    if certificate.epsilon is None:
        console.print(str(certificate), soft_wrap=True)
    else:
        seen = "; ".join(f"{who} may see {', '.join(what)}" for who, what in values["who_may_see"].items()
                         if what and who != "never")  # fmt: skip
        console.print(certificate.sentence, soft_wrap=True, highlight=False)
        console.print(f"Only {out}/release may leave: {seen}. {scores}", soft_wrap=True, highlight=False)
    officer = "" if certificate.epsilon is None else ", for a data protection officer with --audience regulator"
    console.print(
        f"All of it in words: {out}/guarantee.txt. Check it: sfumato verify {out}. Pictures: sfumato report {out}{officer}",
        soft_wrap=True,
        highlight=False,
    )
