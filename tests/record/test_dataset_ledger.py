"""The ledger of a data set: whole claims, charged once, never above the totals, whatever happens to the process or file."""

import errno
import json
import os
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from claimed import DATASET, UNIT, claim, failing_sync, files, reserve
from filelock import FileLock

from sfumato.errors import BudgetExceededError, InputError, LedgerError
from sfumato.privacy import accounting
from sfumato.privacy.calibration import gaussian_noise_multiplier
from sfumato.privacy.events import GaussianEvent, PoissonGaussianEvent
from sfumato.privacy.units import LinkLevel, LocalLevel, unit_to_dict
from sfumato.record import _ledger_file as ledger_file
from sfumato.record._claims import FIRST_NOISE, Claim
from sfumato.record._dataset_ledger import DatasetLedger, read_account
from sfumato.record._reading import is_header
from sfumato.record.ledger import Release, canonical_json, chained


class TestBasic:
    def test_ten_tenths_fit_into_one_and_an_eleventh_does_not(self, ledger, path):
        reserve(ledger, *(claim() for _ in range(10)))
        before = files(path)
        with pytest.raises(BudgetExceededError) as caught:
            reserve(ledger, claim(1e-15, 0.0))
        assert "with epsilon 1, delta 1e-6 spent: " in str(caught.value)
        assert "got epsilon 1e-15 with 0 of 1 left, short by 1e-15. Nothing was charged" in str(caught.value)
        assert files(path) == before
        assert all(left == 0 for left in read_account(path).left().values())

    def test_the_shortfall_is_exact(self, ledger):
        reserve(ledger, claim(0.7, 1e-7), claim(0.2, 8e-7))
        with pytest.raises(BudgetExceededError) as caught:
            reserve(ledger, claim(0.3, 2e-7))
        assert "with epsilon 0.9, delta 9e-7 spent: " in str(caught.value)
        assert "epsilon 0.3 with 0.1 of 1 left, short by 0.2; " in str(caught.value)
        assert "delta 2e-7 with 1e-7 of 1e-6 left, short by 1e-7." in str(caught.value)
        reserve(ledger, claim(0.1, 1e-7))

    def test_a_first_claim_above_the_total_makes_no_file(self, ledger, path):
        with pytest.raises(
            BudgetExceededError, match=r"epsilon 0, delta 0 spent: .* 1\.5 with 1 of 1 left, short by 0\.5"
        ):
            reserve(ledger, claim(1.5))
        assert files(path) == {}

    def test_any_claim_adds_up_here(self, ledger, path):
        reserve(ledger, claim(mu=None), claim(mu=0.1), claim(0.0, 0.0))
        assert read_account(path).spent() == {"epsilon": Fraction("0.2"), "delta": Fraction("2e-7")}

    @pytest.mark.parametrize("name", ["total_epsilon", "total_delta"])
    def test_a_total_that_is_no_float_is_no_total(self, ledger, path, name):
        reserve(ledger, claim())
        header = read_account(path).header
        assert is_header(header)
        assert not is_header({**header, name: 1})

    @pytest.mark.parametrize("unit", [LocalLevel(), LinkLevel()])
    def test_local_runs_claim_no_delta_and_fix_none(self, tmp_path, unit):
        unit = unit_to_dict(unit)
        ledger = DatasetLedger(tmp_path / "a", 1.0)
        for _ in range(2):
            ledger.reserve(claim(0.5, 0.0, draws=0), unit=unit, dataset=DATASET)
        assert read_account(tmp_path / "a").header["total_delta"] == 0.0
        assert read_account(tmp_path / "a").left() == {"epsilon": 0.0, "delta": 0.0}
        with pytest.raises(BudgetExceededError, match="epsilon"):
            ledger.reserve(claim(1e-9, 0.0, draws=0), unit=unit, dataset=DATASET)

    def test_total_delta_is_ten_times_the_first_unless_given(self, tmp_path):
        reserve(DatasetLedger(tmp_path / "a", 1.0), claim(delta=1e-6))
        assert read_account(tmp_path / "a").header["total_delta"] == 1e-5
        with pytest.raises(InputError, match="--total-delta"):
            reserve(DatasetLedger(tmp_path / "b", 1.0), claim(0.0, 0.0))
        assert not (tmp_path / "b").exists()


