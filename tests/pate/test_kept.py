"""A run of PATE that is stopped after its answers goes on from them: charged once, told once, refused if anything differs."""

import json
import shutil
import stat
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from run_copies import contents
from safetensors.numpy import load_file

from sfumato.cli import invoke
from sfumato.errors import BudgetExceededError, DataError, InputError, LedgerError, SfumatoError
from sfumato.pate import _run as module
from sfumato.pate._aggregation import ConfidentGNMax, GNMax
from sfumato.pate._folder import load_student
from sfumato.pate._kept import holds_answers
from sfumato.pate._plan import Settings
from sfumato.pate._run import run
from sfumato.record import _release_folder as release_folder
from sfumato.record._dataset_ledger import DatasetLedger, read_account
from sfumato.record._sealed import read_sealed, write_sealed
from sfumato.verify import verify

SETTINGS = Settings(50, 30, 20.0, student_settings={"width": 4, "steps": 3, "batch_size": 8}, controls=False)
"""Those of the run that the fixture ``halted`` keeps."""


def stop(*_, **__):
    raise KeyboardInterrupt


@pytest.fixture
def stopped(images, votes, halted, tmp_path):
    """The folder of a run that was stopped while its student trained."""

    def begin(settings=SETTINGS, **given):
        if settings == SETTINGS and not given:
            return shutil.copytree(halted, tmp_path / "run")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "fit_student", stop)
            with pytest.raises(KeyboardInterrupt):
                run(settings, images, tmp_path / "run", votes=votes, **given)
        return tmp_path / "run"

    return begin


def forbid(monkeypatch):
    """From here on nobody is asked, nothing is drawn or told, and no ledger is written."""
    for name in ("_ask", "answered", "answer", "told"):
        monkeypatch.setattr(module, name, stop)
    monkeypatch.setattr("sfumato.record.ledger.append_line", stop)
    monkeypatch.setattr("sfumato.record._ledger_file.append_line", stop)


def test_a_stopped_run_goes_on_from_its_answers(images, stopped, monkeypatch, tmp_path):
    shared = DatasetLedger(tmp_path / "toy.jsonl", total_epsilon=50.0)
    out = stopped(dataset_ledger=shared)
    kept, ledger = json.loads((out / "private" / "answers.json").read_text()), (out / "ledger.jsonl").read_bytes()
    forbid(monkeypatch)
    stages = []
    told = run(SETTINGS, images, out, dataset_ledger=shared, progress=lambda stage, *_: stages.append(stage))
    assert told["resumed"]
    assert stages[:2] == ["answers of the stopped run: nothing is charged", "training the student"]
    assert verify(out).problems == ()
    assert (out / "release" / "ledger.jsonl").read_bytes() == (out / "ledger.jsonl").read_bytes() == ledger
    assert load_file(out / "release" / "releases.safetensors")["answers"].tolist() == kept["labels"]
    assert len(read_account(shared.path).claims) == 1
    assert sorted(path.name for path in out.iterdir()) == ["evaluation", "ledger.jsonl", "release"]
    with pytest.raises(InputError, match="new folder"):
        run(SETTINGS, images, out, dataset_ledger=shared)


def test_a_run_that_goes_on_says_what_one_that_was_not_stopped_says(images, votes, stopped, monkeypatch, tmp_path):
    settings = replace(SETTINGS, mechanism=GNMax(1.0), epsilon=1000.0, accounting="as-published", num_queries=5)
    whole = run(settings, images, tmp_path / "whole", votes=votes)
    told = run(settings, images, stopped(settings), votes=votes)
    for metrics in (whole, told):
        del metrics["seconds"]
    assert (whole.pop("resumed"), told.pop("resumed")) == (False, True)
    assert whole == told  # noise is too small to matter


def test_what_is_kept_is_for_the_owner_and_holds_neither_votes_nor_key(stopped, monkeypatch):
    drawn = []
    monkeypatch.setattr("sfumato.pate._aggregation.new_key", lambda: drawn.append(bytes(range(32))) or drawn[-1])
    out = stopped(replace(SETTINGS, epsilon=21.0))  # anew, with this key
    assert sorted(path.name for path in out.iterdir()) == ["ledger.jsonl", "private"]
    (file,) = (out / "private").iterdir()
    assert [stat.S_IMODE(path.stat().st_mode) for path in (file.parent, file)] == [0o700, 0o600]
    kept = json.loads(file.read_text())
    assert set(kept) == {"format", "terms", "labels", "asked", "mark", "privacy", "run", "scores", "seconds", "sha256"}
    assert np.shape(kept["labels"]) == (30,)
    assert drawn[0].hex() not in file.read_text()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"epsilon": 10.0}, "Expected epsilon 20.0, with which the stopped run in .* was started, got 10.0"),
        ({"num_queries": 20}, "Expected num_queries 30, "),
        ({"max_answers": 10}, "Expected max_answers None, "),
        ({"mechanism": ConfidentGNMax(40.0, 90.0, 60.0)}, "Expected mechanism "),
        ({"seed": 1}, "Expected seed 0, "),
        ({"accounting": "as-published", "mechanism": GNMax(20.0)}, "Expected accounting 'data-independent', "),
    ],
)
def test_other_settings_are_refused(images, stopped, changes, said):
    out = stopped()
    with pytest.raises(InputError, match=said):
        run(replace(SETTINGS, **changes), images, out)
    assert sorted(path.name for path in out.iterdir()) == ["ledger.jsonl", "private"]


