"""`sfumato pate run`: what is fixed beforehand, what is charged, what may leave."""

import hashlib
import json
import math

import numpy as np
import pytest
from safetensors.numpy import load_file
from scipy.stats import norm

from sfumato.cli import invoke
from sfumato.errors import BudgetExceededError, DataError, InputError
from sfumato.pate import _run as module
from sfumato.pate._aggregation import ConfidentGNMax, GNMax, LNMax
from sfumato.pate._folder import load_student
from sfumato.pate._plan import ACCOUNTING, MECHANISMS, STUDENTS, Settings, choose_queries, make_plan
from sfumato.pate._run import run
from sfumato.privacy import accounting
from sfumato.record._dataset_ledger import DatasetLedger, read_account
from sfumato.record.ledger import Chain
from sfumato.verify import verify

TINY = {"student_settings": {"width": 4, "steps": 4, "batch_size": 8}, "controls": False}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_noise_is_calibrated_to_caps_before_data(mechanism):
    settings = Settings(250, 400, 3.0, mechanism=mechanism)
    plan = make_plan(settings)
    events = [release.event for release in plan.releases]
    assert 0.998 * 3 <= accounting.epsilon(events, 1e-5) <= plan.epsilon <= 3.0
    assert events[0].count == 400
    assert events[-1].count == settings.answers == (200 if mechanism == "confident-gnmax" else 400)
    noise = {"lnmax": "scale"}.get(mechanism, "noise_stddev")
    more = make_plan(Settings(250, 800, 3.0, mechanism=mechanism))
    assert getattr(more.mechanism, noise) > 1.3 * getattr(plan.mechanism, noise)


def test_given_noise_must_fit_the_budget():
    assert make_plan(Settings(250, 100, 20.0, mechanism=GNMax(40.0))).epsilon < 20.0
    with pytest.raises(InputError, match="epsilon to be at least"):
        make_plan(Settings(250, 100, 0.5, mechanism=GNMax(40.0)))


def test_published_noise_scales_with_teachers():
    settings = {"epsilon": 1.97, "accounting": "as-published"}
    assert make_plan(Settings(250, 640, **settings)).mechanism == ConfidentGNMax(200.0, 150.0, 40.0)
    assert make_plan(Settings(250, 640, mechanism="lnmax", **settings)).mechanism == LNMax(20.0)
    assert make_plan(Settings(50, 640, mechanism="gnmax", **settings)).mechanism == GNMax(8.0)


def test_queries_are_decided_by_the_seed_alone():
    assert choose_queries(50, 3).tolist() == choose_queries(60, 3)[:50].tolist()
    assert choose_queries(50, 3).tolist() != choose_queries(50, 4).tolist()
    rows = choose_queries(9000, 0)
    assert sorted(rows) == list(range(9000))  # none of the rows that measure


def test_run_releases_what_was_charged(images, votes, tmp_path):
    out, stages = tmp_path / "run", []
    settings = Settings(50, 30, 20.0, **TINY)
    told = run(settings, images, out, votes=votes, progress=lambda *event: stages.append(event))
    assert sorted(path.name for path in out.iterdir()) == ["evaluation", "ledger.jsonl", "release"]
    chain = Chain.parse((out / "release" / "ledger.jsonl").read_bytes())
    assert chain.problem is None
    assert [entry["kind"] for entry in chain.entries] == ["plan", "release", "release"]
    counts = [entry["release"]["event"]["count"] for entry in chain.entries[1:]]
    assert counts == [30, 15]  # every query asked, refused or not; the cap on answers
    found = load_file(out / "release" / "releases.safetensors")
    assert found["queries"].tolist() == choose_queries(30, 0).tolist()
    assert (found["answers"] >= 0).sum() == told["answered"] <= 15
    assert not (found["answers"][told["asked"] :] >= 0).any()
    assert load_file(out / "release" / "model.safetensors")["network.0.weight"].shape == (4, 588)
    spec = json.loads((out / "release" / "spec.json").read_text())
    assert "plurality" not in json.dumps(spec)  # clean votes stay in evaluation/
    assert json.loads((out / "evaluation" / "metrics.json").read_text()) == told
    certificate = json.loads((out / "release" / "certificate.json").read_text())
    assert certificate["claim"] == {"epsilon": told["privacy"]["epsilon"], "delta": 1e-5}
    assert told["privacy"]["epsilon"] <= 20.0
    assert stages[-1] == ("training the student", 4, 4)


