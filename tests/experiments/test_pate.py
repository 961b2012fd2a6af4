"""PATE in specifications: settings are checked when read, votes are trained once and kept private, published costs bind."""

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sfumato.cli import invoke
from sfumato.errors import InputError
from sfumato.experiments import _pate as pate
from sfumato.experiments import _pate as pate_votes
from sfumato.experiments._pate_settings import PateCell
from sfumato.experiments._results import belonging, read, summarize
from sfumato.experiments._runner import run
from sfumato.experiments._spec import SPECS, Spec, find
from sfumato.pate import _plan as plan
from sfumato.pate import _run as pate_run
from sfumato.pate._aggregation import ConfidentGNMax
from sfumato.pate._analysis import analyze
from sfumato.pate._ensemble import Ensemble
from sfumato.pate._images import Images
from sfumato.pate._votes import read_votes
from sfumato.report import experiment_markdown

FEW = {"teachers": 3, "queries": 20}
TINY = """
epsilons = [5]

[[run]]
label = "Ours"
method = "pate"
unit = "record"
epsilons = [4, 5]
delta = 1e-5
[run.settings]
teachers = 3
queries = 20
mechanism = "gnmax"
sigma2 = { "4" = 10.0, "5" = 8.0 }
accounting = "as-published"
student_steps = 2
student_width = 4

[[run]]
label = "Floor"
method = "pate"
unit = "record"
epsilons = [5]
delta = 1e-5
role = "floor"
settings = { teachers = 3, queries = 20, mechanism = "gnmax", student = "edge-ridge" }

[[run]]
label = "True labels"
method = "pate"
unit = "none"
role = "ceiling"
settings = { labels = "true", queries = 20, student_steps = 2, student_width = 4 }

[[published]]
label = "Ours"
epsilon = 5
value = 80.0
source = "Table 1"
"""


@pytest.fixture
def path(spec_file):
    return spec_file("tiny", TINY, dataset="mnist", split="public", seeds=2)


@pytest.fixture
def trained(monkeypatch, tmp_path):
    """Sixty public images of two classes, teachers of two steps; the seeds of the ensembles that were trained."""
    for holder in (plan, pate_run):
        monkeypatch.setattr(holder, "POOL", 60)
    x = np.random.default_rng(0).random((80, 1, 28, 28)).astype(np.float32)
    y = np.arange(80) % 2
    x[y == 0] *= 0.3
    images = Images("mnist", x[:40], y[:40], x, y, num_classes=2)
    monkeypatch.setattr(pate, "_images", lambda *_: images)
    monkeypatch.setattr(pate, "_device", lambda: "cpu")
    seeds = []

    class Small(Ensemble):
        def fit(self, *records):
            seeds.append(self.seed)
            return super().fit(*records)

    def make_ensemble(settings, dataset, num_classes):
        return Small(settings.num_teachers, num_classes, widths=(2, 2), steps=2, seed=settings.seed)

    monkeypatch.setattr(pate_run, "make_ensemble", make_ensemble)
    (tmp_path / "data" / "mnist").mkdir(parents=True)
    return seeds


def test_teachers_are_trained_once_a_seed_and_cells_go_on(path, trained, tmp_path):
    spec = Spec.read(path)
    assert run(spec, tmp_path / "out", profile="quick", data_dir=tmp_path / "data").done == 3
    assert trained == [0]
    outcome = run(spec, tmp_path / "out", data_dir=tmp_path / "data")
    assert (outcome.before, outcome.done) == (3, 5)
    assert trained == [0, 1]
    ours, floor, ceiling = (row for row in read(outcome.path) if row["profile"] == "quick")
    assert ours["metrics"]["answered"] == 20
    assert 0 < ours["metrics"]["published_epsilon"] <= 5
    assert ours["certificate"] is None
    assert floor["certificate"]["claim"]["epsilon"] <= 5
    assert "answered" not in ceiling["metrics"]
    assert set(ours["seconds"]) == {"train", "teachers", "total"}
    assert all(0 <= row["metrics"]["accuracy"] <= 1 for row in (ours, floor, ceiling))


def test_votes_and_keys_are_for_the_owner_alone(path, trained, tmp_path):
    run(Spec.read(path), tmp_path / "out", profile="quick", data_dir=tmp_path / "data")
    folder = tmp_path / "out" / "teachers"
    votes, key = sorted(folder.glob("*.npy"))[0], sorted(folder.glob("*.key"))[0]
    assert [stat.S_IMODE(file.stat().st_mode) for file in (folder, votes, key)] == [0o700, 0o600, 0o600]
    assert np.load(votes).shape == (60, 2)
    assert not list(folder.glob("*.partial"))