class TestGaussian:
    def ledger(self, path, epsilon=1.0, delta=1e-6):
        return DatasetLedger(path, epsilon, delta, "gdp")

    def test_squares_add_up_to_what_the_total_buys(self, path):
        ledger = self.ledger(path)
        whole = 1 / gaussian_noise_multiplier(1.0, 1e-6)
        reserve(ledger, *(claim(0.4, 1e-6, mu=whole / 2 * 0.999999) for _ in range(4)))
        account = read_account(path)
        mu = float(account.spent()["mu^2"]) ** 0.5
        assert accounting.epsilon([GaussianEvent(1 / mu)], 1e-6) <= 1.0
        assert accounting.epsilon([GaussianEvent(1 / account.total()["mu^2"] ** 0.5)], 1e-6) == pytest.approx(1)
        with pytest.raises(BudgetExceededError, match=r"mu\^2 5\.6.*with 1\.1.*e-7 of 0\.056"):
            reserve(ledger, claim(0.001, 1e-6, mu=whole / 100))

    @pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
    @pytest.mark.parametrize("delta", [1e-9, 1e-5])
    def test_one_plan_may_take_the_whole_and_hardly_more_is_refused(self, path, epsilon, delta):
        ledger = self.ledger(path, epsilon, delta)
        mu = 1 / gaussian_noise_multiplier(epsilon, delta)
        with pytest.raises(BudgetExceededError, match="short by"):
            reserve(ledger, claim(epsilon, delta, mu=mu * (1 + 1e-8)))
        reserve(ledger, claim(epsilon, delta, mu=mu))

    def test_noise_samplers_have_a_share_of_delta(self, path):
        with pytest.raises(BudgetExceededError, match="sampler delta"):
            reserve(self.ledger(path), claim(mu=0.1, draws=10**16))

    def test_other_events_are_refused_with_a_remedy(self, path):
        with pytest.raises(InputError, match="--composition basic"):
            reserve(self.ledger(path), claim(mu=None))
        assert files(path) == {}

    def test_mu_is_read_off_the_releases_and_never_below(self):
        gaussian = [Release(f"a/{i}", GaussianEvent(z, count=3), (4, 16), 32) for i, z in enumerate((0.3, 1.7, 11.0))]
        one = Claim.of("run", "gap", 1.0, 1e-6, gaussian, "0")
        square = sum(3 / Fraction(z) ** 2 for z in ("0.3", "1.7", "11"))
        assert square <= Fraction(repr(one.mu)) ** 2 < square * (1 + Fraction(1, 10**14))
        assert one.draws == 3 * 3 * 32
        sampled = Release("encoder", PoissonGaussianEvent(0.1, 2.0, 5), (9,), 9)
        assert Claim.of("run", "gap", 1.0, 1e-6, [*gaussian, sampled], "0").mu is None
        assert Claim.of("run", "mlp", 0.0, 0.0, [], "0").mu == 0


class TestHeader:
    @pytest.fixture(autouse=True)
    def _begun(self, ledger):
        reserve(ledger, claim())

    def test_options_may_be_left_out_or_must_agree(self, path):
        reserve(DatasetLedger(path), claim())
        reserve(DatasetLedger(path, 1.0, 1e-6, "basic"), claim())
        for wrong in ({"total_epsilon": 2.0}, {"total_delta": 1e-5}, {"composition": "gdp"}):
            ((name, value),) = wrong.items()
            with pytest.raises(
                InputError, match=f"--{name.replace('_', '-')} {read_account(path).header[name]}.*{value}"
            ):
                reserve(DatasetLedger(path, **wrong), claim())
        assert len(read_account(path).claims) == 3

    def test_another_unit_or_data_set_is_refused(self, path):
        ledger, before = DatasetLedger(path), files(path)
        with pytest.raises(InputError, match="unit"):
            ledger.reserve(claim(), unit={**UNIT, "directed": True}, dataset=DATASET)
        for other in ({**DATASET, "name": "school"}, {**DATASET, "ids_digest": "cd" * 32}):
            with pytest.raises(InputError, match="that data set's own ledger"):
                ledger.reserve(claim(), unit=UNIT, dataset=other)
        assert files(path) == before

    def test_a_run_is_charged_once(self, path):
        one = claim()
        reserve(DatasetLedger(path), one, one, one)
        assert len(read_account(path).claims) == 2
        with pytest.raises(LedgerError, match="another claim"):
            reserve(DatasetLedger(path), replace(one, epsilon=0.05))

    def test_a_charged_run_is_accepted_although_nothing_is_left(self, path):
        last = claim(0.9)
        reserve(DatasetLedger(path), last)
        reserve(DatasetLedger(path), last)
        with pytest.raises(BudgetExceededError):
            reserve(DatasetLedger(path), claim())