def test_another_pool_and_another_ledger_are_refused(images, stopped, tmp_path):
    out = stopped()
    with pytest.raises(InputError, match="Expected images '"):
        run(SETTINGS, replace(images, test_x=images.test_x[::-1]), out)
    with pytest.raises(InputError, match="Expected dataset 'toy'"):
        run(SETTINGS, replace(images, name="mnist"), out)
    with pytest.raises(InputError, match="Expected dataset_ledger None"):
        run(SETTINGS, images, out, dataset_ledger=DatasetLedger(tmp_path / "toy.jsonl", total_epsilon=50.0))
    assert not (tmp_path / "toy.jsonl").exists()


def cut(path, lines):
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:lines]))


def alter_answers(out, **changes):
    path = out / "private" / "answers.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def seal(out, **changes):
    """Alter the answers, and their SHA-256 too."""
    path = out / "private" / "answers.json"
    write_sealed(path, {**read_sealed(path), **changes})


MALFORMED = [
    *({"labels": labels} for labels in ([], [0] * 29, [10**30] * 30, [0.5] * 30, [2] * 30, [-2] * 30, [-1] * 30, None)),
    {"labels": [[1, 0]] * 30},
    {"asked": 31},
    {"asked": "30"},
    {"privacy": {}},
    {"privacy": 3},
    {"scores": None},
    {"seconds": "long"},
    {"run": "someone"},
    {"mark": "0" * 32},
    {"terms": {}},
    {"terms": None},
]


@pytest.mark.parametrize(
    ("alter", "said"),
    [
        (lambda out: (out / "ledger.jsonl").unlink(), "No ledger"),
        (lambda out: cut(out / "ledger.jsonl", 0), "lacks charges"),
        (lambda out: (out / "ledger.jsonl").write_bytes((out / "ledger.jsonl").read_bytes()[:-9]), "lacks charges"),
        (lambda out: cut(out / "ledger.jsonl", 1), "lacks charges"),
        (lambda out: cut(out / "ledger.jsonl", 2), "lacks charges"),
        (lambda out: (out / "ledger.jsonl").write_text("{}\n"), "Line 1 of .* is not what this plan writes"),
        (lambda out: (out / "private" / "answers.json").write_text('{"terms":'), "is damaged"),
        (lambda out: (out / "private" / "answers.json").write_text("{}"), "is damaged"),
        (lambda out: (out / "private" / "answers.json").write_text("[]"), "is damaged"),
        (lambda out: alter_answers(out, asked=29), "is damaged .*SHA-256"),
        (lambda out: alter_answers(out, labels=[0] * 30), "is damaged .*SHA-256"),
        *((partial(seal, **change), "is damaged") for change in MALFORMED),
    ],
)
def test_altered_folders_are_refused(images, stopped, alter, said):
    out = stopped()
    alter(out)
    before = contents(out)
    with pytest.raises(LedgerError, match=said):
        run(SETTINGS, images, out)
    assert contents(out) == before


def test_without_answers_there_is_nothing_to_go_on_from(images, votes, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "keep", stop)
    with pytest.raises(KeyboardInterrupt):
        run(SETTINGS, images, tmp_path / "run", votes=votes)
    assert not holds_answers(tmp_path / "run")
    with pytest.raises(InputError, match="new folder"):
        run(SETTINGS, images, tmp_path / "run", votes=votes)


def test_another_student_may_learn_from_the_kept_answers(images, votes, monkeypatch, tmp_path):
    wild = replace(SETTINGS, student_settings={**SETTINGS.student_settings, "steps": 30, "learning_rate": 1e30})
    out = tmp_path / "run"
    with pytest.raises(SfumatoError, match=r"diverged.*a student of a lower learning rate may learn from them"):
        run(wild, images, out, votes=votes)
    forbid(monkeypatch)
    small = {"widths": (2, 4, 8), "epochs": 1}
    told = run(replace(wild, student="gan", student_settings=small, controls=True), images, out)
    assert (told["resumed"], told["student_name"], told["ceiling"] is None) == (True, "gan", False)
    assert verify(out).problems == ()
    stored = json.loads((out / "release" / "certificate.json").read_text())["settings"]["student"]
    assert (stored["name"], stored["epochs"], "learning_rate" in stored and stored["learning_rate"] == 1e30) == (
        "gan", 1, False)  # fmt: skip
    assert load_student(out).predict(images.test_x[60:]).shape == (20,)