def test_students_of_a_seed_learn_from_the_same_answers(path, trained, tmp_path, monkeypatch):
    seen = []

    def fit_student(settings, images, rows, labels, progress, stage):
        seen.append((rows.tolist(), labels.tolist()))
        return pate_run.fit_floor(images, rows, labels)

    monkeypatch.setattr(pate_run, "fit_student", fit_student)
    text = path.read_text().partition("[[published]]")[0]
    again = text[text.index("[[run]]") : text.index('[[run]]\nlabel = "Floor"')].replace("Ours", "Again")
    path.write_text(text + again.replace("student_steps = 2\nstudent_width = 4", 'student = "gan"'))
    run(replace(Spec.read(path), seeds=1), tmp_path / "out", data_dir=tmp_path / "data")
    first, larger, _, same, again_larger = seen
    assert (first, larger) == (same, again_larger)
    assert first != larger
    assert len(first[1]) == 20


def test_a_second_process_waits_for_the_first(path, trained, tmp_path):
    images = pate._images("mnist", "")

    def bank(_):
        return pate_votes.banked(PateCell.read(FEW, 4.0), images, tmp_path, tmp_path / "out")

    with ThreadPoolExecutor(2) as pool:
        (first, key), (second, same) = pool.map(bank, range(2))
    assert trained == [0]
    assert (first == second).all()
    assert key == same


def test_other_images_of_the_same_name_get_votes_of_their_own(trained, tmp_path):
    images = pate._images("mnist", "")

    def banked(one):
        return pate_votes.banked(PateCell.read(FEW, 4.0), one, tmp_path, tmp_path / "out")

    _, key = banked(images)
    others = [
        replace(images, train_y=images.train_y[::-1].copy()),
        replace(images, train_x=1 - images.train_x),
        replace(images, test_x=1 - images.test_x),
    ]
    keys = {banked(one)[1] for one in others}
    assert trained == [0] * 4
    assert len({key, *keys}) == 4
    again = replace(images, train_x=images.train_x.copy(), test_y=images.test_y[::-1])
    assert banked(again)[1] == key
    assert trained == [0] * 4


def test_official_votes_are_read_whatever_the_images(trained, tmp_path):
    (tmp_path / "data" / "pate_votes").mkdir()
    stored = np.tile([200.0, 50.0], (60, 1))
    np.save(tmp_path / "data" / "pate_votes" / "mnist_250_teachers.npy", stored)
    chosen = PateCell.read({"votes": "official", "queries": 20}, 4.0)
    given = chosen, pate._images("mnist", ""), tmp_path / "data", tmp_path / "out"
    votes, key = pate_votes.banked(*given)
    assert (votes == stored).all()
    assert pate_votes.banked(*given)[1] == key
    assert trained == []


def test_damaged_votes_are_named(path, trained, tmp_path):
    given = PateCell.read(FEW, 4.0), pate._images("mnist", ""), tmp_path, tmp_path / "out"
    pate_votes.banked(*given)
    (file,) = (tmp_path / "out" / "teachers").glob("*.npy")
    np.save(file, np.load(file)[:50])
    with pytest.raises(
        InputError, match=r"to hold 60 rows of 2 classes and 3 votes, got '\[50, 2\], 3 votes a row'. Delete"
    ):
        pate_votes.banked(*given)


def test_votes_above_the_budget_are_refused(path, trained, tmp_path):
    path.write_text(path.read_text().replace("[4, 5]", "[3, 5]").replace('"4" =', '"3" ='))
    with pytest.raises(InputError, match=r"Ours, epsilon 3, seed 0: Expected epsilon to be at least \d.* Add noise"):
        run(Spec.read(path), tmp_path / "out", data_dir=tmp_path / "data")
    assert not (tmp_path / "out" / "tiny" / "results.jsonl").exists()


def test_a_report_shows_answers_and_no_graph(path, trained, tmp_path):
    spec = Spec.read(path)
    outcome = run(spec, tmp_path / "out", data_dir=tmp_path / "data")
    rows = belonging(read(outcome.path), spec)
    page = experiment_markdown(spec, rows)
    assert "Answers of the teachers" in page
    assert "| Ours | 5 | 20 |" in page
    assert "raph" not in page
    assert [line.label for line in summarize(rows, spec)] == ["Ours", "Ours", "Floor", "True labels"]


