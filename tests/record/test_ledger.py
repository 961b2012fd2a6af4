"""The ledger: what the plan allows, once, in order, chained and on disk before anything is computed."""

import errno
import hashlib
import json
import os
import re
import sys
from pathlib import Path

import pytest

from sfumato._files import append_line
from sfumato.errors import BudgetExceededError, LedgerError
from sfumato.privacy.events import GaussianEvent, PoissonGaussianEvent
from sfumato.record.ledger import GENESIS, Chain, Ledger, Release, canonical_json

PLAN = {"method": "gap", "unit": {"name": "edge"}, "claim": {"epsilon": 1.0, "delta": 1e-7}, "delta_sampler": 1e-25}
RELEASES = (
    Release("encoder", PoissonGaussianEvent(0.1, 2.0, 50, "replace"), (30,), 30),
    Release("aggregate/1", GaussianEvent(3.5), (4, 16), 32),
    Release("aggregate/2", GaussianEvent(3.5, count=2), (4, 16), 32, "the node itself"),
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.jsonl"


@pytest.fixture
def ledger(path):
    return Ledger(PLAN, RELEASES, path)


def charge_all(ledger):
    for release in RELEASES:
        ledger.charge(release.name)
    return ledger


def test_it_opens_with_the_plan(ledger, path):
    (line,) = path.read_text().splitlines()
    entry = json.loads(line)
    assert entry["kind"] == "plan"
    assert entry["index"] == 0
    assert entry["previous"] == GENESIS == "0" * 64
    assert entry["plan"] == {**PLAN, "releases": [release.to_dict() for release in RELEASES]}
    assert not ledger.complete


def test_charges_are_written_before_they_return(ledger, path):
    for done, release in enumerate(RELEASES, start=1):
        assert not ledger.complete
        assert ledger.charge(release.name) is release
        lines = path.read_text().splitlines()
        assert len(lines) == 1 + done
        assert json.loads(lines[-1])["release"] == release.to_dict()
    assert ledger.complete


def test_entries_form_a_hash_chain(ledger, path):
    charge_all(ledger)
    previous = GENESIS
    for index, line in enumerate(path.read_text().splitlines()):
        entry = json.loads(line)
        assert (entry["index"], entry["previous"]) == (index, previous)
        previous = entry.pop("hash")
        assert previous == hashlib.sha256(canonical_json(entry).encode()).hexdigest()
    assert ledger.head == previous


def test_file_and_memory_agree(ledger, path):
    charge_all(ledger)
    assert path.read_text() == ledger.text()
    assert charge_all(Ledger(PLAN, RELEASES)).text() == ledger.text()


def test_another_plan_has_another_head():
    other = {**PLAN, "claim": {"epsilon": 1.5, "delta": 1e-7}}
    assert charge_all(Ledger(PLAN, RELEASES)).head != charge_all(Ledger(other, RELEASES)).head


@pytest.mark.parametrize(
    ("before", "name", "expected"),
    [(0, "aggregate/1", "encoder"), (0, "unplanned", "encoder"), (1, "encoder", "aggregate/1"),
     (2, "aggregate/1", "aggregate/2"), (3, "aggregate/2", "nothing is left"), (3, "more", "nothing is left")],
)  # fmt: skip
def test_wrong_order_double_and_unplanned_charges_change_nothing(ledger, path, before, name, expected):
    for release in RELEASES[:before]:
        ledger.charge(release.name)
    written, head = path.read_bytes(), ledger.head
    with pytest.raises(BudgetExceededError, match=f"{name}.*{expected}.*new plan"):
        ledger.charge(name)
    assert path.read_bytes() == written
    assert ledger.head == head
    assert len(ledger.entries) == 1 + before


def test_an_existing_file_is_never_extended(ledger, path):
    written = path.read_bytes()
    with pytest.raises(LedgerError, match="choose a new folder"):
        Ledger(PLAN, RELEASES, path)
    assert path.read_bytes() == written


def test_a_charge_that_cannot_be_written_is_not_made(ledger, path):
    path.unlink()
    path.mkdir()
    with pytest.raises(OSError, match="ledger"):
        ledger.charge("encoder")
    assert len(ledger.entries) == 1


def _cut(path, size):
    path.write_bytes(path.read_bytes()[:size])


ALTERATIONS = {
    "emptied": lambda path: _cut(path, 0),
    "cut": lambda path: _cut(path, path.read_bytes().index(b"\n") + 1),
    "cut inside a line": lambda path: _cut(path, -9),
    "changed": lambda path: path.write_bytes(path.read_bytes().replace(b"gap", b"pag")),
    "appended to": lambda path: path.write_bytes(path.read_bytes() + b"{}\n"),
}


@pytest.mark.parametrize("alter", ALTERATIONS.values(), ids=ALTERATIONS)
def test_a_file_that_changed_while_the_run_goes_on_gets_no_line(ledger, path, alter):
    ledger.charge(RELEASES[0].name)
    alter(path)
    left = path.read_bytes()
    with pytest.raises(LedgerError, match="is not what this run wrote"):
        ledger.charge(RELEASES[1].name)
    assert len(ledger.entries) == 2
    assert path.read_bytes() == left


def test_a_plan_without_releases_is_complete_at_once():
    assert Ledger(PLAN, ()).complete
    with pytest.raises(BudgetExceededError, match="nothing is left"):
        Ledger(PLAN, ()).charge("aggregate/1")


@pytest.mark.parametrize("release", RELEASES)
def test_releases_survive_json(release):
    assert Release.from_dict(json.loads(canonical_json(release.to_dict()))) == release


@pytest.mark.parametrize(("release", "draws"), list(zip(RELEASES, (1500, 32, 64), strict=True)))
def test_draws_count_every_step(release, draws):
    assert release.draws == draws


def test_canonical_json_has_one_form():
    assert canonical_json({"b": 1.0, "a": {"y": None, "x": [1, 2.5]}}) == '{"a":{"x":[1,2.5],"y":null},"b":1.0}'
    assert canonical_json({"é": "ü"}) == '{"é":"ü"}'
    with pytest.raises(ValueError, match="JSON"):
        canonical_json({"a": float("nan")})


def full_disk(descriptor):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_stops_before_the_release_and_leaves_no_trace(ledger, path, monkeypatch):
    ledger.charge("encoder")
    written, entries = path.read_bytes(), list(ledger.entries)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full_disk)
        with pytest.raises(OSError, match="No space left"):
            ledger.charge("aggregate/1")
    assert path.read_bytes() == written
    assert ledger.entries == entries
    ledger.charge("aggregate/1")
    assert [entry["index"] for entry in Chain.parse(path.read_bytes()).entries] == [0, 1, 2]


