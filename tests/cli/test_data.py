"""Where commands look for named data sets: --data-dir, the run, or the environment; and what is said of one."""

import gzip
from hashlib import sha256
from json import loads
from pathlib import Path

import pytest
import typer

from sfumato.cli import _data as data
from sfumato.cli import app
from sfumato.cli._options import of
from sfumato.datasets._listing import files_of, origin_table
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


def test_one_data_set_is_told_with_its_files(sfumato, tmp_path, monkeypatch):
    """One file is the known one, one is another, one is there and not known, the rest is missing."""
    monkeypatch.delenv("SFUMATO_DATA", raising=False)
    (tmp_path / "mnist").mkdir()
    for name in ("train-labels-idx1-ubyte", "t10k-labels-idx1-ubyte"):
        (tmp_path / "mnist" / f"{name}.gz").write_bytes(gzip.compress(b"known"))
    (tmp_path / "mnist" / "t10k-images-idx3-ubyte.gz").write_bytes(b"cut off")
    known = sha256(b"known").hexdigest()
    monkeypatch.setitem(origin_table()["sha256"], "mnist/train-labels-idx1-ubyte", known)
    shown = sfumato("datasets", "mnist", "--data-dir", tmp_path).out
    assert shown.startswith(
        "mnist: 70,000 nodes, 0 arcs, 784 features, 10 classes; images of 28 x 28, without edges.\n"
    )
    assert "From https://ossci-datasets.s3.amazonaws.com/mnist/.\n" in shown
    assert "  mnist/train-images-idx3-ubyte.gz: missing, SHA-256 ba89" in shown
    assert f"  mnist/train-labels-idx1-ubyte.gz: there, with the known SHA-256 {known}\n" in shown
    assert "  mnist/t10k-images-idx3-ubyte.gz: there, but not with the known SHA-256 0fa7" in shown
    assert "  mnist/t10k-labels-idx1-ubyte.gz: there, but not with the known SHA-256 ff7b" in shown
    assert "gz: SHA-256 ba89" in sfumato("datasets", "mnist").out
    told = loads(sfumato("datasets", "mnist", "--data-dir", tmp_path, "--json").out)
    assert [file["is_known"] for file in told["files"]] == [None, True, False, False]
    assert (told["num_nodes"], told["files"][0]["present"]) == (70_000, False)


@pytest.mark.parametrize(
    ("name", "gone", "present"),
    [
        ("planetoid/pubmed", "ind.pubmed.allx", True),
        ("planetoid/pubmed", "ind.pubmed.test.index", False),
        ("lastfm_asia", "lastfm_asia_features.json", True),
        ("musae/facebook", "facebook/facebook_edges.csv", False),
        ("mnist", "t10k-labels-idx1-ubyte.gz", False),
    ],
)
def test_the_list_and_the_page_of_one_agree_on_what_is_there(sfumato, tmp_path, name, gone, present):
    for path, _ in files_of(name):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    (tmp_path / name.partition("/")[0] / gone).unlink()
    where = ("--data-dir", tmp_path, "--json")
    listed = {row["name"]: row["present"] for row in loads(sfumato("datasets", *where).out)["datasets"]}
    told = loads(sfumato("datasets", name, *where).out)
    assert listed[name] is told["present"] is present
    assert [file["path"].endswith(gone) for file in told["files"] if not file["present"]] == [True]
    said = f"{gone}: missing, so that there are no features" if present else f"{gone}: missing, SHA"
    assert said in sfumato("datasets", name, "--data-dir", tmp_path).out


def test_a_wrong_name_of_a_data_set_is_refused_with_the_likely_one(refused):
    refused("Did you mean 'planetoid/cora'? `sfumato datasets` lists all of them.", "datasets", "planetoid/corra")


@pytest.mark.parametrize(("begun", "names"), [("text/c", {"text/citeseer_text", "text/cora_cane"}), ("xyz", set())])
def test_names_of_data_sets_are_completed(begun, names):
    assert {name for name, _ in data.complete_dataset(begun)} == names


def test_votes_schools_and_generated_graphs_are_told(sfumato, tmp_path):
    (tmp_path / "facebook100").mkdir()
    (tmp_path / "facebook100" / "Mine7.mat").touch()
    assert "campus: 4,000 nodes" in sfumato("datasets", "campus").out
    assert "facebook100/*.mat: there" in sfumato("datasets", "facebook100/all", "--data-dir", tmp_path).out
    assert loads(sfumato("datasets", "facebook100/Mine7", "--data-dir", tmp_path, "--json").out)["present"] is True
    assert "pate_votes/mnist_250_teachers.npy" in sfumato("datasets", "pate_votes").out
