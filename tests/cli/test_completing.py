"""Behind a Tab a shell offers the runs below a folder, and the columns of the tables that the line names."""

import pytest
from typer.testing import CliRunner

from sfumato.cli import app
from sfumato.cli._output import _log_stages


def offered(line):
    words = {
        "COMP_WORDS": f"sfumato {line}",
        "COMP_CWORD": str(line.count(" ") + 1),
        "_SFUMATO_COMPLETE": "complete_bash",
    }
    return sorted(CliRunner().invoke(app, [], env=words, prog_name="sfumato").output.split())


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "n.csv").write_text("id,age,year\n1,2,3\n")
    (tmp_path / "e.csv").write_text("source,target,years\n1,1,2\n")
    for run in ("runs/first", "runs/deep/second", "third"):
        (tmp_path / run / "release").mkdir(parents=True)
        (tmp_path / run / "release" / "manifest.json").touch()
    (tmp_path / "runs" / "stopped" / "release").mkdir(parents=True)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("verify ", ["runs/deep/second", "runs/first", "third"]),
        ("predict ru", ["runs/deep/second", "runs/first"]),
        ("report runs/f", ["runs/first"]),
        ("attack links runs/d", ["runs/deep/second"]),
        ("train gap --nodes n.csv --edges e.csv --label ye", ["year", "years"]),
        ("describe --nodes n.csv --edges e.csv --by a", ["age"]),
        ("train gap --nodes absent.csv --label y", []),
        ("train gap --label y", []),
    ],
)
def test_runs_and_columns_are_offered(line, found):
    assert offered(line) == found


def test_a_log_says_how_much_of_a_long_stage_is_left(capsys):
    times = iter((0.0, 10.0, 25.0, 30.0, 50.0))
    report = _log_stages(lambda: next(times))
    for done in (0, 20, 50, 60, 100):
        report("fitting", done, 100)
    assert capsys.readouterr().err.splitlines() == ["fitting ...", "fitting: 50 %, about 25 s left"]
