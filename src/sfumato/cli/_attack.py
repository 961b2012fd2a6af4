"""`sfumato attack`: what an attacker infers from a trained run, beside what can be known without it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sfumato._files import write_json
from sfumato._optional import TRAIN, check_installed
from sfumato._validate import check_choice, fail, nearest
from sfumato.attacks._listing import ATTACKS
from sfumato.cli._arrivals import source_of
from sfumato.cli._completing import complete_run
from sfumato.cli._newest import learned
from sfumato.cli._options import of
from sfumato.cli._output import stage_bars
from sfumato.cli._table import JSON
from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.attacks._attack import Attack
    from sfumato.evaluation._source import Source
    from sfumato.method._plan import Fitted


def attack(
    context: typer.Context,
    name: str = typer.Argument(..., metavar="NAME", help=f"The attack: {', '.join(ATTACKS)}."),
    run: Path = typer.Argument(..., metavar="DIR", help="The folder of a run.", autocompletion=complete_run),
    dataset: str | None = typer.Option(
        None, "--dataset", help="The data set that the run was trained on (default: where the run found it)."
    ),
    data_dir: Path | None = of("data_dir"),
    graph: Path | None = of("graph"),
    nodes: Path | None = of("nodes"),
    edges: Path | None = of("edges"),
    label: str | None = typer.Option(
        None, "--label", help="The column of the node table that holds the classes to learn."
    ),
    schema: Path | None = of("schema"),
    setting: list[str] | None = typer.Option(
        None, "--set", metavar="NAME=VALUE", help="A setting of the attack, such as num_shadows=8. May be repeated."
    ),
    seed: int = typer.Option(
        0, "--seed", help="The seed of what the attack draws. Noise of private shadow models never repeats."
    ),
    out: Path | None = typer.Option(
        None, "--out", help="The JSON file to write (default: evaluation/attacks/NAME.json in the run folder)."
    ),
    as_json: bool = JSON,
) -> None:
    """Run an attack on the model of a run, and measure what it infers.

    Beside it stands what the same attacker infers without the model. The attack reads the true answers, to mark itself: its
    result is outside the guarantee. Nothing is spent, and nothing in release/ changes. `sfumato report` shows the result.
    """
    check_choice(tuple(ATTACKS), attack=name)
    out = out or run / "evaluation" / "attacks" / f"{name}.json"
    home = run.resolve()
    if home in (out.resolve(), *out.resolve().parents) and home / "evaluation" / "attacks" not in out.resolve().parents:
        raise fail("out", str(out), "to be outside the run folder, or in its evaluation/attacks/", "Name another file.")
    check_installed(*TRAIN)
    from sfumato.report._evidence import gain, rates

    chosen = _attack(name, setting or [])
    fitted = learned(run)
    if fitted.plan.public.target is not None:
        raise fail("run", str(run), "to have learned classes", "Attacks on other targets are not supported.")
    paths = {"data_dir": data_dir, "graph": graph, "nodes": nodes, "edges": edges, "schema": schema}
    named = {"dataset": dataset, "label": label, **paths}
    source = _source(run, {key: value if value is None else str(value) for key, value in named.items()}, context)
    target = source.with_roles_of(source.load(), fitted)
    with stage_bars(as_json) as report:
        found = chosen.run(fitted, target, seed=seed, progress=report)
    told = {**found.to_dict(), "withheld": _withheld(fitted, chosen), "run": str(run), "seed": seed}
    write_json(out, {**told, "settings": asdict(chosen), "curve": rates(found.scores)})
    if as_json:
        typer.echo(json.dumps({**told, "out": str(out)}))
        return
    typer.echo(gain(told))
    rate = told["tpr_at_1pct_fpr"]
    rare = "not measured, with fewer than 100 others" if rate is None else f"{100 * rate:.1f} % (a guess finds 1 %)"
    typer.echo(
        f"95 % interval of the AUC: {told['auc_low']:.3f} to {told['auc_high']:.3f}. Found at 1 % false positives: {rare}."
    )
    for measure, value in found.measures.items():
        typer.echo(f"{measure}: {value:.4g}")
    typer.echo(
        f"Wrote {out}. It is evaluation, and not for release. See it with `sfumato report {run}`, "
        "and as a record for a data protection officer with --audience regulator."
    )


def _source(run: Path, named: dict[str, Any], context: typer.Context) -> Source:
    """Where the graph is: as the run kept it, save for what is named; a data set or a store can be named without that."""
    from sfumato.evaluation._source import Source

    try:
        return source_of(run, named, context)
    except InputError:
        given = named["dataset"], named["graph"]
        if not any(given) or (run / "evaluation" / "source.json").exists():
            raise
        from sfumato.datasets._loading import default_split

        folder = named["data_dir"] if named["dataset"] else None
        return Source(named["dataset"], folder, graph=named["graph"], split=default_split(given[0] or "")).check()


def _withheld(fitted: Fitted, chosen: Attack) -> bool:
    """Whether the attacker holds predictions that the certificate shows to each node alone."""
    shown = fitted.certificate.values["who_may_see"].get("anyone", ())
    public = any(one.startswith("predictions") for one in shown)
    return fitted.plan.unit.private and not public and "predict" in chosen.knowledge


def _attack(name: str, given: list[str]) -> Attack:
    """Build an attack with its settings as text; each takes the type of its default."""
    kind = ATTACKS[name]
    defaults = {field.name: field.default for field in fields(kind)}
    return kind(**settings_in(f"attack {name}", defaults, given))


def settings_in(name: str, defaults: Mapping[str, Any], given: list[str]) -> dict[str, Any]:
    """Return the settings that ``--set NAME=VALUE`` gives; each takes the type of its default."""
    settings: dict[str, Any] = {}
    for one in given:
        key, sign, text = one.partition("=")
        if not sign or key not in defaults:
            known, close = ", ".join(defaults) or "none", nearest(key, defaults)
            raise fail("--set", one, f"to be NAME=VALUE with a setting of {name}: {known}", close)
        settings[key] = _value(key, text, defaults[key])
    return settings


def _value(key: str, text: str, default: Any) -> Any:
    if isinstance(default, bool):
        return check_choice(("true", "false"), **{key: text.lower()}) == "true"
    kind = int if default is None else type(default)
    try:
        return kind(text)
    except ValueError as error:
        raise InputError(
            f"Expected {key} to be {'a whole number' if kind is int else 'a number'}, got {text!r}."
        ) from error
