"""The options of a run again: as the private state of a resumable one keeps them, and as the words of another command line."""

from __future__ import annotations

import re
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.catalog import method_for
from sfumato.cli._options import Options
from sfumato.cli._table import paths, rows, spelled
from sfumato.errors import InputError
from sfumato.evaluation._kept import PRIVATE
from sfumato.method._settings import read_settings, settings_of
from sfumato.record._deployment import Deployment

if TYPE_CHECKING:
    import typer

    from sfumato.record._resume import FitState

_ROWS, _PATHS = rows(Options), paths(Options)
_REPEATED = tuple(one.name for one in fields(Options) if one.default == ())


def again(options: Options) -> tuple[str, ...]:
    """Return the words of a command line that name the same graph, unit and budget, for a run of another method."""
    from sfumato.evaluation._source import Source

    words: list[str] = []
    for name in (name for name, row in _ROWS.items() if row.again):
        value = getattr(options, name)
        if isinstance(value, bool):
            words += [spelled(name)] if value else ["--undirected"] if name == "directed" else []
        elif value not in (None, ()) and (name, value) != ("split", Source.split):
            values = value if isinstance(value, (list, tuple)) else [value]
            words += [word for one in values for word in (spelled(name), f"{one}")]
    return tuple(words)


def to_json(options: Options) -> dict[str, Any]:
    """Return the form that the private state keeps: JSON values, with absolute paths."""
    from sfumato.text._encoders import absolute

    kept = {
        name: value for name, value in asdict(options).items() if "train" in (row := _ROWS[name]).help and row.decides
    }
    kept["text_features"] = options.text_features and absolute(options.text_features)
    return {**kept, **{name: str(kept[name].resolve()) for name in _PATHS if kept.get(name) is not None}}


def from_json(values: dict[str, Any]) -> Options:
    """Read back the options that :func:`to_json` wrote."""
    found = {name: Path(values[name]) for name in _PATHS if values.get(name) is not None}
    record = values.get("deployment")
    lists = {name: tuple(value) for name, value in values.items() if name in _REPEATED}
    known = {name: value for name, value in values.items() if name in _ROWS}  # earlier versions had more
    return Options(**{**known, **found, **lists, "deployment": None if record is None else Deployment(**record)})


def take_up(run: Path, context: typer.Context, values: dict[str, Any]) -> tuple[Options, FitState]:
    """Return the options and the private state of a stopped run."""
    from sfumato.record._resume import FitState

    private = run / PRIVATE
    if not (private / "state.json").exists():
        raise InputError(_not_resumable(run))
    state = FitState.open(private)
    options = replace(from_json(state.options), out=run)
    for name, value in values.items():
        source = context.get_parameter_source(name)
        if not _ROWS[name].decides or source is None or source.name != "COMMANDLINE":
            continue
        stored = getattr(options, name)
        try:
            stored, value = _settings(options, value) if name == "set" else (stored, value)
            if not _same(name, value, stored):
                raise InputError(
                    f"Expected {spelled(name)} {_shown(stored)}, with which the run was started, got {_shown(value)}. Leave "
                    "it out: --resume takes all options from the run."
                )
        except InputError:
            state.close()
            raise
    return options, state


def _settings(options: Options, words: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The settings that ``words`` name, as the run has them and as given, each as NAME=VALUE."""
    made = method_for(options.method, asdict(options), options.dataset or "")
    known, given = settings_of(type(made)), read_settings(type(made), words)

    def spelled_out(values: dict[str, Any]) -> tuple[str, ...]:
        return tuple(f"{name}={known[name]._replace(default=values[name]).usual}" for name in given)

    return spelled_out(vars(made)), spelled_out(given)


def _same(name: str, value: Any, stored: Any) -> bool:
    from sfumato.text._encoders import absolute

    if stored is None:
        return False
    if isinstance(stored, tuple):
        return set(value) == set(stored)
    if name == "deployment":
        return bool(Deployment.read(value) == stored)
    if name in _PATHS:
        return bool(value.resolve() == stored.resolve())
    if name == "text_features":
        return absolute(value) == stored
    return bool(value == stored)


def _not_resumable(run: Path) -> str:
    if (run / "release" / "manifest.json").exists():
        return f"Expected a run that was stopped, but {str(run)!r} is finished. Check it: sfumato verify {run}"
    if (run / "release").exists():
        return (
            f"Run {str(run)!r} was stopped and was not started with --resumable: its noise cannot be repeated. What its "
            "ledgers name stays charged. Start a new run in a new folder."
        )
    return (
        f"Expected the folder of a run that was started with --resumable and stopped, got {str(run)!r}. Check the path."
    )


def _shown(value: object) -> str:
    return "none" if value in (None, ()) else " ".join(value) if isinstance(value, tuple) else str(value)


def by_options(text: str) -> str:
    """Name options where a text of the library names its arguments, in backticks."""
    return re.sub("`([a-z_]+)`", lambda found: spelled(found[1]) if found[1] in _ROWS else found[0], text)