def test_only_noisy_labels_reach_the_student(images, votes, tmp_path, monkeypatch):
    seen = []
    real = module.fit_student
    monkeypatch.setattr(module, "fit_student", lambda *given: seen.append(given) or real(*given))
    run(Settings(50, 30, 20.0, **{**TINY, "controls": True}), images, tmp_path / "run", votes=votes)
    found = load_file(tmp_path / "run" / "release" / "releases.safetensors")
    given = found["answers"] >= 0
    (_, _, rows, labels, _, stage), (*_, ceiling) = seen
    assert (stage, ceiling) == ("student", "ceiling")
    assert rows.tolist() == found["queries"][given].tolist()
    assert labels.tolist() == found["answers"][given].tolist()
    assert rows.max() < 60


@pytest.mark.parametrize("how", ACCOUNTING)
def test_what_may_leave(images, votes, tmp_path, how):
    out = tmp_path / "run"
    epsilon = {"data-independent": 20.0, "released": 100.0, "as-published": 20.0}[how]
    settings = Settings(50, 30, epsilon, mechanism=GNMax(20.0), accounting=how, **TINY)
    privacy = run(settings, images, out, votes=votes)["privacy"]
    assert privacy["releasable"] is (how != "as-published")
    assert (out / "release").exists() is privacy["releasable"]
    assert (out / "ledger.jsonl").exists()
    certified = (out / "release" / "certificate.json").exists()
    assert certified is privacy["certificate"] is (how == "data-independent")
    assert math.isclose(privacy["epsilon"], privacy["data_independent_epsilon"]) is (how == "data-independent")


@pytest.mark.parametrize("mechanism", [GNMax(20.0), LNMax(10.0)])
def test_a_release_without_certificate_says_why(images, votes, tmp_path, capsys, mechanism):
    settings = Settings(50, 30, 100.0, mechanism=mechanism, accounting="released", **TINY)
    told = run(settings, images, tmp_path / "run", votes=votes)
    spec = json.loads((tmp_path / "run" / "release" / "spec.json").read_text())
    assert "cannot be derived again without the votes" in spec["note"]
    assert spec["privacy"]["epsilon"] == told["privacy"]["epsilon"]
    assert "certificate.json: is missing" in verify(tmp_path / "run").problems
    assert load_student(tmp_path / "run").predict(images.test_x[:3]).shape == (3,)
    assert invoke(["predict", str(tmp_path / "run")]) == 2
    assert "load_student" in capsys.readouterr().err


def test_a_told_epsilon_above_the_budget_holds_the_student_back(images, votes, tmp_path):
    settings = Settings(50, 30, 0.1, mechanism=GNMax(20.0), accounting="released", **TINY)
    told = run(settings, images, tmp_path / "run", votes=votes)
    assert told["privacy"]["epsilon"] > 0.1
    assert not (tmp_path / "run" / "release").exists()


def test_votes_stop_and_calibrate_nothing(images, tmp_path):
    near, far = np.tile([26, 24], (60, 1)), np.tile([50, 0], (60, 1))
    plans = [run(Settings(50, 30, 5.0, mechanism="gnmax", **TINY), images, tmp_path / str(i), votes=v)
             for i, v in enumerate((near, far))]  # fmt: skip
    assert plans[0]["mechanism"] == plans[1]["mechanism"]
    assert plans[0]["privacy"] == plans[1]["privacy"]
    assert plans[0]["asked"] == plans[1]["asked"] == 30


@pytest.mark.parametrize("student", STUDENTS)
def test_a_student_is_verified_and_loaded_back(images, votes, tmp_path, monkeypatch, student):
    trained, real = [], module.fit_student
    monkeypatch.setattr(module, "fit_student", lambda *given: trained.append(real(*given)) or trained[0])
    small = TINY["student_settings"] if student == "consistency" else {"widths": (2, 4, 8), "epochs": 1}
    settings = Settings(50, 30, 20.0, mechanism="lnmax", student=student, student_settings=small, controls=False)
    run(settings, images, tmp_path / "run", votes=votes)
    assert verify(tmp_path / "run").problems == ()
    for path in (tmp_path / "run", tmp_path / "run" / "release"):
        loaded, x = load_student(path), images.test_x[60:]
        assert np.array_equal(loaded.predict_proba(x), trained[0].predict_proba(x))
        assert np.array_equal(loaded.predict(x), trained[0].predict(x))


