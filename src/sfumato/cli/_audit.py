"""`sfumato audit`: a certified lower bound on epsilon, beside what a method or a run claims."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sfumato._files import write_json
from sfumato._optional import TRAIN, check_installed
from sfumato._validate import fail, nearest
from sfumato.catalog import GRAPH_CARDS, WORDS, graph_method, meant, method_for, words_with
from sfumato.cli import _local as local
from sfumato.cli._options import of
from sfumato.cli._output import stage_bars
from sfumato.cli._parse import with_arcs
from sfumato.cli._table import JSON, spelled
from sfumato.errors import InputError
from sfumato.evaluation._kept import write_page
from sfumato.privacy.budget import Budget
from sfumato.privacy.units import Declared, class_for, unit_named

if TYPE_CHECKING:
    from sfumato.audit._evidence import Audit
    from sfumato.graph._graph import Graph, PublicFacts
    from sfumato.method.contract import Listed
    from sfumato.privacy.units import Unit

_MOST_ARCS, _NODES, _REPORTS, _CALLS = 10, 3, 20_000, 6_000


def audit(
    target: str = typer.Argument(
        ...,
        metavar="DIR|METHOD|FILE.py:NAME",
        help="The folder of a run, a method, or a function in a file of Python that takes data and returns what is released.",
    ),
    unit: str | None = of("unit"),
    epsilon: float | None = of("epsilon"),
    delta: float | None = of("delta"),
    epsilon_x: float | None = of("epsilon_x"),
    epsilon_y: float | None = of("epsilon_y"),
    mechanism: str | None = of("mechanism"),
    hops: int | None = of("hops"),
    settings: list[str] | None = of("set"),
    arcs: str | None = of("arcs"),
    max_degree: int | None = of("max_degree"),
    dataset: str | None = typer.Option(
        None, "--dataset", help="The data beside the canaries (default: random graphs, or images for image methods)."
    ),
    data_dir: Path | None = of("data_dir"),
    graph: Path | None = of("graph"),
    confidence: float = typer.Option(0.999, "--confidence", help="How sure all bounds together are."),
    fits: int | None = typer.Option(
        None,
        "--fits",
        help="How many times to fit for each kind of attack (default: 4 to 60). More fits, tighter bounds.",
    ),
    size: float = typer.Option(1.0, "--size", help="How many canaries there are, as a share of the default."),
    seed: int = typer.Option(0, "--seed", help="The seed of canaries and of public parts of the fits."),
    attacks: list[str] | None = typer.Option(
        None,
        "--attack",
        help="Which attacks to try: hops, records, pairs, cells, few, transcripts or sampled (default: all; repeatable).",
    ),
    pair: str = typer.Option(
        "pair",
        "--pair",
        help="With FILE.py:NAME: the function there that returns two data sets, which differ in one record.",
    ),
    out: Path | None = typer.Option(
        None, "--out", help="The folder to write to (default: evaluation/ in the run folder; nothing for a METHOD)."
    ),
    as_json: bool = JSON,
) -> None:
    """Test the claim of a method or a run by attacks, and print the epsilon that they prove.

    The method is really fitted, several times, on data with planted records that are as bad as the unit allows. Of a run, its
    method, settings, unit and budget are audited on such data, and its folder is verified; its own weights are not tested, and
    its own data are not read unless --dataset or --graph names them. A function of your own, or of another library, is run
    thousands of times on both data sets of a pair, and its outputs are told apart. Exit code 1: the claim is refuted.
    """
    if ".py:" in target:
        _check_alone(
            unit=unit, epsilon_x=epsilon_x, epsilon_y=epsilon_y, mechanism=mechanism, hops=hops, set=settings, arcs=arcs,
            max_degree=max_degree, dataset=dataset, graph=graph, fits=fits, attack=attacks,
        )  # fmt: skip
        _function(target, pair, _budget(epsilon, delta), confidence, size, out, as_json)
        return
    check_installed(*TRAIN)
    from sfumato.audit._auditor import audit as audited
    from sfumato.audit._reports import audit_reports

    folder, known = Path(target), (*WORDS, *GRAPH_CARDS)
    found: tuple[Listed, Unit | None, Budget | None, PublicFacts | None]
    if target in WORDS:
        _check_own(target, hops=hops, mechanism=mechanism)
    if target in local.WORDS and any(value is not None for value in (unit, delta, arcs, max_degree, dataset, graph)):
        raise InputError(
            f"Expected no --unit, --delta, --arcs, --max-degree, --dataset or --graph with {target}. Drop them."
        )
    if target not in local.WORDS and (epsilon_x is not None or epsilon_y is not None):
        raise InputError(f"Expected --epsilon-x and --epsilon-y with {', '.join(local.WORDS)} only. Drop them.")
    if target in local.WORDS:
        shares = {"epsilon": epsilon, "epsilon_x": epsilon_x, "epsilon_y": epsilon_y, "mechanism": mechanism}
        found = method_for(target, {**shares, "set": settings}, dataset or ""), None, None, None
    elif target in WORDS:
        asked = _unit(unit, arcs, max_degree)
        given = {"hops": hops, "set": settings, "unit": unit}
        found = method_for(target, given, dataset or ""), asked, _budget(epsilon, delta), None
    elif target in GRAPH_CARDS:
        asked = _unit(unit, arcs, max_degree)
        found = graph_method(target, settings or ()), asked, _budget(epsilon, delta), None
    elif folder.is_dir():
        if any(value is not None for value in (unit, epsilon, delta, arcs, max_degree, hops, mechanism)) or settings:
            raise InputError(
                "Expected no --unit, --epsilon, --delta, --arcs, --max-degree, --hops, --mechanism or --set "
                "with a run: it states them. Drop them."
            )
        found, out = _of_run(folder), out or folder / "evaluation"
    else:
        raise fail(
            "DIR|METHOD",
            target,
            f"to be the folder of a run, FILE.py:NAME or one of {', '.join(known)}",
            meant(target) or nearest(target, known),
        )
    if out is not None and (folder / "release").resolve() in (out.resolve(), *out.resolve().parents):
        raise fail("out", str(out), "to be outside release/", "Only certified files belong there.")
    beside = None if dataset is None and graph is None else _graph(dataset, data_dir, graph)
    with stage_bars(as_json) as report:
        method, protected, budget, public = found
        if protected is None or budget is None:
            facts = {} if public is None else {"public": public}
            runs = max(2, int(size * _REPORTS))
            result = audit_reports(method, confidence=confidence, runs=runs, progress=report, **facts)
        else:
            result = audited(
                method,
                protected,
                budget,
                graph=beside,
                confidence=confidence,
                fits=fits,
                size=size,
                seed=seed,
                attacks=attacks or (),
                progress=report,
            )
    told = result.to_dict() | {
        "problems": _problems(folder) if target not in known else [],
        "dataset": None if beside is None else dataset or str(graph),
    }
    told["flagged"] = bool(told["flagged"] or told["problems"])
    told["broken"] += [f"The verifier refuses the folder: {problem}" for problem in told["problems"]]
    _finish(result, told, target if target in known else folder.resolve().name, out, as_json)


def _finish(result: Audit, told: dict[str, Any], title: str, out: Path | None, as_json: bool) -> None:
    """Write and print an audit, and end with exit code 1 if the claim is refuted."""
    from sfumato.report._evidence import audit_page

    if out is not None:
        write_page(out / "audit.html", audit_page(told, title))
        write_json(out / "audit.json", told)
        told["out"] = str(out)
    _show(result, told, as_json)
    if told["flagged"]:
        raise typer.Exit(1)


def _function(
    target: str, pair: str, budget: Budget, confidence: float, size: float, out: Path | None, as_json: bool
) -> None:
    """Audit a function in a file of Python, on the two data sets that another function there returns."""
    from sfumato.audit._functions import audit_function

    path, _, name = target.rpartition(":")
    if not Path(path).is_file():
        raise InputError(f"Expected FILE.py:NAME with a file of Python, got {path!r}, which is none. Check the path.")
    found = runpy.run_path(path)
    lacking = next((one for one in (name, pair) if not callable(found.get(one))), None)
    if lacking is not None:
        raise InputError(f"Expected a function {lacking!r} in {path!r}, got none. Define it there, or name another.")
    mechanism, made = found[name], found[pair]()
    if not isinstance(made, tuple | list) or len(made) != 2:
        raise InputError(
            f"Expected {pair}() in {path} to return two data sets, got another object. Return (first, second)."
        )
    with stage_bars(as_json) as report:
        runs = max(30, int(size * _CALLS))
        told = None if report is None else lambda done, total: report("runs", done, total)
        result = audit_function(mechanism, tuple(made), budget, runs=runs, confidence=confidence, told=told)
    _finish(result, {**result.to_dict(), "problems": [], "dataset": None}, name, out, as_json)


def _check_alone(**given: Any) -> None:
    """Refuse an option that a function in a file has no use for."""
    for name, value in given.items():
        if value:
            raise InputError(f"Expected no {spelled(name)} with FILE.py:NAME, whose data its own file makes. Drop it.")


def _check_own(word: str, **given: Any) -> None:
    """Refuse an option of other methods."""
    for name, value in given.items():
        if value is not None and word not in words_with(name):
            raise InputError(
                f"Expected {spelled(name)} with one of {', '.join(words_with(name))}, got {word!r}. Drop it."
            )


def _unit(unit: str | None, arcs: str | None, max_degree: int | None) -> Unit:
    """Return the unit that the options name, for a graph that is declared undirected."""
    if unit is None:
        raise InputError("Expected --unit with METHOD, got none. Say what is protected, such as --unit edge.")
    word = with_arcs({"unit": unit, "arcs": arcs})["unit"]
    if word in class_for(word).node_words:  # of edges, unless a graph says otherwise
        from sfumato.audit._auditor import check_planted

        check_planted(unit_named(word, Declared(directed=False)))
    return unit_named(word, Declared(directed=False, max_degree=max_degree or _MOST_ARCS, nodes_per_person=_NODES))


def _budget(epsilon: float | None, delta: float | None) -> Budget:
    if epsilon is None or delta is None:
        raise InputError("Expected --epsilon and --delta with METHOD, got one or none. Name the claim to audit.")
    return Budget(epsilon, delta)


def _of_run(folder: Path) -> tuple[Listed, Unit | None, Budget | None, PublicFacts | None]:
    from sfumato.catalog import load

    plan = load(folder).plan
    if not plan.unit.private:
        raise InputError(
            f"Expected a run with a guarantee, got {str(folder)!r} without one: there is no claim to audit."
        )
    if plan.unit.trust != "curator":
        return plan.method, None, None, plan.public
    return plan.method, plan.unit, plan.budget, None


def _graph(dataset: str | None, data_dir: Path | None, graph: Path | None) -> Graph:
    from sfumato.evaluation._source import Source

    folder, store = (None if path is None else str(path) for path in (data_dir, graph))
    source = Source(dataset, folder, graph=store).check()
    found = source.load()
    if found.targets is not None:
        raise fail("graph", str(graph), "to hold classes", "Audits plant records with a class, not with other targets.")
    return source.with_roles(found, 0)


def _problems(folder: Path) -> list[str]:
    from sfumato import verify as verifier

    return list(verifier.verify(folder).problems)


def _show(result: Audit, told: dict[str, Any], as_json: bool) -> None:
    from sfumato.report._evidence import limits

    if as_json:
        typer.echo(json.dumps(told))
        return
    for one in result.evidence:
        typer.echo(
            f"{one.name}: epsilon is at least {one.epsilon_lower_bound:.4g} ({one.trials:,} scores, {one.estimator})"
        )
    for sentence in told["broken"]:
        typer.echo(f"Broken: {sentence}")
    claimed = "nothing" if result.claimed is None else f"epsilon {result.claimed:g}, delta {result.delta:g}"
    typer.echo(
        f"Claimed: {claimed} for {result.unit}. Certified lower bound: {result.epsilon_lower_bound:.4g} at a confidence of "
        f"{100 * result.confidence:g} %. "
        + ("The claim is refuted." if told["flagged"] else " ".join(["The audit does not refute it.", *limits(told)]))
    )
    if "out" in told:
        typer.echo(f"Wrote {Path(told['out']) / 'audit.html'}. It is evaluation, and not for release.")
