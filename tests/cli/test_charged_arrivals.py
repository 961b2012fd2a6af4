"""Nodes that arrive after a run, in the ledger of its data set: each release has its line there, and no node arrives twice."""

import json
import shutil
from hashlib import sha256

import pytest
from arriving import write_tables

from sfumato.cli import invoke
from sfumato.record.ledger import canonical_json


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """The tables, and a run on the first batch that is charged to a ledger; tests work on copies."""
    folder = tmp_path_factory.mktemp("world")
    write_tables(folder)
    tables = ["--nodes", folder / "n0.csv", "--edges", folder / "e0.csv", "--label", "year", "--json", "--no-controls"]
    ledger = ["--ledger", folder / "ledger.jsonl", "--total-epsilon", "4", "--out", folder / "edge"]
    options = ["label-messages", "--unit", "edge", "--epsilon", "4", "--delta", "1e-6", *ledger]
    assert invoke([*map(str, ["train", *options, *tables])]) == 0
    return folder


@pytest.fixture
def at(world, tmp_path):
    """A copy of the world, and the command that predicts a batch there."""
    folder = shutil.copytree(world, tmp_path / "world")

    def command(run, batch, *more, edges=None, ledger=folder / "ledger.jsonl"):
        tables = ("--new-nodes", folder / f"n{batch}.csv", "--new-edges", folder / f"e{edges or batch}.csv")
        return ("predict", folder / run, *tables, *more, "--ledger", ledger)

    command.folder = folder
    return command


def rolled_back(at, sfumato, run="edge"):
    """The first batch arrives; then its line is lost, with the head of the ledger as it was before."""
    ledger = at.folder / "ledger.jsonl"
    files = {path: path.read_bytes() for path in (ledger, ledger.with_name("ledger.jsonl.head"))}
    assert sfumato(*at(run, 1)).code == 0
    for path, content in files.items():
        path.write_bytes(content)
    return ledger


def told_of(sfumato, ledger, *runs):
    told = sfumato("verify", ledger, *(word for run in runs for word in ("--runs", run)))
    return told.code, told.out + told.err


def test_nodes_that_arrived_in_two_copies_are_found_in_their_ledger(sfumato, at):
    shutil.copytree(at.folder / "edge", at.folder / "copy")
    ledger = rolled_back(at, sfumato)
    assert told_of(sfumato, ledger)[0] == 1, "a release below the folder that its line names"
    (at.folder / "e9.csv").write_text("source,target\nn200,n1\nn201,n2\n")
    told = sfumato(*at("copy", 1, edges=9))
    assert told.code == 0, told.err
    code, said = told_of(sfumato, ledger)
    assert code == 1, said
    assert "arrived before, in" in said
    assert "its edges are read by two releases under one claim" in said
    assert "copy/arrivals/1: this release for nodes" not in said, "the line is that of the copy"
    assert (
        "edge/arrivals/1: this release for nodes that arrived is not charged in this ledger, whose run it extends"
        in said
    )
    shutil.rmtree(at.folder / "edge" / "arrivals")
    assert told_of(sfumato, ledger)[0] == 0
    shutil.move(at.folder / "copy", at.folder / "moved")
    code, said = told_of(sfumato, ledger)
    assert (code, "line 4: the release for these nodes was not found below the run" in said) == (1, True), said
    assert told_of(sfumato, ledger, at.folder / "moved")[0] == 0


def test_a_ledger_that_lost_arrivals_takes_no_more(sfumato, at):
    ledger = rolled_back(at, sfumato)
    before = ledger.read_bytes()
    told = sfumato(*at("edge", 2))
    assert told.code != 0
    assert "lacks nodes that arrived after this run, whose release its folder holds" in told.err
    assert ledger.read_bytes() == before
    assert not (at.folder / "edge" / "arrivals" / "2").exists()
    code, said = told_of(sfumato, ledger)
    assert (code, "edge/arrivals/1: this release for nodes that arrived is not charged" in said) == (1, True), said


