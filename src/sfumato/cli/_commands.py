"""All commands by name: the list shows their first sentences, and the code of one is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

GROUPS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "Train on a graph": {
        "new": ("_new", "Start with your own tables: answer a few questions, and get a schema and a command line."),
        "train": ("_train", "Train a method within a privacy budget."),
        "check": (
            "_check",
            "Show what a run would read, release, cost and achieve, and everything that is wrong with it.",
        ),
        "tune": ("_tune", "Choose the settings of a method within a privacy budget."),
        "daily": ("_daily", "Learn day by day from edges that come and go, under one budget for a whole history."),
    },
    "Numbers about a graph": {
        "describe": (
            "_statistics",
            "Print numbers about a whole graph, each with an interval: edges, degrees, groups, triangles.",
        ),
        "twin": ("_twin", "Make a synthetic graph that may be given away, from the statistics that a run released."),
    },
    "Use a run": {
        "predict": (
            "_predict",
            "Predict the class (or labels, or number) of every node, score links (--pairs, --top), or write rows (--embeddings).",
        ),
        "evaluate": (
            "_run",
            "Score a run on its test nodes again, beside the floor that `train --save-floor` saved with it.",
        ),
        "serve": ("_serve", "Give predictions of a run over HTTP until Ctrl-C."),
        "export": ("_export", "Take a finished run into other tools."),
    },
    "Show a run, and sign it off": {
        "report": ("_report", "Write one page about a run."),
        "explain": (
            "_explain",
            "Print what an epsilon and a delta mean for one person: guesses, beliefs and odds at most.",
        ),
        "verify": ("_run", "Check a run, or a ledger with all its runs, without trusting it."),
        "ledger": ("_ledger", "Show what the runs on a data set or a population have spent."),
        "cite": ("_report", "Print BibTeX entries for what a run used."),
    },
    "Attack a run, and test its claim": {
        "attack": ("_attack", "Run an attack on the model of a run, and measure what it infers."),
        "audit": ("_audit", "Test the claim of a method or a run by attacks, and print the epsilon that they prove."),
        "invert": (
            "_invert",
            "Search an image of each class in the weights of a run, and measure how near it comes to training images.",
        ),
    },
    "Reports of devices, votes of teachers": {
        "collect": ("_collect", "Collect reports that users' devices randomize."),
        "pate": ("_pate", "Learn from the noisy votes of teachers (PATE)."),
    },
    "Compare methods": {
        "methods": ("_methods", "List the methods that can be trained, or explain the settings of one."),
        "experiment": ("_experiment", "Reproduce published tables and figures."),
    },
    "Prepare data and budgets": {
        "datasets": (
            "_data",
            "List the named data sets and those whose files are there, or say where the files of one come from.",
        ),
        "data": ("_store", "Import and check stored graphs."),
        "text": ("_text", "Turn texts into features of nodes."),
        "budget": ("_budget", "Compute an epsilon or the noise for it, without data."),
    },
}
"""Of each command its module, and the first sentence of its help, under what it is used for. The module has the commands below
it in ``app``, or a function of this name."""
COMMANDS = {name: told for group in GROUPS.values() for name, told in group.items()}
_MANY_OPTIONS = ("train", "check", "tune", "describe")


class StopError(Exception):
    """Ctrl-C stopped a command. The text says what is charged and how to go on."""


class Commands(TyperGroup):
    """All commands of the command line, which say what a stop by Ctrl-C costs. Those of Typer would end in silence.

    >>> list(Commands(name="sfumato").commands)[:3]
    ['new', 'train', 'check']
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _Imported()

    def invoke(self, ctx: Any) -> Any:
        """Run the command that the context names."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            from sfumato.evaluation._kept import NOTHING, notes_of

            raise StopError(f"Stopped. {notes_of(error) or NOTHING}") from error

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands by what they are used for; none of them is imported."""
        width = max(map(len, COMMANDS))
        for title, group in GROUPS.items():
            listed = {name: TyperCommand(name, help=text) for name, (_, text) in group.items()}
            with formatter.section(title):
                formatter.write_dl(
                    [
                        (f"{name:<{width}}", one.get_short_help_str(formatter.width - width - 6))
                        for name, one in listed.items()
                    ]
                )


class _Imported(MutableMapping[str, Any]):
    """Commands by name, each of which is imported when it is read."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = _command(name, COMMANDS[name][0])
        return self._made[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


def _command(name: str, module: str) -> Any:
    found, alone = import_module(f"sfumato.cli.{module}"), typer.Typer(rich_markup_mode=None)
    if hasattr(found, "app"):
        alone.add_typer(found.app, name=name)
    elif name in _MANY_OPTIONS:
        from sfumato.cli._grouped import GroupedCommand

        alone.command(name, cls=GroupedCommand)(getattr(found, name))
    else:
        alone.command(name)(getattr(found, name))
    alone.callback()(lambda: None)
    return typer.main.get_group(alone).commands[name]
