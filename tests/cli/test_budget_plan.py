"""Plans of many runs, from the file to the ledger that obeys it."""

import json

import pytest
from living import Town

import sfumato as sf
from sfumato.catalog import method_named
from sfumato.cli._budget_plan import _METHODS
from sfumato.graph._graph import PublicFacts
from sfumato.privacy.events import GaussianEvent, flatten
from sfumato.record._reading import read_account
from sfumato.verify import verify_ledger


@pytest.fixture
def plan(sfumato, tmp_path):
    def made(*options):
        told = sfumato(
            "budget",
            "plan",
            "--runs",
            "3",
            "--total-epsilon",
            "2",
            "--delta",
            "1e-6",
            *options,
            "--out",
            tmp_path / "p",
        )
        assert told.code == 0, told.err
        return tmp_path / "p"

    return made


@pytest.fixture
def train(sfumato, tmp_path):
    tables = Town(60).write(tmp_path / "tables")

    def run(name, method, epsilon, *options, delta="0"):
        asked = ("--unit", "edge", "--epsilon", epsilon, "--delta", delta, "--ledger", tmp_path / "l.jsonl")
        return sfumato("train", method, *tables, *asked, *options, "--out", tmp_path / name)

    return run


def test_a_ledger_obeys_its_schedule(plan, train, sfumato, tmp_path):
    file = plan("--shape", "late", "--composition", "basic")
    each = json.loads(file.read_text())["epsilons"]
    assert each == sorted(each)
    above = train("a", "lpgnet", "0.6", "--schedule", file, "--set", "epochs=1")
    assert (above.code, f"at most epsilon {each[0]:g}, which the plan" in above.err) == (1, True)
    assert not (tmp_path / "l.jsonl").exists()
    for name, epsilon in zip("abc", each, strict=True):
        shown = sfumato("ledger", "plan", tmp_path / "l.jsonl", "--json") if name != "a" else None
        assert shown is None or json.loads(shown.out)["runs"][0]["epsilon"] == epsilon
        options = ("--schedule", file) if name != "c" else ()
        assert train(name, "lpgnet", epsilon, "--set", "epochs=1", *options).code == 0
    fourth = train("d", "lpgnet", "0.000001", "--set", "epochs=1")
    assert (fourth.code, "is for 3 runs, which are all charged" in fourth.err) == (1, True)
    found = verify_ledger(tmp_path / "l.jsonl")
    assert (found.valid, found.header["schedule"]["epsilons"]) == (True, each)
    assert "3 of 3 runs are charged" in sfumato("ledger", "plan", tmp_path / "l.jsonl").out
    again = train("e", "lpgnet", "0.1", "--schedule", file, "--total-epsilon", "3")
    assert (again.code, "as the schedule says" in again.err) == (2, True)


def test_a_ledger_of_squares_takes_the_default(plan, train, sfumato, tmp_path):
    file = plan("--composition", "gdp")
    values = json.loads(file.read_text())
    each = values["epsilons"][0]
    for name in "abc":
        told = train(name, "auto", each, *(("--schedule", file) if name == "a" else ()), delta=values["delta"])
        assert told.code == 0, told.err
        assert "counts have Gaussian noise, which costs least where a ledger adds up squares of mu" in told.err
    made = json.loads((tmp_path / "a" / "release" / "certificate.json").read_text())
    assert (made["method"], made["settings"]["noise"]) == ("label-messages", "gaussian")
    assert [one["event"]["type"] for one in made["releases"]] == ["gaussian"]
    fourth = train("d", "auto", each, delta=values["delta"])
    assert (fourth.code, "is for 3 runs, which are all charged" in fourth.err) == (1, True)
    found = verify_ledger(tmp_path / "l.jsonl")
    assert found.valid
    assert found.problems == ()
    (name,) = found.spent
    assert name == "mu"
    left = json.loads(sfumato("ledger", "show", tmp_path / "l.jsonl", "--json").out)["left"]["mu^2"]
    assert left > 0


