"""`sfumato train` on folders of images, under units class, subclass and record, and what it refuses."""

import json
import shutil
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    "words",
    [
        ("class-dp", "--unit", "class", "--steps", 3),
        ("class-dp", "--unit", "class", "--steps", 3, "--relation", "add-remove", "--set", "sampling_prob=0.5"),
        ("subclass-dp", "--unit", "subclass", "--subclasses", 2, "--steps", 3, "--network", "mlp"),
        ("subclass-dp", "--unit", "subclass", "--subclasses", 2, "--partition", "kmeans", "--steps", 3),
        ("cnn", "--unit", "record", "--steps", 3, "--network", "softmax", "--augment", 1),
        ("mlp", "--unit", "record"),
    ],
)
def test_a_folder_becomes_a_verified_run(pictures, tmp_path, sfumato, words):
    out = tmp_path / "run"
    budget = ("--epsilon", 8, "--delta", "1e-3", "--dataset", pictures, "--no-controls")
    told = json.loads(sfumato("train", *words, *budget, "--out", out, "--json").out)
    assert told["privacy"]["unit"] == words[2]
    assert 0 <= told["test_accuracy"]["mean"] <= 1
    assert sfumato("verify", out).code == 0
    certificate = json.loads((out / "release" / "certificate.json").read_text())
    assert certificate["public_facts"]["image_shape"] == [1, 14, 14]
    assert "classes" in certificate["assumed_public"]
    if "--relation" in words:
        assert (told["privacy"]["relation"], certificate["unit"]["relation"]) == ("add-remove", "add-remove")
    assert any("k-means" in one for one in certificate["caveats"]) == ("kmeans" in words)
    assert sfumato("predict", out, "--out", tmp_path / "predictions.csv").code == 0


def test_subfolders_of_users_are_the_cells(pictures, tmp_path, sfumato, refused):
    told = ("subclass-dp", "--unit", "subclass", "--partition", "folders", "--steps", 3, "--network", "mlp")
    budget = ("--epsilon", 8, "--delta", "1e-3", "--no-controls", "--out", tmp_path / "run", "--dataset")
    refused("subfolders", "train", *told, *budget, pictures)
    users = Path(shutil.copytree(pictures, tmp_path / "users"))
    for file in users.glob("*/*/*.png"):
        user = file.parent / ("ann" if len(file.stem) == 1 else "bob")
        user.mkdir(exist_ok=True)
        file.rename(user / file.name)
    refused("Expected no --subclasses", "train", *told, "--subclasses", 2, *budget, users)
    assert sfumato("train", *told, *budget, users).code == 0
    assert sfumato("verify", tmp_path / "run").code == 0
    certificate = json.loads((tmp_path / "run" / "release" / "certificate.json").read_text())
    assert (certificate["unit"]["cells"], certificate["unit"]["partition"]) == (6, "declared")
    assert any("Who is in which cell is not protected" in one for one in certificate["caveats"])


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
        (("class-dp", "--unit", "class", "--set", f"width={2**40}"), "to hold at most"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(pictures, tmp_path, refused, words, fragment):
    budget = ("--epsilon", 8, "--delta", "1e-3", "--dataset", pictures)
    refused(fragment, "train", *words, *budget, "--out", tmp_path / "run")