class TestSpent:
    """The first mark of a claim stands; whoever shows another one is refused, and nothing is written."""

    @pytest.fixture
    def one(self, ledger):
        one = claim()
        reserve(ledger, one)
        return one

    def test_a_claim_is_reserved_then_spent(self, ledger, path, one):
        other = claim()
        reserve(ledger, other)
        ledger.spend(one.run, "mark", FIRST_NOISE)
        account = read_account(path)
        assert [account.state(each) for each in (one, other)] == ["spent", "reserved"]
        assert account.marks == {one.run: {FIRST_NOISE: "mark"}, other.run: {}}
        assert account.spent()["epsilon"] == Fraction("0.2")
        assert account.problem is None

    def test_the_same_mark_is_accepted_again_and_another_is_refused(self, ledger, path, one):
        ledger.spend(one.run, "mark", FIRST_NOISE)
        ledger.spend(one.run, "other", "aggregate/1")
        before = files(path)
        ledger.spend(one.run, "mark", FIRST_NOISE)
        ledger.spend(one.run, "other", "aggregate/1")
        ledger.reserve(one, unit=UNIT, dataset=DATASET, mark="mark")
        for what, mark in ((FIRST_NOISE, "other"), ("aggregate/1", "mark")):
            with pytest.raises(LedgerError, match=rf"run {one.run[:8]} .* is spent: its {what} was drawn already"):
                ledger.spend(one.run, mark, what)
        for mark in (None, "other"):
            with pytest.raises(LedgerError, match="is spent"):
                ledger.reserve(one, unit=UNIT, dataset=DATASET, mark=mark)
        assert files(path) == before

    def test_a_claim_that_an_older_copy_lost_is_not_drawn_under(self, ledger, path, one):
        older = files(path)
        late = claim()
        reserve(ledger, late)
        for name, content in older.items():
            (path.parent / name).write_bytes(content)
        with pytest.raises(LedgerError, match="holds no claim of run"):
            ledger.spend(late.run, "mark", FIRST_NOISE)
        assert files(path) == older

    def test_a_mark_that_a_dying_writer_left_half_written_was_not_made(self, ledger, path, one):
        whole = path.read_bytes()
        ledger.spend(one.run, "first", FIRST_NOISE)
        line = path.read_bytes()[len(whole) :]
        lines = whole.splitlines()
        path.with_name(path.name + ".head").write_text(
            canonical_json({"entries": 2, "hash": json.loads(lines[1])["hash"]}) + "\n"
        )
        path.write_bytes(whole + line[:-9])
        assert read_account(path).state(one) == "reserved"
        ledger.spend(one.run, "second", FIRST_NOISE)
        assert read_account(path).marks[one.run] == {FIRST_NOISE: "second"}

    @pytest.mark.parametrize(
        "changes",
        [
            {"mark": "other"},
            {"mark": None},
            {"what": "x", "mark": 3},
            {"what": ["x"]},
            {"run": "0" * 32},
            {"run": None},
        ],
    )
    def test_a_chain_of_strange_marks_is_damaged(self, ledger, path, one, changes):
        ledger.spend(one.run, "mark", FIRST_NOISE)
        entries = [json.loads(line) for line in path.read_text().splitlines()]
        body = {"kind": "spent", "run": one.run, "what": FIRST_NOISE, "mark": "mark", **changes}
        path.write_text(path.read_text() + canonical_json(chained(entries, body)) + "\n")
        assert "line 4 is not the claim of a run, nor its mark" in read_account(path).problem
        with pytest.raises(LedgerError, match="damaged"):
            ledger.spend(one.run, "mark", FIRST_NOISE)

    def test_two_processes_that_spend_one_claim_have_one_winner(self, path, one):
        pipe = subprocess.PIPE
        command = [sys.executable, "-c", SPEND, str(path), one.run]
        racers = [subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) for _ in range(2)]
        done = _start_together(racers)
        assert [error for _, error in done] == [""] * 2
        (won,) = [out.strip() for out, _ in done if out.strip()]
        assert read_account(path).marks[one.run] == {FIRST_NOISE: won}

    def test_every_failing_sync_leaves_the_claim_reserved_or_spent_with_this_mark(self, ledger, path, monkeypatch):
        for allowed in range(3):
            one = claim(0.01, 1e-9)
            reserve(ledger, one)
            with monkeypatch.context() as patch:
                failing_sync(patch, allowed)
                with pytest.raises(OSError, match="No space"):
                    ledger.spend(one.run, "mark", FIRST_NOISE)
            account = read_account(path)
            assert account.problem is None
            assert account.marks[one.run] in ({}, {FIRST_NOISE: "mark"})
            ledger.spend(one.run, "mark", FIRST_NOISE)