def test_only_whole_runs_of_pate_are_loaded(done):
    path = done / "release" / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"model.safetensors .* differs from its manifest"):
        load_student(done)
    path.unlink()
    with pytest.raises(DataError, match="finished run folder"):
        load_student(done)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda spec: spec.update(method="gap"), "to be a run of method 'pate'"),
        (lambda spec: spec["settings"]["student"].update(slanted=True), "are not the certificate's"),
        (lambda spec: spec["public"].update(num_classes=3), "cannot be read"),
    ],
)
def test_a_spec_that_does_not_fit_is_refused(done, change, named):
    release = done / "release"
    spec, manifest = (json.loads((release / name).read_text()) for name in ("spec.json", "manifest.json"))
    change(spec)
    (release / "spec.json").write_text(json.dumps(spec))
    manifest["files"]["spec.json"] = hashlib.sha256((release / "spec.json").read_bytes()).hexdigest()
    (release / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match=named):
        load_student(done)


def test_votes_must_be_those_of_the_teachers(images, votes, tmp_path):
    with pytest.raises(InputError, match="Expected votes to be those of 49 teachers, got '50 a row'"):
        run(Settings(49, 30, 20.0, **TINY), images, tmp_path / "run", votes=votes)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("command", ["predict", "evaluate", "report", "cite"])
def test_commands_for_graphs_say_where_to_look(finished, capsys, command):
    assert invoke([command, str(finished)]) == 2
    assert "Load its student with sfumato.pate.load_student" in capsys.readouterr().err


def test_runs_on_one_data_set_add_up(images, votes, tmp_path):
    shared = DatasetLedger(tmp_path / "toy.jsonl", total_epsilon=5.0)
    settings = Settings(50, 30, 3.0, mechanism="gnmax", **TINY)
    run(settings, images, tmp_path / "first", votes=votes, dataset_ledger=shared)
    (claim,) = read_account(shared.path).claims
    assert (claim.method, claim.delta, claim.plan) == ("pate", 1e-5, _plan_hash(tmp_path / "first"))
    assert 2.99 <= claim.epsilon <= 3.0
    with pytest.raises(BudgetExceededError):
        run(settings, images, tmp_path / "second", votes=votes, dataset_ledger=shared)
    assert not (tmp_path / "second").exists()
    for how in ("released", "as-published"):
        told = Settings(50, 30, 100.0, mechanism=GNMax(20.0), accounting=how, **TINY)
        with pytest.raises(InputError, match="cannot be reserved"):
            run(told, images, tmp_path / "third", votes=votes, dataset_ledger=shared)


def _plan_hash(folder):
    return json.loads((folder / "ledger.jsonl").read_text().splitlines()[0])["hash"]


def test_teachers_are_trained_when_no_votes_are_given(images, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "QUICK", {"consistency": {}})
    told = run(Settings(3, 20, 50.0, quick=True, mechanism="gnmax", **TINY), images, tmp_path / "run")
    assert told["teachers"] == 3
    assert told["answered"] == 20


