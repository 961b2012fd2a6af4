"""Sections about audits and attacks: verdicts and words agree with the numbers, and every number is on the page."""

import numpy as np
import pytest

from sfumato.attacks._scores import Attacked, Scores
from sfumato.audit._evidence import Audit, Evidence
from sfumato.report._evidence import attacks_section, audit_page, audit_section, gain, rates
from sfumato.report._html import to_html
from sfumato.report._page import Page

BOUND = Evidence("canary edge", "all but one edge", 0.83, 0.999, 4000, "Clopper-Pearson")


def audit(claimed=1.0, broken=()):
    return Audit("gap", "one undirected edge", claimed, 1e-6, 0.999, (BOUND,), broken).to_dict()


def attacked(shift, baseline=0.0, name="links"):
    rng = np.random.default_rng(0)
    sides = [Scores(rng.normal(move, 1, 500), rng.normal(0, 1, 500)) for move in (shift, baseline)]
    found = Attacked(
        name, "whether two nodes are linked", "predictions", sides[0], {"features": sides[1]}, {"rmse": 2.5}
    )
    return found.to_dict() | {"curve": rates(sides[0]), "withheld": False}


def test_a_claim_that_stands_and_one_that_is_refuted():
    stands, refuted = audit_page(audit(), "gap"), audit_page(audit(claimed=0.5), "gap")
    assert "not refuted: the true epsilon is at least 0.83" in stands
    assert "0.83" in stands
    assert "The claim is refuted" in refuted
    assert audit_section(audit()).kind == "outside"
    assert audit_section(audit(claimed=0.5)).kind == "warning"


def test_a_broken_promise_refutes_whatever_epsilon_is():
    page = audit_page(audit(claimed=None, broken=("Predictions are public.",)), "gap")
    assert "Predictions are public." in page
    assert "The claim is refuted" in page


@pytest.mark.parametrize(
    ("shift", "baseline", "words"),
    [(1.0, 0.0, "better than without"), (0.0, 1.0, "worse than without"), (0.5, 0.5, "about as well as without")],
)
def test_the_words_follow_the_interval(shift, baseline, words):
    assert words in gain(attacked(shift, baseline))


def test_every_attack_is_in_words_table_and_curve():
    page = to_html(Page("t", "l", (attacks_section([attacked(1.0), attacked(0.0, name="<b>degree")]),)))
    assert page.count("whether two nodes are linked") == 2
    assert "<b>degree" not in page
    assert "rmse" in page


def test_a_curve_runs_from_the_rarest_alarm_to_all():
    curve = rates(Scores(np.arange(1000.0) + 500, np.arange(1000.0)))
    assert curve["fpr"][0] == pytest.approx(0.001)
    assert curve["tpr"][-1] == 1.0
    assert sorted(curve["tpr"]) == curve["tpr"]


def test_a_bound_of_zero_proves_nothing_and_limits_are_said():
    told = audit() | {"evidence": [BOUND.to_dict()], "reach": 0.5, "untested": ["rows"], "epsilon_lower_bound": 0.0}
    page = to_html(Page("t", "l", (audit_section(told),)))
    assert "nothing was proved" in page
    assert "no attack can refute a claim above 0.5" in page
    assert "No attack reads these releases: rows." in page


def test_an_attacker_with_withheld_predictions_is_said_to_have_more():
    assert "to each node alone" in gain(attacked(1.0) | {"withheld": True})