class TestDamage:
    """A file that lost or changed an entry refuses to go on; one whose writer died while writing does not."""

    @pytest.fixture(autouse=True)
    def _three_runs(self, ledger):
        reserve(ledger, *(claim() for _ in range(3)))

    def refused(self, path, problem):
        before = files(path)
        assert problem in read_account(path).problem
        with pytest.raises(LedgerError, match="is damaged"):
            reserve(DatasetLedger(path), claim())
        assert files(path) == before

    def lines(self, path):
        return path.read_text().splitlines(keepends=True)

    def test_altered_entries(self, path):
        lines = self.lines(path)
        for number in (2, 3, 4):
            altered = [*lines]
            altered[number - 1] = altered[number - 1].replace('"epsilon":0.1', '"epsilon":0.01')
            path.write_text("".join(altered))
            self.refused(path, f"line {number} ")

    def test_reordered_removed_and_doubled_entries(self, path):
        a, b, c, d = self.lines(path)
        for lines, number in (((a, c, b, d), 2), ((a, b, d), 3), ((a, b, c, d, d), 5), ((a, b, c, "\n", d), 4)):
            path.write_text("".join(lines))
            self.refused(path, f"line {number} ")

    @pytest.mark.parametrize("kept", [1, 2, 3])
    def test_a_cut_at_a_line_and_inside_one(self, path, kept):
        lines = self.lines(path)
        for rest in ("", lines[kept][:-1], lines[kept][:30]):
            path.write_text("".join(lines[:kept]) + rest)
            self.refused(path, f"line {kept + 1} is missing")

    def test_a_lost_file_is_not_begun_anew(self, path):
        path.unlink()
        with pytest.raises(InputError, match=r"does not exist.*must be restored"):
            reserve(DatasetLedger(path, 1.0), claim())
        assert not path.exists()

    def test_a_lost_or_strange_head(self, path):
        head = path.with_name(path.name + ".head")
        content = head.read_text()
        for strange in ("", "{}", "[1]", content.replace(":4", ":0"), content.replace(":4", ':"x"')):
            head.write_text(strange)
            self.refused(path, "damaged; restore")
        head.write_text(content.replace(":4", ":3"))
        self.refused(path, "line 3 is not the one")
        head.unlink()
        self.refused(path, "missing; restore")

    @pytest.mark.parametrize("kept", ["header", "part of the header", "nothing"])
    def test_without_its_head_no_file_counts_as_empty(self, path, kept):
        """It would begin anew, with all of the budget."""
        path.with_name(path.name + ".head").unlink()
        header = self.lines(path)[0]
        path.write_text({"header": header, "part of the header": header[:40], "nothing": ""}[kept])
        before = files(path)
        with pytest.raises((InputError, LedgerError), match="estore"):
            reserve(DatasetLedger(path, 1.0), claim())
        assert files(path) == before

    @pytest.mark.parametrize("keep_times", [False, True])
    def test_lines_that_were_sound_before_are_checked_again_once_they_changed(self, path, ledger, keep_times):
        """A ledger that is open in this process does not check what it knows again, so nothing may change beneath it unseen."""
        status = path.stat()
        content = path.read_text()
        path.write_text(content.replace('"epsilon":0.1', '"epsilon":0.0', 1))
        if keep_times:
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert path.stat().st_size == status.st_size
        with pytest.raises(LedgerError, match="line 2 "):
            reserve(ledger, claim())
        path.write_text(content)
        reserve(ledger, claim())

    def test_a_line_of_a_writer_that_died_is_dropped(self, path, ledger):
        whole = path.read_bytes()
        path.write_bytes(whole + b'{"claim":{"delta":1e-07')
        assert read_account(path).problem is None
        assert len(read_account(path).claims) == 3
        reserve(ledger, claim())
        assert path.read_bytes().startswith(whole)
        assert len(read_account(path).claims) == 4
        assert read_account(path).problem is None

    def test_a_writer_that_died_before_the_head_stays_charged(self, path):
        head = path.with_name(path.name + ".head")
        old = head.read_bytes()
        reserve(DatasetLedger(path), claim(0.7))
        head.write_bytes(old)
        assert read_account(path).left()["epsilon"] == 0
        with pytest.raises(BudgetExceededError):
            reserve(DatasetLedger(path), claim())

    def test_a_chain_of_strange_entries(self, path):
        entries = [json.loads(line) for line in self.lines(path)]
        for body in ({"kind": "run"}, {"kind": "run", "claim": {**entries[1]["claim"], "epsilon": -1.0}}):
            path.write_text("".join(self.lines(path)[:4]) + canonical_json(chained(entries, body)) + "\n")
            self.refused(path, "line 5 is not the claim of a run")
            path.write_text("".join(self.lines(path)[:4]))


