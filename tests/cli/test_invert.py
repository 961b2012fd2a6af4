"""`sfumato invert` on runs that learned from a folder of images."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from sfumato.central._baselines import MLP
from sfumato.nn._weights import load_weights

CLASSES = ("a", "b", "c")


@pytest.fixture(scope="module")
def runs(pictures, tables, tmp_path_factory):
    """Runs without privacy: on images, with two seeds, and one on a graph."""
    from sfumato.cli import invoke

    root = tmp_path_factory.mktemp("runs")
    told = ["--unit", "none", "--json", "--out"]
    assert invoke(["train", "mlp", "--dataset", str(pictures), "--split", "public", *told, str(root / "first")]) == 0
    shutil.copytree(root / "first", root / "second")
    assert invoke(["train", "mlp", *tables["first"], *told, str(root / "graph")]) == 0
    return root


@pytest.fixture
def network(monkeypatch):
    """The network of a fitted mlp, as methods on images hand it out."""

    def build(self, plan, weights):
        found = self._network(plan.public, plan.unit)
        load_weights(found, weights, "network")
        return found

    monkeypatch.setattr(MLP, "pixel_network", build)


SHORT = ("--steps", "60", "--rate", "0.05")


def test_the_class_is_reconstructed(sfumato, runs, network, tmp_path):
    run = Path(shutil.copytree(runs / "first", tmp_path / "first"))
    released = {path: path.read_bytes() for path in (run / "release").iterdir()}
    result = sfumato("invert", run, *SHORT, "--weight", "0.001", "--json")
    assert (result.code, result.err) == (0, "")
    told = json.loads(result.out)
    assert set(told["classes"]) == {*CLASSES}
    assert told["mia_distance"] == pytest.approx(np.mean([one["train"] for one in told["classes"].values()]))
    assert told["mia_distance"] <= told["matched_distance"]
    assert 0 < told["heldout_distance"] < 8
    assert (told["method"], told["unit"], told["epsilon"], told["distance"]) == ("mlp", "none", None, "euclidean")
    assert told["confidence"] > 0.9
    assert (told["attack"]["steps"], told["attack"]["target"]) == (60, "score")
    out = run / "evaluation" / "inversion"
    assert json.loads((out / "distances.json").read_text()) == told
    assert (out / "index.html").read_text().count("data:image/png") == 6
    assert (out / "inversion.svg").read_text().startswith("<svg ")
    assert {path: path.read_bytes() for path in (run / "release").iterdir()} == released
    assert sfumato("verify", run).code == 0


def test_every_setting_of_the_attack_has_a_name(sfumato, runs, network, refused, tmp_path):
    run = Path(shutil.copytree(runs / "first", tmp_path / "first"))
    short = ("invert", run, "--steps", 2, "--classes", "a")
    given = (
        "--regularizer",
        "bilateral",
        "--set",
        "window=3",
        "--set",
        "decay=0.5",
        "--set",
        "box=false",
        "--set",
        "tau=1e-7",
    )
    told = json.loads(sfumato(*short, *given, "--json").out)["attack"]
    assert (told["window"], told["decay"], told["box"], told["tau"]) == (3, 0.5, False, 1e-7)
    assert (told["rate"], told["weight"]) == (0.05, 0.001)  # those of faces
    refused("Did you mean 'window'?", *short, "--set", "windw=3")
    refused("true, false", *short, "--set", "box=maybe")
    refused("window", *short, "--regularizer", "bilateral", "--set", "window=0")
    refused("setting of invert", *short, "--set", "rate=0.1")  # it has an option


def test_images_may_lie_in_a_store(sfumato, runs, pictures, network, tmp_path):
    from sfumato.datasets._loading import load_dataset

    run = Path(shutil.copytree(runs / "first", tmp_path / "first"))
    store = load_dataset(str(pictures), split="public").save(tmp_path / "store")
    kept = sfumato("invert", run, *SHORT, "--json")
    given = ("--graph", store)
    for more in ((), ("--dataset", pictures)):
        assert sfumato("invert", run, *SHORT, *given, *more, "--json").code == (2 if more else 0)
    shutil.rmtree(run / "evaluation")  # which says where the images were
    assert sfumato("invert", run, *SHORT, "--json").code == 2
    result = sfumato("invert", run, *SHORT, *given, "--json")
    told = [json.loads(one.out) for one in (kept, result)]
    assert told[0]["classes"] == told[1]["classes"]


def test_runs_stand_beside_each_other(sfumato, runs, network, tmp_path):
    out = tmp_path / "page"
    options = ("--attack", "original", "--steps", "5", "--distance", "ssim", "--classes", "c, a", "--out", out)
    result = sfumato("invert", runs / "first", "--beside", runs / "second", *options)
    assert result.code == 0, result.err
    assert "first: mean ssim distance" in result.out
    assert "not for release" in result.out
    told = json.loads((out / "distances.json").read_text())
    assert list(told["classes"]) == ["c", "a"]
    (second,) = told["beside"]
    assert second["run"].endswith("second")
    assert second["classes"] == told["classes"]  # a copy of the same weights
    assert "second: no guarantee" in (out / "index.html").read_text()


def test_bilateral_takes_the_settings_of_faces(sfumato, runs, pictures, network, tmp_path):
    run = Path(shutil.copytree(runs / "first", tmp_path / "run"))
    shutil.rmtree(run / "evaluation")  # with it goes what the run knew of its images
    result = sfumato("invert", run, "--dataset", pictures, "--regularizer", "bilateral", "--json")
    attack = json.loads(result.out)["attack"]
    assert (attack["steps"], attack["rate"], attack["weight"], attack["window"]) == (100, 0.05, 0.001, 2)


@pytest.mark.parametrize(
    ("run", "options", "fragment"),
    [
        ("graph", (), "Expected a run on images, got"),
        ("first", ("--classes", "a,z"), "classes to be among a, b, c, got 'z'"),
        ("first", ("--classes", "a,a"), "to be different numbers"),
        ("first", ("--attack", "best"), "attack to be one of enhanced, original"),
        ("first", ("--attack", "original", "--weight", "1"), "no --regularizer or --weight with --attack original"),
        ("first", ("--distance", "cosine"), "distance to be one of euclidean, ssim"),
        ("first", ("--target", "loss"), "target to be one of score, probability"),
        ("first", ("--steps", "0"), "steps to be an integer >= 1"),
        ("first", ("--dataset", "{folder}/train"), "has no public split"),
        ("first", ("--dataset", "{folder}", "--image-size", "7x7"), "in the same split and size, got"),
        ("first", ("--out", "{runs}/first/release/page"), "to be outside release/"),
    ],
)
def test_wrong_options_are_refused(refused, runs, pictures, network, run, options, fragment):
    before = sorted(runs.rglob("*"))
    refused(fragment, "invert", runs / run, *(option.format(runs=runs, folder=pictures) for option in options))
    assert sorted(runs.rglob("*")) == before


def test_a_method_that_is_no_network_is_refused(refused, runs):
    refused("method to be a network of pixels, got 'mlp'", "invert", runs / "first")


def test_another_split_is_refused(refused, sfumato, pictures, network, tmp_path):
    """Held-out images must not be those of training: where the split of the run is lost, its sizes tell of another."""
    run, images = tmp_path / "run", pictures / "train"
    options = ("--split", "50/25/25", "--unit", "none", "--out", run)
    assert sfumato("train", "mlp", "--dataset", images, *options).code == 0
    assert sfumato("invert", run, "--dataset", images, *SHORT, "--out", tmp_path / "kept").code == 0
    shutil.rmtree(run / "evaluation")
    refused("in the same split and size", "invert", run, "--dataset", images)


def test_a_class_without_test_images_is_named(refused, sfumato, pictures, network, tmp_path):
    fewer = Path(shutil.copytree(pictures, tmp_path / "fewer"))
    for path in (fewer / "test" / "b").iterdir():
        path.unlink()
    run = tmp_path / "run"
    assert sfumato("train", "mlp", "--dataset", fewer, "--split", "public", "--unit", "none", "--out", run).code == 0
    refused("class to have training and test images, got 'b'", "invert", run)