@pytest.fixture
def shared(tmp_path):
    return DatasetLedger(tmp_path / "toy.jsonl", total_epsilon=50.0)


def lose(ledger):
    for path in (ledger.path, ledger.path.with_name("toy.jsonl.head")):
        path.unlink()


@pytest.mark.parametrize("answered", [False, True])
def test_a_run_that_goes_on_begins_no_ledger_in_place_of_a_lost_one(images, votes, stopped, shared, answered, tmp_path):
    out = tmp_path / "run"
    if answered:
        out = stopped(dataset_ledger=shared)
    else:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "_ask", stop)
            with pytest.raises(KeyboardInterrupt):
                run(SETTINGS, images, out, dataset_ledger=shared)
    (claim,) = read_account(shared.path).claims
    before, kept = contents(out), {path: path.read_bytes() for path in shared.path.parent.glob("toy.jsonl*")}
    lose(shared)
    with pytest.raises(InputError, match="no other is begun in its place"):
        run(SETTINGS, images, out, votes=votes, dataset_ledger=shared)
    assert contents(out) == before
    assert not shared.path.exists()
    for path, content in kept.items():
        path.write_bytes(content)
    assert run(SETTINGS, images, out, votes=votes, dataset_ledger=shared)["resumed"] == answered
    assert read_account(shared.path).claims == (claim,)


def test_a_damaged_or_spent_ledger_of_the_data_set_stops_a_run_that_goes_on(images, votes, stopped, shared, tmp_path):
    out = stopped(dataset_ledger=shared)
    before = contents(out)
    lines = shared.path.read_bytes()
    shared.path.write_bytes(lines.splitlines(keepends=True)[0])
    with pytest.raises(LedgerError, match="damaged"):
        run(SETTINGS, images, out, dataset_ledger=shared)
    lose(shared)
    run(replace(SETTINGS, epsilon=40.0), images, tmp_path / "other", votes=votes, dataset_ledger=shared)
    with pytest.raises(BudgetExceededError):
        run(SETTINGS, images, out, dataset_ledger=shared)
    assert contents(out) == before


@pytest.mark.parametrize("at", ["reserve", "reserved", "_ask"])
def test_a_run_stopped_before_its_answers_is_charged_once(images, votes, shared, tmp_path, at):
    out, real = tmp_path / "run", DatasetLedger.reserve
    with pytest.MonkeyPatch.context() as patch:
        if at == "_ask":
            patch.setattr(module, at, stop)
        else:
            patch.setattr(DatasetLedger, "reserve", lambda *a, **k: stop(at == "reserve" or real(*a, **k)))
        with pytest.raises(KeyboardInterrupt):
            run(SETTINGS, images, out, dataset_ledger=shared)
    assert list(contents(out)) == ["private/run.json"]
    assert [stat.S_IMODE(path.stat().st_mode) for path in (out / "private", out / "private" / "run.json")] == [
        0o700,
        0o600,
    ]
    name = json.loads((out / "private" / "run.json").read_text())["run"]
    (out / "private" / f"run.json.{2**40}.partial").write_text("{")
    with pytest.raises(InputError, match="Expected epsilon 20"):
        run(replace(SETTINGS, epsilon=10.0), images, out, votes=votes, dataset_ledger=shared)
    with pytest.raises(InputError, match="Expected dataset_ledger '"):
        run(SETTINGS, images, out, votes=votes)
    assert not run(SETTINGS, images, out, votes=votes, dataset_ledger=shared)["resumed"]
    assert [claim.run for claim in read_account(shared.path).claims] == [name]
    assert verify(out).problems == ()
    assert sorted(path.name for path in out.iterdir()) == ["evaluation", "ledger.jsonl", "release"]


def test_a_claim_is_used_once(images, votes, shared, tmp_path, monkeypatch):
    out, copy = tmp_path / "run", tmp_path / "copy"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_ask", stop)
        with pytest.raises(KeyboardInterrupt):
            run(SETTINGS, images, out, dataset_ledger=shared)
    shutil.copytree(out, copy)
    with pytest.raises(InputError, match="Expected out '"):
        run(SETTINGS, images, copy, votes=votes, dataset_ledger=shared)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "answer", stop)
        with pytest.raises(KeyboardInterrupt):
            run(SETTINGS, images, out, votes=votes, dataset_ledger=shared)
    assert list(contents(out)) == ["ledger.jsonl"]
    with pytest.raises(InputError, match="new folder"):
        run(SETTINGS, images, out, votes=votes, dataset_ledger=shared)
    assert len(read_account(shared.path).claims) == 1