def test_a_full_disk_starts_no_ledger(path, monkeypatch):
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        Ledger(PLAN, RELEASES, path)
    assert not path.exists()


def test_a_missing_folder_and_a_missing_file_are_not_made_up(ledger, path, tmp_path):
    with pytest.raises(FileNotFoundError, match="absent"):
        Ledger(PLAN, RELEASES, tmp_path / "absent" / "ledger.jsonl")
    path.unlink()
    with pytest.raises(FileNotFoundError):
        ledger.charge("encoder")
    assert not path.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_file_and_folder_are_synced_before_a_charge_returns(path, monkeypatch):
    synced, sync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(str(Path(f"/proc/self/fd/{fd}").readlink())), sync(fd)))
    ledger = Ledger(PLAN, RELEASES, path)
    assert synced == [str(path), str(path.parent)]
    ledger.charge("encoder")
    assert synced[2:] == [str(path)]


class TestResume:
    @pytest.mark.parametrize("done", range(4))
    @pytest.mark.parametrize("torn", [0, 1, 40])
    def test_recorded_charges_are_accepted_and_not_written_again(self, ledger, path, done, torn):
        for release in RELEASES[:done]:
            ledger.charge(release.name)
        whole = charge_all(Ledger(PLAN, RELEASES)).text()
        before = path.read_text()
        path.write_text(whole[: len(before) + torn])
        again = Ledger(PLAN, RELEASES, path, resume=True)
        assert again.torn is (done < 3 and torn > 0)
        assert again.recorded == tuple(release.name for release in RELEASES[:done])
        assert path.read_text() == before
        for release in RELEASES[:done]:
            again.charge(release.name)
            assert path.read_text() == before
        for release in RELEASES[done:]:
            again.charge(release.name)
        assert path.read_text() == again.text() == whole

    def test_a_ledger_that_was_not_begun_is_begun(self, path):
        for content in (None, "", '{"hash":"'):
            path.unlink(missing_ok=True)
            if content is not None:
                path.write_text(content)
            ledger = charge_all(Ledger(PLAN, RELEASES, path, resume=True))
            assert ledger.torn is bool(content)
            assert path.read_text() == ledger.text()

    def test_charges_stay_in_order(self, path):
        charge_all(Ledger(PLAN, RELEASES, path))
        again = Ledger(PLAN, RELEASES, path, resume=True)
        with pytest.raises(BudgetExceededError, match=r"aggregate/2.*encoder"):
            again.charge("aggregate/2")

    def test_another_plan_or_an_altered_file_is_refused(self, path):
        charge_all(Ledger(PLAN, RELEASES, path))
        whole = path.read_text()
        other = {**PLAN, "claim": {"epsilon": 2.0, "delta": 1e-7}}
        with pytest.raises(LedgerError, match="Line 1 of"):
            Ledger(other, RELEASES, path, resume=True)
        for content, line in (
            (whole.replace('"aggregate/1"', '"aggregate/3"'), 1),
            (whole.replace('"index":2', '"index":3'), 3),
            (whole + whole.splitlines()[-1] + "\n", 5),
            (whole + "{", 5),
        ):
            path.write_text(content)
            with pytest.raises(LedgerError, match=f"Line {line} of"):
                Ledger(PLAN, RELEASES, path, resume=True)
            assert path.read_text() == content


