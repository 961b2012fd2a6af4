"""`sfumato check`, which is `sfumato train --dry-run`: what a run would read, release, cost and reach, and what is wrong with it.

Nothing is fitted, charged or written. The answer is for the owner of the data: which public graphs are similar follows from the
number of edges, and whether a class is rare from labels, where these are public.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import typer

from sfumato._optional import LIGHT, check_installed
from sfumato.catalog import WORDS
from sfumato.cli import _data as data
from sfumato.cli._options import Options
from sfumato.cli._parse import checks, given, parse
from sfumato.cli._stored import by_options as by_options
from sfumato.cli._table import takes
from sfumato.errors import InputError, MissingDependencyError
from sfumato.method._settings import with_effect

if TYPE_CHECKING:
    from sfumato.evaluation._expected import Figure
    from sfumato.evaluation._kept import Job
    from sfumato.evaluation._look import Look
    from sfumato.graph._graph import Graph
    from sfumato.method._plan import Plan

_RARE = 0.1
"""Of how large a share of the labels a class counts as rare."""
FREE = "Nothing was spent, and nothing was written."


@takes(Options, "check")
def check(_context: typer.Context, values: dict[str, Any]) -> None:
    """Show what a run would read, release, cost and achieve, and everything that is wrong with it.

    It takes the options of `sfumato train`, and is the same as `sfumato train --dry-run`. It reads the tables, trains nothing,
    spends nothing and writes nothing. The answer is for the owner of the data. The exit code is 2 if there is a problem.
    """
    dry_run(values)


def check_controls() -> None:
    """Refuse controls where their packages are missing."""
    try:
        check_installed("torch")
    except MissingDependencyError as error:
        error.add_note("Or leave out the controls: --no-controls.")
        raise


def dry_run(values: dict[str, Any]) -> None:
    """Print what a look at a run finds."""
    check_installed(*LIGHT)
    out = values["out"]
    options = given(values | ({"out": Path()} if out is None else {}), "check")
    found, job = look_at(options, checks(options), parse)
    if job is not None:
        look_around(found, job, out, controls=bool(options.controls))
    found.problems[:] = dict.fromkeys(map(by_options, found.problems))  # two checks may refuse one value
    told = _told(found, job, options)
    if values["as_json"]:
        typer.echo(json.dumps(told))
    else:
        typer.echo("\n".join(_lines(found, told, options)))
    if found.problems:
        raise typer.Exit(2)


def look_at(
    options: Options, todo: Iterable[Callable[[], Any]], parsed: Callable[[Options], Job]
) -> tuple[Look, Job | None]:
    """Look at the options by what is to be checked, and if they name a graph at it; the job is None if an option is wrong."""
    from sfumato.evaluation._look import Look, look

    wrong = Look()
    for at, one in enumerate(todo):
        with wrong.noting():
            one()
        if at == 1 and wrong.problems:  # no method or no unit: the rest would mean nothing
            return wrong, None
    job = None if wrong.problems else parsed(options)
    try:
        source = options.source() if job is None else job.request.source
    except InputError:  # told above
        return wrong, None
    found = look(source, None if job is None else job.request, check=None if job is None else job.look)
    found.problems[:0] = wrong.problems
    return found, job


def look_around(found: Look, job: Job, out: Path | None, *, controls: bool) -> None:
    """Look at what a run needs beside its graph: its folder, its key, its ledger, the packages of its controls."""
    from sfumato.method._checks import check_ids
    from sfumato.method._graph_key import GraphKey, id_lines
    from sfumato.method._opening import charged_to
    from sfumato.privacy.units import unit_to_dict
    from sfumato.record._claims import Claim, new_run
    from sfumato.record._release_folder import check_new_run, read_sign_key

    if out is not None:
        with found.noting():
            check_new_run(out)
    if job.kept.sign_key is not None:
        with found.noting():
            read_sign_key(job.kept.sign_key)
    if controls:
        with found.noting():
            check_controls()
    if found.prepared is None:
        return
    plan, first = found.prepared.plan, found.prepared.first
    if job.kept.public_ids:
        with found.noting():
            check_ids(id_lines(first), GraphKey.of(first))
    if job.kept.deployment is not None:
        with found.noting():
            job.kept.deployment.check(plan.delta)
    if job.kept.ledger is not None and plan.epsilon is not None and plan.delta is not None:
        with found.noting():
            entry = plan.entry.charged_to(job.kept.ledger, window=first.window)
            claim = Claim.of(new_run(), entry.method, plan.epsilon, plan.delta, entry.releases, entry.head)
            job.kept.ledger.look(claim, unit=unit_to_dict(plan.unit), dataset=charged_to(plan, first))


def _told(found: Look, job: Job | None, options: Options) -> dict[str, Any]:
    """What is printed, as JSON values."""
    plan = None if found.prepared is None else found.prepared.plan
    columns = [
        {"file": place, "columns": [vars(one) for one in columns]} for place, columns in found.tables if found.graph
    ]
    told: dict[str, Any] = {"method": options.method, "unit": options.unit, "dataset": None, "problems": found.problems}
    told |= {"left_out": found.left_out, "tables": columns, "plan": None, "expected": []}
    if job is not None:
        told["dataset"] = job.dataset
    if plan is not None and found.prepared is not None:
        told["plan"] = {
            "method": plan.method.name,
            "settings": plan.method.settings,
            "privacy": {"relation": plan.unit.relation, "epsilon": plan.epsilon, "delta": plan.delta},
            "releases": [release.to_dict() for release in plan.releases],
            "warnings": [text for _, text in (*plan.caveats, *data.unscaled(found.prepared.graph, plan.unit))],
        }
        told["expected"] = [
            {"method": "auto", **vars(one), "nodes": one.size[0], "degree": one.size[1], "kept": one.kept}
            for one in _expected(found.prepared.graph, plan)
            if one.size is not None
        ]
    return told


def _expected(graph: Graph, plan: Plan) -> list[Figure]:
    """The figures of public graphs that are most like this one; of rare classes too, where labels are public."""
    import numpy as np

    from sfumato.evaluation._expected import AUC, expected

    if plan.budget is None or graph.targets is not None:
        return []
    asked = (plan.unit.name, plan.budget.epsilon, graph.num_nodes, graph.num_arcs / graph.num_nodes)
    known = graph.y[graph.y >= 0] if "labels" in plan.unit.public and graph.y is not None else np.zeros(0, np.int64)
    counts = np.bincount(known, minlength=graph.num_classes)
    rare = len(known) > 0 and counts[counts > 0].min() < _RARE * len(known)
    return [*expected(*asked), *(expected(*asked, AUC) if rare else ())]


def _lines(found: Look, told: dict[str, Any], options: Options) -> Iterator[str]:
    """The answer in words."""
    from sfumato.tables._outline import Outline

    if found.graph is not None and found.tables:
        yield "How the tables are read"
        public = None if found.prepared is None else found.prepared.plan.unit.public
        yield from (f"  {line}" for line in Outline(found.tables, found.graph).lines(public or ()))
        yield ""
    if found.prepared is not None:
        plan = found.prepared.plan
        yield "What would run"
        if plan.method.name != WORDS[options.method]:
            yield f"  {options.method}: {plan.method.name}, by unit, budget and public facts."
        yield from (f"  {line}" for line in str(plan).splitlines())
        settings = ", ".join(f"{name}={word}" for name, word in with_effect(plan.method, plan.unit).items()) or "none"
        yield from wrap(f"Settings: {settings}.", 96, initial_indent="  ", subsequent_indent="    ")
        yield from (f"  Warning: {text}" for text in told["plan"]["warnings"])
        yield ""
        yield from _hopes(found.prepared.graph, plan, _expected(found.prepared.graph, plan))
    if found.problems:
        yield f"Problems: {len(found.problems)}"
        yield from (f"  {at}. {text}" for at, text in enumerate(found.problems, start=1))
        if found.left_out:
            yield f"  The rest was looked at without {', '.join(found.left_out)}."
        yield ""
    else:
        yield "Problems: none"
    yield FREE


def _hopes(graph: Graph, plan: Plan, figures: list[Figure]) -> Iterator[str]:
    """What the default did on public graphs like this one, with the range of the shares that it kept."""
    from sfumato.central._auto import Auto
    from sfumato.evaluation._expected import ACCURACY, AUC, FACTOR, far

    yield "What to expect (evaluation on public graphs; no promise for this one)"
    if not figures:
        yield f"  No public figure is kept for this target and unit {plan.unit.name}. docs/results has what was measured."
        yield ""
        return
    if Auto().choose(plan.budget, plan.unit, plan.public) != plan.method:
        yield f"  No public figure is kept for {plan.method.name} with these settings. Below are those of auto."
    for score, title in ((ACCURACY, "accuracy"), (AUC, "AUC of one rare class")):
        some = [one for one in figures if one.score == score]
        if not some:
            continue
        yield f"  {title} of auto in percent, at epsilon {some[0].epsilon:g} ({plan.unit.name} level)"
        yield f"    {'graph':26} {'nodes':>7} {'degree':>7} {'floor':>7} {'auto':>7} {'ceiling':>8} {'kept':>6}"
        for one in some:
            assert one.size is not None
            kept = "-" if one.kept is None else f"{100 * one.kept:.0f} %"
            numbers = (
                f"{one.size[0]:7,} {one.size[1]:7.1f} {one.floor:7.1f} {one.run:7.1f} {one.ceiling:8.1f} {kept:>6}"
            )
            yield f"    {one.task:26} {numbers}"
        shares = [one.kept for one in some if one.kept is not None]
        if shares:
            low, high = (f"{100 * end:.0f}" for end in (min(shares), max(shares)))
            yield f"    Of what the graph adds, {low if low == high else f'{low} to {high}'} % was kept there."
        if all(far(one, graph.num_nodes, graph.num_arcs / graph.num_nodes) for one in some):
            yield f"    All of them differ from this graph by more than a factor of {FACTOR:g} in nodes or degree."
    yield ""
