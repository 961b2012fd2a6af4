"""What the claims in a ledger cover: arrivals of one run each, and marks of what noise was drawn from."""

from dataclasses import replace
from pathlib import Path

import pytest

from sfumato.errors import LedgerError
from sfumato.record._arrivals import Arrival
from sfumato.record._claims import Account, Claim

PLAN, OTHER, PATH = "a" * 64, "b" * 64, Path("shared.jsonl")
PAID = Claim("1" * 32, "gap", 2.0, 1e-6, 0.5, 100, PLAN)
ARRIVAL = Arrival("c" * 64, PLAN, ("n1", "n2"))


def account(*claims, arrivals=()):
    return Account(
        {"composition": "basic", "total_epsilon": 9.0, "total_delta": 1e-3, "format": 2}, claims, arrivals=arrivals
    )


@pytest.mark.parametrize(
    ("costs", "covered"),
    [
        ({}, True),
        ({"epsilon": 1.9, "delta": 1e-7, "mu": 0.4, "draws": 99}, True),
        ({"epsilon": 2.1}, False),
        ({"delta": 2e-6}, False),
        ({"draws": 101}, False),
        ({"mu": 0.6}, False),
        ({"mu": None}, False),
    ],
)
def test_an_arrival_costs_no_more_than_the_claim_of_its_run_in_any_part(costs, covered):
    asked = replace(PAID, **costs)
    if covered:
        account(PAID).check_arrival(asked, ARRIVAL, PATH)
    else:
        with pytest.raises(LedgerError, match="costs more"):
            account(PAID).check_arrival(asked, ARRIVAL, PATH)
    other = replace(PAID, plan=OTHER, epsilon=1.0, delta=1e-7, draws=1, mu=0.1)  # another plan's claim decides nothing
    account(other, PAID).check_arrival(PAID, ARRIVAL, PATH)


def test_a_claim_of_other_than_gaussian_noise_covers_arrivals_by_its_other_parts():
    plain = replace(PAID, mu=None)
    for mu in (None, 5.0):
        account(plain).check_arrival(replace(plain, mu=mu), ARRIVAL, PATH)


def test_each_claim_is_extended_by_the_arrivals_of_one_run():
    other_run, other_plan = replace(ARRIVAL, extends="d" * 64), replace(ARRIVAL, extends="d" * 64, plan=OTHER)
    for told, claims, fine in (
        ((), (), False),
        ((), (replace(PAID, plan=OTHER),), False),
        ((other_run,), (PAID,), False),
        ((other_run,), (PAID, PAID), True),
        ((other_plan,), (PAID, replace(PAID, plan=OTHER)), True),
        ((replace(ARRIVAL, nodes=("n3",)),), (PAID,), True),
    ):
        found = account(*claims, arrivals=tuple((one, PAID) for one in told))
        if fine:
            found.check_arrival(PAID, ARRIVAL, PATH)
        else:
            with pytest.raises(LedgerError, match="no claim of the run"):
                found.check_arrival(PAID, ARRIVAL, PATH)


def test_a_node_arrives_once_at_each_run():
    for nodes in (("n1",), ("n0", "n2"), ("n1", "n2")):
        before = account(PAID, arrivals=((replace(ARRIVAL, nodes=nodes), PAID),))
        with pytest.raises(LedgerError, match="arrived before"):
            before.check_arrival(PAID, ARRIVAL, PATH)
    elsewhere = account(PAID, PAID, arrivals=((replace(ARRIVAL, extends="d" * 64), PAID),))
    elsewhere.check_arrival(PAID, ARRIVAL, PATH)


def test_a_mark_is_repeated_and_never_replaced():
    marked = replace(account(PAID), marks={PAID.run: {"first noise": "m"}})
    assert marked.marked(PAID.run, "first noise", "m", PATH)
    assert not marked.marked(PAID.run, "aggregate/1", "m", PATH)
    assert not marked.marked("2" * 32, "first noise", "m", PATH)
    for other in ("n", None):
        with pytest.raises(LedgerError, match="is spent"):
            marked.marked(PAID.run, "first noise", other, PATH)
    assert [marked.state(PAID), marked.state(replace(PAID, run="2" * 32))] == ["spent", "reserved"]
    first = replace(account(PAID), header={"format": 1})
    assert first.state(PAID) == "unknown"


def test_all_claims_are_counted_and_left_and_total_tell_them_apart():
    found = account(PAID, replace(PAID, run="2" * 32, epsilon=3.0))
    assert {name: float(value) for name, value in found.spent().items()} == {
        "epsilon": 5.0,
        "delta": pytest.approx(2e-6),
    }
    assert found.left() == {"epsilon": 4.0, "delta": pytest.approx(1e-3 - 2e-6)}
    assert found.total() == {"epsilon": 9.0, "delta": pytest.approx(1e-3)}