class TestChain:
    CONTENT = charge_all(Ledger(PLAN, RELEASES)).text().encode()

    def test_a_whole_file_has_no_problem(self):
        chain = Chain.parse(self.CONTENT)
        assert (len(chain.entries), chain.size, chain.torn, chain.problem) == (4, len(self.CONTENT), False, None)

    def test_every_cut_inside_a_line_is_seen(self):
        ends = [i + 1 for i, byte in enumerate(self.CONTENT) if byte == ord("\n")]
        for size in range(0, len(self.CONTENT), 7):
            chain = Chain.parse(self.CONTENT[:size])
            assert chain.problem is None
            assert chain.torn is (size > 0 and size not in ends)
            assert chain.size == max([end for end in ends if end <= size], default=0)

    @pytest.mark.parametrize(
        ("change", "problem"),
        [
            (lambda lines: [lines[0], lines[2], lines[1], lines[3]], "line 2 .* index is 2"),
            (lambda lines: [lines[0], lines[2], lines[3]], "line 2 .* index is 2"),
            (lambda lines: lines[1:], "line 1 .* index is 1"),
            (lambda lines: [*lines[:2], lines[2].replace(b"3.5", b"4.5"), lines[3]], "line 3 .* hash"),
            (lambda lines: [lines[0].replace(b":", b": ", 1), *lines[1:]], "line 1 is not in canonical form"),
            (lambda lines: [*lines[:3], b"null"], "line 4 is not a JSON object"),
            (lambda lines: [*lines[:3], lines[3].replace(b'"index":3', b'"index":NaN')], "line 4"),
            (lambda lines: [*lines, b""], "line 5 is not a JSON object"),
        ],
    )
    def test_alterations_are_named_by_line(self, change, problem):
        altered = b"\n".join(change(self.CONTENT.splitlines())) + b"\n"
        chain = Chain.parse(altered)
        assert chain.problem is not None
        assert chain.torn is False
        assert re.match(problem, chain.problem)
        assert len(chain.entries) == int(chain.problem.split()[1]) - 1


def test_a_line_is_written_whole_although_the_system_takes_it_in_pieces(path):
    line = canonical_json({"text": "x" * 100000})
    append_line(path, line, new=True)
    append_line(path, line, new=False)
    assert path.read_text() == 2 * (line + "\n")
    with pytest.raises(FileExistsError):
        append_line(path, line, new=True)
    assert path.read_text() == 2 * (line + "\n")