@pytest.mark.parametrize(
    ("fragment", "options"),
    [
        ("Expected --queries to be an integer >= 1 and <= 9000", ("--queries", "9001")),
        ("Expected --teachers ", ("--teachers", "0")),
        ("Expected --student ", ("--student", "nearest")),
        ("Expected --accounting ", ("--accounting", "mean")),
        ("Expected --dataset ", ("--dataset", "svhn")),
        ("Expected --seed ", ("--seed", "-1")),
        ("Expected --max-answers to be None", ("--mechanism", "gnmax", "--max-answers", "5")),
        ("Expected --max-answers to be an integer >= 1 and <= 10,", ("--max-answers", "11")),
        (
            "<= 100, got 200. There are as many queries: quick asks 100 at most",
            ("--quick", "--queries", "300", "--max-answers", "200"),
        ),
        ("Expected --sigma2 ", ("--mechanism", "gnmax", "--sigma2", "0")),
        ("Expected --sigma1 ", ("--threshold", "200", "--sigma1", "0", "--sigma2", "40")),
        ("--sigma2", ("--mechanism", "gnmax", "--sigma1", "40", "--sigma2", "40")),
        ("--ledger FILE", ("--total-epsilon", "5")),
        ("No file", ()),
    ],
)
def test_wrong_options_are_one_line(tmp_path, capsys, fragment, options):
    given = ["pate", "run", "--dataset", "mnist", "--data-dir", str(tmp_path), "--queries", "10", "--epsilon", "5"]
    code = invoke([*given, "--threads", "1", "--out", str(tmp_path / "out"), *options])
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert fragment in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("code", "fragment", "options"),
    [
        (2, "Expected --epsilon to be at most 53.", ("--epsilon", "1000")),
        (2, "Expected --epsilon to need noise of 2**-10 to 2**15 votes, got 1e-06. Raise", ("--epsilon", "1e-6")),
        (2, "Expected --epsilon to be at least 7.", ("--mechanism", "gnmax", "--sigma2", "5", "--epsilon", "5")),
        (2, "Expected the data-independent epsilon to be at most 53.", (
            "--mechanism", "gnmax", "--sigma2", "0.1", "--accounting", "as-published")),
        (2, "Expected BETA of --release", (
            "--mechanism", "gnmax", "--sigma2", "20", "--accounting", "released", "--release", "8,0.9,4")),
        (2, "Expected --ledger", ("--mechanism", "gnmax", "--sigma2", "20", "--accounting", "as-published",
                                  "--ledger", "toy.jsonl", "--total-epsilon", "9")),
        (1, "The teachers answered no query", ("--threshold", "500", "--sigma1", "10", "--sigma2", "20")),
    ],
)  # fmt: skip
def test_what_cannot_be_paid_or_learned_from_is_one_line(
    images, tmp_path, capsys, monkeypatch, code, fragment, options
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sfumato.pate._images.load_images", lambda *_: images)
    given = ["pate", "run", "--dataset", "mnist", "--data-dir", ".", "--teachers", "3", "--queries", "30", "--quick"]
    assert invoke([*given, "--epsilon", "40", "--threads", "1", "--out", "run", *options]) == code
    *_, err = capsys.readouterr().err.splitlines()
    assert fragment in err
    assert (tmp_path / "run").exists() is (code == 1)  # charged


def test_command_prints_one_object(images, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sfumato.pate._images.load_images", lambda *_: images)
    monkeypatch.setattr(module, "QUICK", {"consistency": TINY["student_settings"]})
    given = ["pate", "run", "--dataset", "mnist", "--data-dir", ".", "--teachers", "3", "--queries", "20", "--quick"]
    given += ["--epsilon", "50", "--mechanism", "gnmax", "--threads", "1", "--out", str(tmp_path / "run"), "--json"]
    assert invoke(given) == 0
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert {"student", "ceiling", "floor", "noisy_label_accuracy", "plurality_accuracy", "seconds", "peak_mb"} <= set(
        told
    )
    assert "teachers" in err
    assert "private" not in err
    assert [line.rpartition("[")[2] for line in err.splitlines() if line.startswith("Warning: ")] == ["epsilon-large]"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"teacher": "cnn", "device": "gpu"}, "device to be one of cpu, cuda"),
        ({"student": "gan", "student_settings": {"epochs": 0}}, "epochs to be an integer >= 1"),
    ],
)
def test_wrong_settings_cost_nothing(images, tmp_path, settings, said):
    ledger = DatasetLedger(tmp_path / "ledger.jsonl", total_epsilon=50.0)
    with pytest.raises(InputError, match=said):
        run(Settings(4, 30, 20.0, **settings), images, tmp_path / "run", dataset_ledger=ledger)
    assert not (tmp_path / "run").exists()
    assert not (tmp_path / "ledger.jsonl").exists()


def test_a_gan_needs_images_without_labels(images):
    with pytest.raises(InputError, match="num_queries to be below 60"):
        Settings(4, 60, 20.0, mechanism="gnmax", student="gan")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_answers_are_drawn_by_the_mechanism_that_was_charged(images, votes, tmp_path, monkeypatch, mechanism):
    drawn = []
    monkeypatch.setattr(module, "answer", lambda used, *rest, ask=module.answer: drawn.append(used) or ask(used, *rest))
    run(Settings(50, 30, 20.0, mechanism=mechanism, **TINY), images, tmp_path / "run", votes=votes)
    (used,) = drawn
    entries = [json.loads(line) for line in (tmp_path / "run" / "release" / "ledger.jsonl").read_text().splitlines()]
    charged = [entry["release"]["event"]["noise_multiplier"] for entry in entries if entry["kind"] == "release"]
    noise = [used.scale / 2] if mechanism == "lnmax" else [used.noise_stddev / math.sqrt(2)]
    if mechanism == "confident-gnmax":
        noise = [used.threshold_stddev, *noise]
    assert charged == pytest.approx(noise, rel=1e-12)


def test_noise_flips_as_many_answers_as_its_deviation_says():
    """Two classes, 60 votes apart, noise 40 each: P(flip) = Phi(-60 / (40 sqrt 2)); two thirds of the noise is refused."""
    counts, settings = np.tile([155, 95], (20_000, 1)), Settings(250, 1, 1.0, mechanism="gnmax")
    shares = [(module.answer(GNMax(noise), counts, settings).labels == 1).mean() for noise in (40.0, 40.0 * 2 / 3)]
    expected = norm.cdf(-60 / (40 * math.sqrt(2)))
    spread = 4 * math.sqrt(expected * (1 - expected) / len(counts))
    assert abs(shares[0] - expected) < spread < abs(shares[1] - expected)
