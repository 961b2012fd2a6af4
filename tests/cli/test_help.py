"""What a newcomer reads first: groups of options, the list of methods, completion."""

import json
from dataclasses import dataclass
from pathlib import Path

import typer
from typer.main import get_command
from typer.testing import CliRunner

from sfumato.catalog import WORDS
from sfumato.cli import app
from sfumato.cli._commands import COMMANDS, GROUPS
from sfumato.cli._options import Options
from sfumato.cli._table import DATA, option, takes


def test_train_shows_needed_options_first_and_with_help_all_every_option_once(sfumato):
    shown, every = sfumato("train", "--help").out, sfumato("train", "--help-all").out
    order = [
        "Arguments:",
        "Required",
        "--epsilon ",
        "Data:",
        "--schema",
        "Scores",
        "--seeds",
        "How it runs:",
        "--dry-run",
    ]
    assert order == sorted(order, key=shown.index)
    assert "--verbose" not in shown
    options = [name for param in get_command(app).commands["train"].params for name in param.opts if name[:2] == "--"]
    listed = {
        name: sum(line.strip().startswith((f"{name} ", f"{name},")) for line in every.splitlines()) for name in options
    }
    assert set(listed.values()) == {1}
    hidden = len(options) - sum(line.strip().startswith("--") for line in shown.splitlines())
    assert (
        f"sfumato train --help-all shows {hidden + 1} more options." in shown
    )  # --help is a line, and no option of the table


def test_the_list_of_commands_says_what_their_help_says():
    commands = get_command(app).commands
    assert {name: commands[name].get_short_help_str(1000) for name in commands} == {
        name: text for name, (_, text) in COMMANDS.items()
    }


def test_commands_are_listed_by_use(sfumato):
    shown = sfumato("--help").out
    assert list(COMMANDS)[:2] == ["new", "train"]
    places = [shown.index(f"\n{title}:\n") for title in GROUPS]
    assert places == sorted(places)
    lines = [line.split()[0] for line in shown[places[0] :].splitlines() if line.startswith("  ")]
    assert lines == list(COMMANDS)


def test_methods_are_explained(sfumato):
    shown, values = sfumato("methods").out, json.loads(sfumato("methods", "--json").out)
    assert set(values) == set(WORDS)
    for word in WORDS:
        assert word in shown
        assert word in sfumato("train", "--help").out.replace("-\n" + 16 * " ", "-")


def test_shells_complete_commands():
    words = {"COMP_WORDS": "sfumato tr", "COMP_CWORD": "1", "_SFUMATO_COMPLETE": "complete_bash"}
    result = CliRunner().invoke(app, [], env=words, prog_name="sfumato")
    assert result.output.split() == ["train"]


@dataclass(frozen=True, kw_only=True)
class Wider(Options):
    """The table with one more row."""

    smoothing: float | None = option("How much labels are smoothed.", DATA, "train tune", again=True)


def test_a_new_option_is_one_row():
    found, toy = [], typer.Typer(rich_markup_mode=None)

    @toy.command("train")
    @takes(Wider, "train")
    def train(context, values):
        """Train a method within a privacy budget."""
        found.append(Wider(**values))

    run = CliRunner()
    help_text = run.invoke(toy, ["--help"], env={"COLUMNS": "200"}).output
    assert "--smoothing" in help_text
    assert "How much labels are smoothed." in help_text
    given = "gap --smoothing 0.5 --label hiking --label chess --drop age --undirected --out x"
    assert run.invoke(toy, given.split()).exit_code == 0
    assert (found[0].smoothing, found[0].method, found[0].out, found[0].seeds) == (0.5, "gap", Path("x"), 1)
    assert (found[0].label, found[0].drop, found[0].directed) == (["hiking", "chess"], ("age",), False)
    words = {"COMP_WORDS": "toy gap --smoo", "COMP_CWORD": "2", "_TOY_COMPLETE": "complete_bash"}
    assert "--smoothing" in run.invoke(toy, [], env=words, prog_name="toy").output.split()
    assert "--smoothing" not in run.invoke(app, ["train", "--help"]).output