def test_without_delta_or_squares_counts_have_laplace_noise(train, tmp_path):
    """The rule reads the ledger and the budget, which are public."""
    for name, delta, rule in (("a", "0", "gdp"), ("b", "1e-7", "basic")):
        (tmp_path / "l.jsonl").unlink(missing_ok=True)
        (tmp_path / "l.jsonl.head").unlink(missing_ok=True)
        totals = ("--total-epsilon", "2", "--total-delta", "1e-6", "--composition", rule)
        told = train(name, "auto", "0.2", *totals, delta=delta)
        assert (told.code, "Gaussian" in told.err) == (0, False)
        made = json.loads((tmp_path / name / "release" / "certificate.json").read_text())
        assert made["settings"]["noise"] in (None, "laplace")
        assert [one["event"]["type"] for one in made["releases"]] == ["pure"]


def test_a_plan_without_a_ledger_prints_every_rule(sfumato):
    asked = ("budget", "plan", "--runs", "12", "--total-epsilon", "4", "--delta", "1e-6")
    told = json.loads(sfumato(*asked, "--json").out)
    assert [one["rule"] for one in told["rules"]] == ["basic", "gdp", "joint"]
    assert told["chosen"] == "gdp"
    assert [one["law"] for one in told["rules"]] == ["laplace", "gaussian", "laplace"]
    assert list(told["schedules"]) == ["equal", "early", "late"]
    shown = sfumato(*asked).out
    assert "basic: epsilon 0.333333 each (delta 8.33e-08), laplace noise of deviation 4.24" in shown
    assert "gdp: epsilon 1.02354 each (delta 1e-06), gaussian noise of deviation 4.13" in shown
    assert "early: own release 4.43, 6.12; mean of all releases so far 1.62, 1.19" in shown
    assert "No accuracy on public graphs is recorded with about this noise" in shown
    assert (
        "one history of 12 refreshes (sfumato daily) costs these totals once, and leaves noise of deviation 0.675"
        in shown
    )
    assert told["history"]["noise"] == "increments"
    assert "history" not in json.loads(sfumato(*asked, "--method", "gap", "--json").out)
    late = json.loads(sfumato(*asked, "--shape", "late", "--json").out)["rules"]
    assert [one["rule"] for one in late] == ["basic", "gdp", "joint"]
    assert late[2]["epsilons"] == sorted(late[2]["epsilons"])
    few = sfumato(*asked[:3], "4", *asked[4:])
    assert "Berkeley13" in few.out
    assert "Rule basic leaves the least noise" in few.out


def test_whole_numbers_that_a_hand_wrote_into_a_schedule_leave_a_ledger_that_can_be_read(plan, train, tmp_path):
    file = plan("--composition", "basic")
    file.write_text(json.dumps({**json.loads(file.read_text()), "epsilons": [1, 1], "total_epsilon": 2}))
    for name in "ab":
        told = train(name, "lpgnet", "1", "--set", "epochs=1", *(("--schedule", file) if name == "a" else ()))
        assert told.code == 0, told.err
    assert verify_ledger(tmp_path / "l.jsonl").valid
    assert read_account(tmp_path / "l.jsonl").header["schedule"]["epsilons"] == [1.0, 1.0]


def test_strange_schedules_are_refused(plan, train, tmp_path):
    file = plan()
    values = json.loads(file.read_text())
    for wrong in (
        {**values, "format": 2},
        {**values, "epsilons": [0.7, 0.7, 0.7]},
        {**values, "more": 1},
        {"format": 1},
        [],
    ):
        file.write_text(json.dumps(wrong))
        told = train("a", "auto", "0.1", "--schedule", file)
        assert told.code == 2
        assert "Expected " in told.err
    assert not (tmp_path / "l.jsonl").exists()


@pytest.mark.parametrize(("method", "kind"), _METHODS.items())
def test_methods_are_of_the_kind_that_plans_say(method, kind):
    facts = PublicFacts(num_nodes=1000, num_train=750, num_features=10, num_classes=3, directed=False)
    for rule in ("basic", "gdp"):
        made = method_named(method).charged_to(rule)
        plan = made.calibrate(sf.Budget(2.0, 1e-6), sf.EdgeLevel(directed=False), facts)
        events = [event for event, _ in flatten([release.event for release in plan.entry.releases])]
        assert events
        gaussian = kind == "gaussian" or (kind, rule) == ("counts", "gdp")
        assert all(isinstance(event, GaussianEvent) if gaussian else event.pure() is not None for event in events)