def test_small_fits_stand_beside_nothing_published(path, trained, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(pate_run, "QUICK", {"consistency": {"steps": 2, "width": 4}})
    path.write_text(path.read_text().replace("minutes = 0.1", "minutes = 0.1\nsmall = true"))
    spec = Spec.read(path)
    small = spec.shrunk()
    assert {dict(cell.settings)["quick"] for cell in small.cells()} == {True}
    assert not small.published
    assert not {cell.id for cell in small.cells()} & {cell.id for cell in spec.cells()}
    place = ["--results", str(tmp_path / "out")]
    assert invoke(["experiment", "run", str(path), "--quick", *place, "--data-dir", str(tmp_path / "data")]) == 0
    assert {row["settings"]["quick"] for row in read(tmp_path / "out" / "tiny")} == {True}
    assert all(row["certificate"] for row in read(tmp_path / "out" / "tiny") if row["unit"] == "record")
    assert invoke(["experiment", "report", str(path), *place, "--out", str(tmp_path / "page.md")]) == 0
    page = (tmp_path / "page.md").read_text()
    assert "80.0" not in page
    assert "Small fits of --quick" in page
    assert "3 of 3 cells" in capsys.readouterr().err


def test_settings_become_those_of_the_plan():
    flat = {
        "threshold": 200.0,
        "sigma1": 150.0,
        "sigma2": 40.0,
        "queries": 640,
        "max_answers": 640,
        "student": "pate-plus",
    }
    flat |= {"student_noise_rate": 0.3, "student_widths": "8,16,32"}
    settings = PateCell.read(flat, 4.0, 1e-5, 3, "cuda").plan
    assert settings.mechanism == ConfidentGNMax(200.0, 150.0, 40.0)
    assert (settings.num_queries, settings.answers, settings.seed) == (640, 640, 3)
    assert settings.student_settings == {"widths": (8, 16, 32), "noise_rate": 0.3, "device": "cuda"}
    assert PateCell.read({}, 4.0, 1e-5, 3, "cuda").plan.student_settings == {}  # this student takes no device
    small = PateCell.read({**flat, "quick": True}, 4.0).plan
    assert (small.mechanism, small.num_queries, small.answers) == ("confident-gnmax", 100, 50)
    stored = PateCell.read({**flat, "quick": True, "votes": "official"}, 4.0).plan
    assert (stored.num_teachers, stored.num_queries, stored.student_settings["epochs"]) == (250, 100, 3)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("student_steps = 2", "student_step = 2", "setting of pate .*Did you mean 'student_steps'"),
        ("queries = 20\nmechanism", "querys = 20\nmechanism", "Did you mean 'queries'"),
        ('student = "edge-ridge"', 'student = "edge-rid"', "Did you mean 'edge-ridge'"),
        ('"edge-ridge"', '"gan", student_noise_rate = 0.2', "setting of pate to be one of .*'student_noise_rate'"),
        ('student = "edge-ridge"', 'student = "gan", student_widths = "4;4"', "student_widths to be integers with commas"),
        ("student_steps = 2", "student_mirror = 1", "student_mirror to be true or false, got 1"),
        ("student_steps = 2", "student_steps = 0", "steps to be an integer >= 1"),
        ('mechanism = "gnmax"\nsigma2', 'mechanism = "lnmax"\nsigma2', "to be the noise of lnmax: scale"),
        ('mechanism = "gnmax", student', 'mechanism = "gnmx", student', "mechanism to be one of"),
        ("{ teachers = 3", '{ votes = "official", teachers = 3', "votes to come with teachers = 250"),
        ('unit = "none"', 'unit = "record"', "unit to be none, as labels = 'true' needs"),
        ('unit = "record"\nepsilons = [5]', 'unit = "none"\nepsilons = [5]', "epsilons to come with a delta"),
        ('unit = "record"\nepsilons = [5]\ndelta', 'unit = "record"\ndelta', "to hold a budget, which the teachers' answers"),
        ('"4" = 10.0, ', '"6" = 10.0, ', r"epsilons of sigma2 to be among those of the run, \[4.0, 5.0\], got \[6.0, 5.0\]"),
        ('"4" = 10.0', '"x" = 10.0', "sigma2 in .* to hold a value for each epsilon"),
        ('"4" = 10.0', '"4" = [1]', "sigma2 in .* to hold a value for each epsilon"),
        ('queries = 20, student_steps', 'queries = 9001, student_steps', "num_queries to be an integer >= 1 and <= 9000"),
        ('student = "edge-ridge" }', 'student = "edge-ridge", sigma2 = 0.01 }', "epsilon to be at least"),
        ('split = "public"', 'split = "75/10/15"', "a specification of its own, with split public"),
        ('dataset = "mnist"', 'dataset = "campus"', "dataset to be one of mnist, fashion_mnist, svhn"),
        ('method = "pate"\nunit = "none"', 'method = "mlp"\nunit = "none"', "a specification of its own|setting of mlp"),
    ],
)  # fmt: skip
def test_bad_specifications(path, contradicts, old, new, said):
    contradicts(path, old, new, said)


def test_official_votes_are_of_mnist_and_svhn(path):
    own = path.read_text()
    path.write_text(own.replace("teachers = 3", 'votes = "official"'))
    spec = Spec.read(path)
    with pytest.raises(InputError, match="dataset to be mnist or svhn, whose votes are stored, got 'fashion_mnist'"):
        spec.on("fashion_mnist")
    spec.on("svhn")
    path.write_text(own)
    with pytest.raises(InputError, match="votes to be official for svhn, got 'own'"):
        Spec.read(path).on("svhn")


