"""Two commands make one run folder at once: the first finishes as if alone, the second says so and changes nothing.

The second command runs inside the first one, at a fixed step of it, as if it had looked at the folder before the first began.
"""

from pkgutil import resolve_name

import pytest

from sfumato.record._dataset_ledger import read_account
from sfumato.verify import verify

EDGE = ("--unit", "edge", "--epsilon", "1", "--delta", "1e-6", "--threads", "1", "--no-controls")
RESERVE, CHARGE = "sfumato.method._engine.Spending.reserve", "sfumato.method.contract.Session.charge"


def contents(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def shared(tmp_path):
    return ("--ledger", tmp_path / "l.jsonl", "--total-epsilon", "900", "--total-delta", "0.1")


@pytest.fixture
def commands(sfumato, tables, tmp_path):
    """One command of each kind that makes the folder ``run``, and the options that it shares with no other."""
    candidates = tmp_path / "candidates.toml"
    candidates.write_text("[[candidate]]\nepochs = 1\n[[candidate]]\nepochs = 2\n")

    def made(kind):
        train = ("train", "gap", *tables["first"], *EDGE, "--hops", "1")
        if kind == "predict":
            assert sfumato(*train, "--out", tmp_path / "base").code == 0
            budget = ("--epsilon", "1", "--delta", "1e-6", "--new-run", tmp_path / "run")
            return ("predict", tmp_path / "base", *tables["second"], *budget, "--out", tmp_path / "p.csv")
        if kind == "tune":
            train = ("tune", "gap", *tables["first"], *EDGE, "--candidates", candidates, "--trials", "2")
        return (*train, *(["--resumable"] if kind == "resumable" else []), "--out", tmp_path / "run")

    return made


@pytest.fixture
def twice(sfumato, tmp_path, monkeypatch):
    """Run a command, and the same one again at a step of the first; both results."""

    def run(at, *command, after=False):
        real, results, changed = resolve_name(at), [], []

        def second():
            if not results:
                results.append(None)
                before = contents(tmp_path)
                results[0] = sfumato(*command)
                changed.append(contents(tmp_path) != before)

        def step(*given, **named):
            if not after:
                second()
            found = real(*given, **named)
            second()
            return found

        with monkeypatch.context() as patch:
            patch.setattr("sfumato.record._release_folder.check_new_folder", lambda directory: None)
            patch.setattr(at, step)
            first = sfumato(*command)
        assert changed == [False]
        return first, results[0]

    return run


def refused(result, run):
    assert (result.code, result.out) == (2, "")
    last = result.err.strip().splitlines()[-1]
    assert last.startswith("Error: ")
    assert f"got '{run}', in which another run is at work. This one charged nothing" in last
    assert "stay charged" not in last
    assert "To go on" not in last


@pytest.mark.parametrize("step", [RESERVE, CHARGE], ids=["before the charge", "after it"])
@pytest.mark.parametrize("kind", ["plain", "resumable", "tune", "predict"])
def test_the_first_finishes_and_the_second_charges_nothing(twice, commands, shared, tmp_path, kind, step):
    first, second = twice(step, *commands(kind), *shared, after=step == CHARGE)
    refused(second, tmp_path / "run")
    assert first.code == 0, first.err
    assert verify(tmp_path / "run").problems == ()
    account = read_account(tmp_path / "l.jsonl")
    assert [account.state(claim) for claim in account.claims] == ["spent"]
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        "release",
        "evaluation",
        "guarantee.txt",
        "identity.json",
    }


@pytest.mark.parametrize("charged", [False, True], ids=["alone", "ledger"])
def test_a_run_of_pate_finishes_too(twice, pate, shared, tmp_path, charged):
    out = tmp_path / "run"
    first, second = twice("sfumato.pate._run._ask", *pate, "--out", out, *(shared if charged else ()))
    refused(second, out)
    assert first.code == 0, first.err
    assert verify(out).problems == ()
    if charged:
        account = read_account(tmp_path / "l.jsonl")
        assert [account.state(claim) for claim in account.claims] == ["spent"]


KILLS = {
    "while data are read": ("plain", "sfumato.evaluation._source.Source.load"),
    "before the claim": ("plain", RESERVE),
    "before the claim of a prediction": ("predict", RESERVE),
    "before the claim of a selection": ("tune", RESERVE),
    "before the private state": ("resumable", "sfumato.record._resume.FitState._write"),
    "inside the private state": ("resumable", "pathlib.Path.replace"),
}


@pytest.mark.parametrize("kill", KILLS)
def test_a_run_that_was_killed_before_its_charge_leaves_a_folder_that_counts_as_new(
    signaled, sfumato, commands, shared, tmp_path, kill
):
    kind, at = KILLS[kill]
    command = (*commands(kind), *shared)
    assert signaled(at, *command, signal="SIGKILL").code == -9
    assert not (tmp_path / "l.jsonl").exists()
    result = sfumato(*command)
    assert result.code == 0, result.err
    assert verify(tmp_path / "run").problems == ()
    assert len(read_account(tmp_path / "l.jsonl").claims) == 1
    assert not [path for path in (tmp_path / "run").rglob("*") if "lock" in path.name or path.name == "private"]