@pytest.mark.parametrize("content", ["", '{"hash":"0123', "mine", "mine\n", "{}\n", '{"hash":"0123"}\n', "[]\n"])
def test_a_file_of_another_kind_is_refused_and_kept(path, content):
    path.write_text(content)
    with pytest.raises(InputError, match="to be the ledger of a data set"):
        reserve(DatasetLedger(path, 1.0), claim())
    assert path.read_text() == content


def test_bad_options_are_refused(path, tmp_path):
    for wrong in (
        {"total_epsilon": 0},
        {"total_epsilon": 1, "total_delta": 1},
        {"total_epsilon": 1, "composition": "rdp"},
    ):
        with pytest.raises(InputError, match=list(wrong)[-1]):
            DatasetLedger(path, **wrong)
    with pytest.raises(InputError, match="folder of the ledger to exist"):
        DatasetLedger(tmp_path / "absent" / "ledger.jsonl", 1.0)
    with pytest.raises(InputError, match="--total-epsilon"):
        DatasetLedger(path)


def test_every_failing_sync_leaves_the_claim_unmade_or_charged(ledger, path, monkeypatch):
    """The disk is full at the first, second, ... sync: an error, and never less in the file than before."""
    reserve(ledger, claim())
    for allowed in range(4):
        before = len(read_account(path).claims)
        with monkeypatch.context() as patch:
            failing_sync(patch, allowed)
            with pytest.raises(OSError, match="No space") if allowed < 3 else nullcontext():
                reserve(ledger, claim(0.01, 1e-9))
        assert read_account(path).problem is None
        assert len(read_account(path).claims) in ((before,) if allowed == 0 else (before, before + 1))


