"""`sfumato train` on folders of images, under units class, subclass and record, and what it refuses."""

import json

import numpy as np
import pytest

from sfumato.cli import invoke

image_module = pytest.importorskip("PIL.Image")
DRAW = np.random.default_rng(0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three classes of stripes, twelve images each, with train and test folders."""
    root = tmp_path_factory.mktemp("pictures")
    for part, count in (("train", 9), ("test", 3)):
        for kind in range(3):
            (root / part / "abc"[kind]).mkdir(parents=True)
            for number in range(count):
                picture = DRAW.integers(0, 60, (14, 14))
                picture[:, kind::4] += 150
                path = root / part / "abc"[kind] / f"{number}.png"
                image_module.fromarray(picture.astype(np.uint8)).save(path)
    return root


def run(*words):
    """Exit code of a command line."""
    return invoke([str(word) for word in words])


@pytest.mark.parametrize(
    "words",
    [
        ("class-dp", "--unit", "class", "--steps", 3),
        ("subclass-dp", "--unit", "subclass", "--subclasses", 2, "--steps", 3, "--network", "mlp"),
        ("subclass-dp", "--unit", "subclass", "--subclasses", 2, "--partition", "kmeans", "--steps", 3),
        ("cnn", "--unit", "record", "--steps", 3, "--network", "softmax", "--augment", 1),
        ("mlp", "--unit", "record"),
    ],
)
def test_a_folder_becomes_a_verified_run(folder, tmp_path, capsys, words):
    out = tmp_path / "run"
    budget = ("--epsilon", 8, "--delta", "1e-3", "--dataset", folder, "--no-controls")
    assert run("train", *words, *budget, "--out", out, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["privacy"]["unit"] == words[2]
    assert 0 <= told["test_accuracy"]["mean"] <= 1
    assert run("verify", out) == 0
    certificate = json.loads((out / "release" / "certificate.json").read_text())
    assert certificate["public_facts"]["image_shape"] == [1, 14, 14]
    assert "classes" in certificate["assumed_public"]
    assert any("k-means" in one for one in certificate["caveats"]) == ("kmeans" in words)
    capsys.readouterr()
    assert run("predict", out, "--out", tmp_path / "predictions.csv") == 0


@pytest.mark.parametrize(
    ("words", "fragment"),
    [
        (("class-dp", "--unit", "record"), "no proof"),
        (("class-dp", "--unit", "class", "--subclasses", 2), "--subclasses with --unit subclass"),
        (("subclass-dp", "--unit", "subclass", "--partition", "centroids"), "public_rows"),
        (("mlp", "--unit", "record", "--network", "cnn"), "--network with one of"),
        (("class-dp", "--unit", "class", "--image-size", "big"), "WIDTHxHEIGHT"),
        (("class-dp", "--unit", "class", "--image-size", "9999x9"), "at most 1024"),
        (("class-dp", "--unit", "class", "--image-size", "4x4"), "12 x 12"),
        (("class-dp", "--unit", "class", "--network", "transformer"), "network"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(folder, tmp_path, capsys, words, fragment):
    out = tmp_path / "run"
    assert run("train", *words, "--epsilon", 8, "--delta", "1e-3", "--dataset", folder, "--out", out) == 2
    error = capsys.readouterr().err.strip()
    assert fragment in error.replace("\n", " ")
    assert "Traceback" not in error
    assert not out.exists()
