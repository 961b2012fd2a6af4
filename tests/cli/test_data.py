"""Where commands look for named data sets: --data-dir, the run, or the environment."""

from pathlib import Path

import pytest
import typer

from sfumato.cli import _data as data
from sfumato.cli import app
from sfumato.cli._options import of
from sfumato.evaluation._source import Source


def options(command):
    """Every --data-dir of a command and of those below it."""
    for child in getattr(command, "commands", {}).values():
        yield from options(child)
    yield from (one for one in command.params if "--data-dir" in one.opts)


def test_every_command_takes_the_folder_from_the_environment_and_says_so():
    found = list(options(typer.main.get_command(app)))
    assert len(found) >= 10
    for option in found:
        assert option.envvar == "SFUMATO_DATA"
        assert "(default: the environment variable SFUMATO_DATA)" in option.help


def test_the_environment_names_the_folder(sfumato, monkeypatch, tmp_path):
    (tmp_path / "facebook100").mkdir()
    (tmp_path / "facebook100" / "Mine7.mat").touch()
    assert "Mine7" not in sfumato("datasets").out
    monkeypatch.setenv("SFUMATO_DATA", str(tmp_path))
    assert "Mine7" in sfumato("datasets").out
    assert sfumato("datasets", "--data-dir", tmp_path / "absent").code == 2
    result = sfumato("experiment", "run", "gap-table-4-2", "--quick", "--results", tmp_path / "out")
    assert f"are not in the data folder '{tmp_path}'" in result.err
    monkeypatch.setenv("SFUMATO_DATA", "")
    assert "Mine7" not in sfumato("datasets").out


@pytest.mark.parametrize(
    ("option", "stored", "environment", "expected"),
    [
        ("told", "run", "shell", "told"),
        (None, "run", "shell", "run"),
        (None, None, "shell", "shell"),
        (None, "run", None, "run"),
    ],
)
def test_the_folder_of_a_run_comes_before_the_environment(monkeypatch, option, stored, environment, expected):
    found = []

    def show(context: typer.Context, data_dir: Path | None = of("data_dir")):
        named = {"dataset": None, "data_dir": data_dir and str(data_dir)}
        found.append(data.in_place_of(Source("planetoid/cora", stored), named, context))

    if environment:
        monkeypatch.setenv("SFUMATO_DATA", environment)
    small = typer.Typer()
    small.command()(show)
    small(["--data-dir", option] if option else [], standalone_mode=False)
    assert found == [Source("planetoid/cora", expected)]