def test_a_damaged_note_of_the_claim_is_refused(images, votes, shared, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_ask", stop)
    with pytest.raises(KeyboardInterrupt):
        run(SETTINGS, images, tmp_path / "run", dataset_ledger=shared)
    path = tmp_path / "run" / "private" / "run.json"
    name = json.loads(path.read_text())["run"]
    path.write_text(path.read_text().replace(name, "0" * 32))
    with pytest.raises(LedgerError, match=r"run.json', which a stopped run kept, is damaged"):
        run(SETTINGS, images, tmp_path / "run", votes=votes, dataset_ledger=shared)
    assert [claim.run for claim in read_account(shared.path).claims] == [name]


def test_a_folder_with_files_of_others_is_left_alone(images, votes, tmp_path):
    (tmp_path / "run" / "private").mkdir(parents=True)
    (tmp_path / "run" / "private" / "diary.txt").write_text("mine")
    with pytest.raises(InputError, match="new folder"):
        run(SETTINGS, images, tmp_path / "run", votes=votes)
    assert contents(tmp_path / "run") == {"private/diary.txt": b"mine"}


@pytest.mark.parametrize("last", ["certificate.json", "releases.safetensors", "manifest.json"])
def test_a_release_that_was_not_finished_leaves_nothing_and_is_written_anew(images, votes, tmp_path, monkeypatch, last):
    real, out = release_folder.whole_file, tmp_path / "run"

    def write(path):
        return stop() if path.name == last else real(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(release_folder, "whole_file", write)
        with pytest.raises(KeyboardInterrupt):
            run(SETTINGS, images, out, votes=votes)
    assert sorted(path.name for path in out.iterdir()) == ["evaluation", "ledger.jsonl", "private"]
    (out / "release").mkdir()
    (out / "release" / "spec.json").write_text("{}")  # as a kill leaves it
    assert "manifest.json: is missing" in verify(out).problems
    with pytest.raises(DataError, match="finished run folder"):
        load_student(out)
    forbid(monkeypatch)
    assert run(SETTINGS, images, out)["resumed"]
    assert verify(out).problems == ()


def test_an_epsilon_is_told_once(images, stopped, monkeypatch):
    settings = replace(SETTINGS, mechanism=GNMax(20.0), epsilon=100.0, accounting="released")
    out = stopped(settings)
    before = json.loads((out / "private" / "answers.json").read_text())["privacy"]
    forbid(monkeypatch)
    assert run(settings, images, out)["privacy"] == before
    assert json.loads((out / "release" / "spec.json").read_text())["privacy"] == before


def test_a_run_without_answers_failed_and_stays_charged(images, tmp_path):
    split = np.full((60, 2), 25)
    settings = replace(SETTINGS, mechanism=ConfidentGNMax(500.0, 10.0, 20.0))
    with pytest.raises(SfumatoError, match=r"answered no query.* stay charged") as caught:
        run(settings, images, tmp_path / "run", votes=split)
    assert not isinstance(caught.value, InputError)
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["ledger.jsonl"]


def test_the_command_goes_on_too(images, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("sfumato.pate._images.load_images", lambda *_: images)
    monkeypatch.setattr(module, "QUICK", {"consistency": SETTINGS.student_settings})
    out = tmp_path / "run"
    given = ["pate", "run", "--dataset", "mnist", "--data-dir", ".", "--teachers", "3", "--queries", "20", "--quick"]
    given += ["--epsilon", "50", "--mechanism", "gnmax", "--threads", "1", "--out", str(out), "--no-controls"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "fit_student", stop)
        assert invoke(given) == 130
    err = capsys.readouterr().err
    assert f"{out} keeps the teachers' answers: the same command goes on from them, and charges nothing." in err
    assert invoke([*given, "--seed", "1"]) == 2
    err = capsys.readouterr().err
    assert "Expected --seed 0, with which the stopped run" in err
    assert "goes on" not in err
    ledger = (out / "ledger.jsonl").read_bytes()
    (out / "ledger.jsonl").unlink()
    assert invoke(given) == 1
    assert "goes on" not in capsys.readouterr().err
    (out / "ledger.jsonl").write_bytes(ledger)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "write_folder", stop)
        assert invoke(given) == 130
    assert "the same command goes on from them" in capsys.readouterr().err
    assert invoke(given) == 0
    assert "Went on from the answers of the stopped run: nothing was charged." in capsys.readouterr().out
    assert invoke(["verify", str(out)]) == 0
    capsys.readouterr()
    assert invoke(given) == 2
    assert "Expected --out to be a new folder" in capsys.readouterr().err
