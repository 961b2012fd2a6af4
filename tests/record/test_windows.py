"""A ledger of windows: each has the totals for itself, and what has no place in it is refused before anything is written."""

from fractions import Fraction

import pytest
from claimed import DATASET, UNIT, claim, files

from sfumato.errors import BudgetExceededError, InputError, LedgerError
from sfumato.record import _windows as windows
from sfumato.record._dataset_ledger import DatasetLedger, read_account
from sfumato.record._ledger_file import noted_sums
from sfumato.record._schedule import Schedule

EDGE = {**UNIT}
NODE = {"name": "node", "relation": "remove", "arcs": "owned", "max_out_degree": 10}


def ledger(path, **how):
    return DatasetLedger(path, **{"total_epsilon": 1.0, "total_delta": 1e-5, "population": "payers", **how})


def reserve(to, one, window, unit=EDGE):
    dataset = DATASET if window is None else {**DATASET, "window": window}
    to.reserve(one, unit=unit, dataset=dataset, stated=to.stated(one.delta, unit, window))


@pytest.fixture
def path(tmp_path):
    """A ledger in which January has spent 0.9 of epsilon 1, and February 0.4."""
    for window, epsilon in (("paid=2026-01", 0.5), ("paid=2026-02", 0.4), ("paid=2026-01", 0.4)):
        reserve(ledger(tmp_path / "l.jsonl"), claim(epsilon), window)
    return tmp_path / "l.jsonl"


def test_each_window_has_the_totals_for_itself(path):
    account = read_account(path)
    assert account.problem is None
    assert account.header["windows"] == {"column": "paid", "period": "month"}
    spent = {name: account.within(name).spent()["epsilon"] for name in ("2026-01", "2026-02", "2026-03")}
    assert spent == {"2026-01": Fraction("0.9"), "2026-02": Fraction("0.4"), "2026-03": 0}
    assert account.spent()["epsilon"] == noted_sums(path)["epsilon"] == Fraction("0.9")
    assert account.left()["epsilon"] == account.total()["epsilon"] == 1.0
    assert account.cost()[0] == 0.9
    with pytest.raises(BudgetExceededError, match=r"window 2026-01, with epsilon 0.9, .*short by 0.1"):
        reserve(DatasetLedger(path), claim(0.2), "paid=2026-01")
    reserve(DatasetLedger(path), claim(0.6), "paid=2026-02")
    reserve(DatasetLedger(path), claim(1.0), "paid=2027-01")
    assert read_account(path).spent()["epsilon"] == noted_sums(path)["epsilon"] == 1
    seen = DatasetLedger(path).look(claim(0.1), unit=EDGE, dataset={**DATASET, "window": "paid=2026-01"})
    assert seen.left()["epsilon"] == 0.1


def test_noise_of_a_window_is_marked_and_a_run_is_charged_once(path):
    one, again = claim(0.1), DatasetLedger(path)
    for _ in range(2):
        dataset = {**DATASET, "window": "paid=2026-03"}
        again.reserve(one, unit=EDGE, dataset=dataset, mark="a", stated=again.stated(1e-7, EDGE, "paid=2026-03"))
        again.spend(one.run, "a", "first noise")
    account = read_account(path)
    assert (account.windows[one.run], account.state(one), len(account.claims)) == ("2026-03", "spent", 4)


def test_rule_gdp_counts_each_window_apart(tmp_path):
    path = tmp_path / "l.jsonl"
    for window in ("day=2026-W01", "day=2026-W02"):
        reserve(ledger(path, composition="gdp"), claim(1.0, mu=0.2), window)
    assert read_account(path).spent()["mu^2"] == Fraction("0.04")
    with pytest.raises(BudgetExceededError, match="window 2026-W01"):
        reserve(DatasetLedger(path), claim(1.0, mu=0.2), "day=2026-W01")


@pytest.mark.parametrize(
    ("window", "said"),
    [
        (None, r"charges each one apart, got none. Name it, such as --window paid=2026-03"),
        ("date=2026-03", "windows that overlap would count one edge in two accounts"),
        ("paid=2026-Q1", "a month by column 'paid', got 'paid=2026-Q1'"),
        ("paid=2026", "a month by column 'paid'"),
        ("paid=2026-03-01", "a month by column 'paid'"),
        ("paid=2026-13", "to be a window that there is"),
    ],
)
def test_a_run_reads_one_window_of_the_ledger(path, window, said):
    before = files(path)
    with pytest.raises(InputError, match=said):
        reserve(DatasetLedger(path), claim(), window)
    dataset = DATASET if window is None else {**DATASET, "window": window}
    with pytest.raises(InputError, match=said):
        DatasetLedger(path).look(claim(), unit=EDGE, dataset=dataset)
    assert files(path) == before


@pytest.mark.parametrize(
    ("how", "unit", "said"),
    [
        ({"population": None}, EDGE, "Expected --population NAME"),
        ({}, NODE, "got unit 'node': features, labels and people last through all windows"),
        ({"schedule": Schedule(1.0, 1e-5, "basic", 1e-6, (0.5,))}, EDGE, "Expected no --schedule with --window"),
    ],
)
def test_what_has_no_windows_begins_no_ledger_of_them(tmp_path, how, unit, said):
    with pytest.raises(InputError, match=said):
        reserve(ledger(tmp_path / "l.jsonl", **how), claim(), "paid=2026-03", unit)
    assert not any(name.startswith("l.jsonl") and not name.endswith(".lock") for name in files(tmp_path / "l.jsonl"))


def test_a_ledger_without_windows_takes_none(tmp_path):
    path = tmp_path / "l.jsonl"
    reserve(ledger(path), claim(), None)
    with pytest.raises(InputError, match="begun without windows, got 'paid=2026-03': all its runs add up"):
        reserve(DatasetLedger(path), claim(), "paid=2026-03")


def test_a_plan_for_another_window_is_not_charged_here(path):
    to = DatasetLedger(path)
    planned = to.stated(1e-7, EDGE, "paid=2026-03")
    assert planned["window"] == "2026-03"
    with pytest.raises(LedgerError, match="made for another ledger"):
        to.reserve(claim(), unit=EDGE, dataset={**DATASET, "window": "paid=2026-04"}, stated=planned)


@pytest.mark.parametrize(
    "entry", [{}, {"window": None}, {"window": "2026-13"}, {"window": "2026-3"}, {"window": "2026-Q1"}, {"window": 7}]
)
def test_a_line_names_a_window_of_the_grid(entry):
    with pytest.raises(TypeError):
        windows.of_line({"column": "paid", "period": "month"}, entry)


def test_a_damaged_line_is_named_and_nothing_is_charged(path):
    lines = path.read_bytes().replace(b'"window":"2026-02"', b'"window":"2026-Q2"')
    path.write_bytes(lines)
    with pytest.raises(LedgerError, match="is damaged"):
        reserve(DatasetLedger(path), claim(), "paid=2026-03")


@pytest.mark.parametrize(
    "changes",
    [
        {"windows": {"column": "paid", "period": "decade"}}, {"windows": {"period": "month"}}, {"windows": "month"},
        {"schedule": {"epsilons": [1.0], "delta": 0.0}}, {"dataset": DATASET}, {"dataset": []},
    ],
)  # fmt: skip
def test_a_header_has_windows_of_a_period(changes):
    sound = {"windows": {"column": "paid", "period": "month"}, "dataset": {"name": "payers", "population": True}}
    assert windows.fits(sound)
    assert not windows.fits({**sound, **changes})