def test_a_read_only_file_is_an_error_and_nothing_changes(ledger, path, monkeypatch):
    reserve(ledger, claim())
    before, plain = files(path), os.open

    def denied(name, flags, *mode):
        if Path(name) == path and flags & (os.O_WRONLY | os.O_RDWR):
            raise PermissionError(errno.EACCES, "Permission denied", str(name))
        return plain(name, flags, *mode)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", denied)
        with pytest.raises(PermissionError, match=r"ledger\.jsonl"):
            reserve(ledger, claim())
    assert files(path) == before


def test_a_ledger_that_stays_locked_is_left_alone(ledger, path, monkeypatch):
    monkeypatch.setattr(ledger_file, "_WAIT_SECONDS", 0.05)
    with FileLock(str(path) + ".lock"), pytest.raises(LedgerError, match=r"locked by another process for 0\.05 s"):
        reserve(ledger, claim())
    assert files(path) == {}
    reserve(ledger, claim())


class TestLinks:
    """A symbolic link and the file that it names are one ledger, with one lock and one ``.head``."""

    @pytest.fixture
    def link(self, path, tmp_path):
        link = tmp_path / "links" / "a.jsonl"
        link.parent.mkdir()
        link.symlink_to(path)
        return link

    def test_a_dangling_link_starts_the_file_that_it_names(self, link, path):
        reserve(DatasetLedger(link, 4.0, 1e-5), claim())
        assert {one.name for one in link.parent.iterdir()} == {link.name}
        assert {one.name for one in path.parent.iterdir()} >= {path.name, path.name + ".head", path.name + ".lock"}
        assert read_account(link) == read_account(path)
        assert read_account(path).problem is None

    def test_both_names_go_on(self, link, path):
        for name in (path, link, path, link):
            reserve(DatasetLedger(name, 4.0, 1e-5), claim(0.5))
        account = read_account(link)
        assert (len(account.claims), account.problem) == (4, None)

    def test_the_lock_of_the_file_holds_for_the_link(self, link, path, monkeypatch):
        monkeypatch.setattr(ledger_file, "_WAIT_SECONDS", 0.05)
        with FileLock(str(path) + ".lock"), pytest.raises(LedgerError, match="locked by another process"):
            reserve(DatasetLedger(link, 4.0, 1e-5), claim())
        assert not path.exists()


def test_a_file_that_does_not_exist_is_said_to_be_missing(tmp_path):
    with pytest.raises(InputError, match=r"none\.jsonl'.*but the file does not exist\. Check the path"):
        read_account(tmp_path / "none.jsonl")


RACE = """
import sys
from pathlib import Path
from sfumato.errors import BudgetExceededError
from sfumato.record._claims import Claim, new_run
from sfumato.record._dataset_ledger import DatasetLedger
ledger = DatasetLedger(Path(sys.argv[1]), 1.0, 1e-5)
sys.stdin.readline()
won = 0
for _ in range(5):
    try:
        claim = Claim(new_run(), "gap", 0.1, 1e-7, None, 32, "0" * 64)
        ledger.reserve(claim, unit={"name": "edge"}, dataset={"name": "campus", "ids_digest": ""})
        won += 1
    except BudgetExceededError:
        pass
print(won)
"""


SPEND = """
import sys
from pathlib import Path
from sfumato.errors import LedgerError
from sfumato.record._claims import FIRST_NOISE, new_run
from sfumato.record._dataset_ledger import DatasetLedger
ledger, mark = DatasetLedger(Path(sys.argv[1])), new_run()
sys.stdin.readline()
try:
    ledger.spend(sys.argv[2], mark, FIRST_NOISE)
    print(mark)
except LedgerError:
    pass
"""


def test_processes_that_race_for_the_last_budget_cannot_overspend(path):
    """Three processes want 15 tenths of 1: exactly ten are given."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", RACE, str(path)]
    racers = [subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) for _ in range(3)]
    done = _start_together(racers)
    assert [error for _, error in done] == [""] * 3
    assert sum(int(out) for out, _ in done) == 10
    account = read_account(path)
    assert len({one.run for one in account.claims}) == len(account.claims) == 10
    assert account.problem is None
    assert account.left()["epsilon"] == 0


def _start_together(racers):
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    return [racer.communicate(timeout=60) for racer in racers]
