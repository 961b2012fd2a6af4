"""What a newcomer reads first: groups of options, the list of methods, completion."""

import json

from typer.main import get_command
from typer.testing import CliRunner

from sfumato.catalog import WORDS
from sfumato.cli import app


def test_train_shows_needed_options_first_and_every_option_once(sfumato):
    shown = sfumato("train", "--help").out
    order = ("Arguments:", "Needed", "--epsilon ", "Data:", "--schema", "Method:", "How it runs:", "--verbose")
    assert [*order] == sorted(order, key=shown.index)
    options = [name for param in get_command(app).commands["train"].params for name in param.opts if name[:2] == "--"]
    for name in options:
        lines = [line for line in shown.splitlines() if line.strip().startswith((f"{name} ", f"{name},"))]
        assert len(lines) == 1, name


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