def test_colored_images_learn_from_the_official_votes(path, tmp_path, monkeypatch):
    draw = np.random.default_rng(0)
    x, y = 0.5 * draw.random((80, 3, 32, 32), np.float32), np.arange(80) % 10
    x[np.arange(80), 0, y] += 0.5  # the class is the brightest row
    monkeypatch.setattr(plan, "_POOLS", {"svhn": 60})
    monkeypatch.setattr(pate, "load_svhn", lambda data_dir: Images("svhn", x, y, x, y))
    pate._images.cache_clear()
    (tmp_path / "data" / "pate_votes").mkdir(parents=True)
    (tmp_path / "data" / "svhn").mkdir()
    np.save(tmp_path / "data" / "pate_votes" / "svhn_250_teachers.npy", 250.0 * np.eye(10)[y])
    text = (Path(SPECS) / "pate-table-3-4.toml").read_text()
    for old, new in (
        ('{ "3.96" = 7564, "4.93" = 8586 }', "40"), ("max_answers = 3000", "max_answers = 40"),
        ("queries = 3000", "queries = 40"),
        ('"16,32,64"', '"4,4,4"'), ("student_epochs = 60", "student_epochs = 1"), ("seeds = 3", "seeds = 1"),
    ):  # fmt: skip
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    outcome = run(Spec.read(path), tmp_path / "out", data_dir=tmp_path / "data")
    pate._images.cache_clear()
    rows = read(outcome.path)
    assert (outcome.done, len(rows)) == (13, 13)
    assert {row["metrics"].get("plurality_accuracy", 1.0) for row in rows} == {1.0}
    assert all(row["certificate"] is None for row in rows)


@pytest.mark.data
def test_noise_of_the_svhn_tables_costs_at_most_what_is_printed(data_dir):
    costs = {}
    for name in ("pate-table-3-4", "pate-evaluation-svhn"):
        for cell in find(name).cells():
            if cell.epsilon and cell.seed == 0:
                asked = PateCell.read(dict(cell.settings), cell.epsilon, cell.delta).plan
                key = cell.epsilon, asked.num_queries, asked.mechanism
                votes = read_votes(data_dir / "pate_votes" / "svhn_250_teachers.npy", asked.num_queries)
                costs[key] = (
                    analyze(votes, key[2], cell.delta, as_published=True).epsilon if key not in costs else costs[key]
                )
    assert len(costs) == 5
    assert all(found <= 1.005 * printed for (printed, _, _), found in costs.items())
    found = {printed: round(cost, 4) for (printed, _, _), cost in costs.items()}
    assert (found[4.93], found[5.04], found[8.19]) == (4.9382, 4.3722, 6.4329)
    assert 3.93 < found[3.96] <= 3.96


def test_small_is_for_pate_alone(small):
    small.write_text(small.read_text().replace("minutes = 0.1", "minutes = 0.1\nsmall = true"))
    with pytest.raises(InputError, match="quick small to be left out without method pate"):
        Spec.read(small)


def test_a_full_disk_is_named(path, trained, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pate_votes, "write_private", full)
    with pytest.raises(InputError, match=r"Cannot write results to .*No space left"):
        run(Spec.read(path), tmp_path / "out", data_dir=tmp_path / "data")


def test_absent_images_are_skipped(path, tmp_path):
    outcome = run(Spec.read(path), tmp_path / "out", data_dir=tmp_path)
    assert outcome.done == 0
    assert "files of mnist are not in the data folder" in outcome.reasons[0]


def test_rows_of_the_tables_learn_from_the_same_answers():
    mechanism = {"teacher", "queries", "mechanism", "accounting", "threshold", "sigma1", "sigma2", "max_answers"}
    answers = {}
    for number in (1, 2, 3):
        for cell in find(f"pate-table-3-{number}").cells("full"):
            if cell.epsilon and "0.33" not in cell.label:
                asked = {name: value for name, value in cell.settings if name in mechanism}
                answers.setdefault(cell.epsilon, asked)
                assert asked == answers[cell.epsilon]
                assert json.dumps(asked)
    assert answers[4.05]["sigma2"] > answers[5.04]["sigma2"]
    assert "threshold" not in answers[4.05]
    removed = {cell.at: dict(cell.settings)["student_removal"] for cell in find("pate-table-3-3").cells() if cell.at}
    assert removed == {at: at for at in (0.091, 0.182, 0.227, 0.273, 0.318, 0.364)}
    assert {path.stem for path in Path(SPECS).glob("pate-*.toml")} >= {"pate-evaluation", "pate-table-3-2"}
