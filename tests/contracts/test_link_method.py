"""What blink promises as a method: one unit, the exact sum of both reports, and predictions that read no link."""

from dataclasses import replace

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import DataError, InputError, UnsupportedUnitError
from sfumato.graph._synthetic import stochastic_block_model
from sfumato.local import Blink
from sfumato.randomizers import NeighborLists
from sfumato.verify import verify

GRAPH = stochastic_block_model(121, 3, mean_degree=12, homophily=0.9, num_features=4, seed=0)
GRAPH = GRAPH.with_split((0.5, 0.25, 0.25))
UNIT = sf.LinkLevel()
FACTS = GRAPH.public_facts(UNIT)


@pytest.fixture(scope="module")
def fitted():
    return Blink(epsilon=5.0, epochs=20).calibrate(None, UNIT, FACTS).fit(GRAPH)


def without_links(graph):
    return replace(graph, indptr=np.zeros_like(graph.indptr), indices=graph.indices[:0])


@pytest.mark.parametrize(("epsilon", "share"), [(5.0, 0.1), (1.0, 0.37), (0.3, 0.5), (60.0, 0.01)])
def test_the_claim_is_the_exact_sum_of_both_reports(epsilon, share):
    plan = Blink(epsilon=epsilon, degree_share=share).calibrate(None, UNIT, FACTS)
    assert plan.epsilon == NeighborLists(epsilon, share).realized_epsilon <= epsilon
    assert plan.epsilon == pytest.approx(min(epsilon, share * epsilon + 64 * np.log(2)), rel=1e-6)
    assert (plan.delta, plan.delta_sampler, plan.budget) == (0.0, 0.0, None)
    assert [(release.name, release.shape) for release in plan.releases] == [
        ("degree-reports", (121,)), ("link-reports", (121, 16)),
    ]  # fmt: skip


def test_a_budget_is_a_limit():
    assert Blink(epsilon=3.0).calibrate(sf.Budget(3.0, 1e-9), UNIT, FACTS).epsilon == pytest.approx(3.0)
    with pytest.raises(InputError, match="budget to cover epsilon = 3, delta = 0, which the reports of 'blink' cost"):
        Blink(epsilon=3.0).calibrate(sf.Budget(2.9, 1e-9), UNIT, FACTS)


@pytest.mark.parametrize(
    "unit", [sf.NoPrivacy(), sf.EdgeLevel(directed=False), sf.NodeLevel(), sf.RecordLevel(), sf.LocalLevel()]
)
def test_any_other_unit_is_refused_with_the_right_one(unit):
    with pytest.raises(UnsupportedUnitError, match=r"no proof under .*Use LinkLevel\(\)"):
        Blink().calibrate(None, unit, GRAPH.public_facts(unit))


def test_what_cannot_be_learned_is_refused_before_anyone_is_asked(tmp_path):
    directed = replace(GRAPH, directed=True)
    with pytest.raises(InputError, match="directed to be False"):
        Blink().calibrate(None, UNIT, directed.public_facts(UNIT))
    plan = Blink(epochs=1).calibrate(None, UNIT, FACTS)
    alone = replace(GRAPH, roles=np.where(GRAPH.val_mask, 3, GRAPH.roles).astype(np.uint8))
    with pytest.raises(DataError, match="validation"):
        plan.fit(alone, ledger=tmp_path / "ledger.jsonl")
    assert not (tmp_path / "ledger.jsonl").exists()


def test_reports_are_what_was_charged_and_two_fits_share_no_coins(fitted):
    assert {name: (rows.shape, rows.dtype) for name, rows in fitted.released.items()} == {
        "degree-reports": ((121,), np.int64), "link-reports": ((121, 16), np.uint8),
    }  # fmt: skip
    charged = [entry["release"]["name"] for entry in fitted.ledger.entries if entry["kind"] == "release"]
    assert charged == list(fitted.released)
    again = fitted.plan.fit(GRAPH)
    assert all((fitted.released[name] != again.released[name]).any() for name in charged)


def test_predictions_read_no_link(fitted):
    np.testing.assert_array_equal(fitted.predict_proba(without_links(GRAPH)), fitted.predict_proba(GRAPH))


def test_a_saved_run_verifies_and_loads_the_same_predictions(fitted, tmp_path):
    run = fitted.save(tmp_path / "run")
    assert verify(run).problems == ()
    loaded = sf.load(run)
    assert (loaded.plan, loaded.certificate) == (fitted.plan, fitted.certificate)
    probabilities = loaded.predict_proba(GRAPH)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(probabilities, fitted.predict_proba(GRAPH))


def test_the_certificate_prints_what_a_relationship_costs_and_trusts_nobody(fitted):
    text = str(fitted.certificate)
    for words in ("epsilon = 5, delta = 0 about it (unit link, relation replace)", "users trust nobody",
                  "A relationship that both of its ends report costs epsilon = 10.", "Features, labels and roles are public.",
                  "Of this epsilon: degree-reports 0.5, link-reports 4.5."):  # fmt: skip
        assert words in text
    assert "curator" not in text
    assert "who reports a label" not in text