def test_an_arrival_that_was_stopped_is_told_apart_from_one_that_is_lost(sfumato, at):
    assert sfumato(*at("edge", 1)).code == 0
    release, ledger = at.folder / "edge" / "arrivals" / "1" / "release", at.folder / "ledger.jsonl"
    (release / "manifest.json").unlink()
    assert told_of(sfumato, ledger)[0] == 0, "its process was killed after its first line"
    (release / "ledger.jsonl").write_bytes(b"")
    assert told_of(sfumato, ledger)[0] == 0, "or before"
    shutil.rmtree(at.folder / "edge" / "arrivals")
    code, said = told_of(sfumato, ledger)
    assert (code, "line 4: the release for these nodes was not found" in said) == (1, True), said


def rechained(path, change):
    """Write a ledger again, as who keeps it could, with changed lines in a chain that fits."""
    entries, previous = change([json.loads(line) for line in path.read_text().splitlines()]), "0" * 64
    with path.open("wb") as file:
        for index, entry in enumerate(entries):
            entry |= {"index": index, "previous": previous}
            entry.pop("hash")
            previous = sha256(canonical_json(entry).encode()).hexdigest()
            file.write(canonical_json({**entry, "hash": previous}).encode() + b"\n")
    head = {"entries": len(entries), "hash": previous}
    path.with_name(path.name + ".head").write_bytes(canonical_json(head).encode() + b"\n")


def changed(kind, part=None, **values):
    """Change one line of a kind."""

    def change(entries):
        entry = next(one for one in entries if one["kind"] == kind)
        (entry if part is None else entry[part]).update(values)
        return entries

    return change


def without(kind):
    return lambda entries: [entry for entry in entries if entry["kind"] != kind]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda entries: entries, None),
        (changed("arrival", at="2031-01-01T00:00:00Z", by="who"), None),
        (without("arrival"), "edge/arrivals/1: this release for nodes that arrived is not charged in this ledger"),
        (changed("arrival", "arrival", extends="0" * 64), "line 4: arrival.extends"),
        (changed("arrival", "arrival", plan="0" * 64), "line 4: arrival.plan"),
        (changed("arrival", "arrival", nodes=["0" * 16]), "line 4: arrival.nodes"),
        (changed("arrival", "claim", plan="0" * 64), "line 4: the release for these nodes was not found"),
        (changed("arrival", "claim", epsilon=0.5), "line 4: claim.epsilon"),
        (changed("arrival", "claim", draws=1), "line 4: draws"),
        (changed("run", "claim", draws=1), "line 2: draws"),
        (changed("run", "claim", mu=0.0), "line 2: mu"),
        (without("spent"), "line 2: the release of this run is there, and no line marks its first noise"),
        (changed("spent", mark=""), "line 3: the mark is not of 32 or 64 hexadecimal digits"),
        (changed("spent", mark="any"), "line 3: the mark is not of 32 or 64 hexadecimal digits"),
        (changed("spent", what=""), "line 3: expected the mark of the first noise"),
        (changed("spent", what="day 1"), "line 2: the release of this run is there, and no line marks its first noise"),
        (changed("header", "header", format=2), "line 1: format: expected 3"),
        (changed("header", "header", format=1), "line 1: format: expected 3"),
    ],
)
def test_lines_say_what_their_releases_do(sfumato, at, change, problem):
    assert sfumato(*at("edge", 1)).code == 0
    rechained(at.folder / "ledger.jsonl", change)
    code, said = told_of(sfumato, at.folder / "ledger.jsonl")
    assert (code, problem is None or problem in said) == (int(problem is not None), True), said


def test_arrivals_at_node_level_are_named_where_their_ledger_lacks_them(sfumato, at, tmp_path):
    tables = ("--nodes", at.folder / "n0.csv", "--edges", at.folder / "e0.csv", "--label", "year", "--no-controls")
    budget, ledger = ("--epsilon", "9", "--delta", "1e-5"), tmp_path / "node.jsonl"
    more = ("--assume-public", "--ledger", ledger, "--total-epsilon", "30", "--out", at.folder / "charged")
    assert sfumato("train", "label-messages", "--unit", "node", *tables, *budget, *more).code == 0
    files = {path: path.read_bytes() for path in (ledger, ledger.with_name("node.jsonl.head"))}
    told = sfumato(*at("charged", 1, *budget, ledger=ledger))
    assert told.code == 0, told.err
    assert told_of(sfumato, ledger)[0] == 0
    for path, content in files.items():
        path.write_bytes(content)
    code, said = told_of(sfumato, ledger)
    assert (code, "charged/arrivals/1: this release is not charged in this ledger" in said) == (1, True), said
