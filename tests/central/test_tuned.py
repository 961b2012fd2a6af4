"""Tuning: within the budget, charged once, scores of sensitivity one, and nothing of a trial but the best one's output."""

import json
from dataclasses import replace

import numpy as np
import pytest

import sfumato as sf
from sfumato.central import _tuned as module
from sfumato.central._tuned import SCORE_SHARE, Tuned
from sfumato.errors import DataError, InputError, SfumatoError, UnsupportedUnitError
from sfumato.graph._synthetic import stochastic_block_model
from sfumato.method._plan import Plan
from sfumato.method.contract import Outcome
from sfumato.privacy.accounting import central_limit_mu
from sfumato.privacy.events import GaussianEvent
from sfumato.record._dataset_ledger import DatasetLedger
from sfumato.record.ledger import Release
from sfumato.verify import verify

BUDGET = sf.Budget(2.0, 1e-6)
EDGE, NODE = sf.EdgeLevel(directed=False), sf.NodeLevel(max_out_degree=5)
REPLACE = replace(NODE, relation="replace")
GRAPH = stochastic_block_model(120, 3, mean_degree=20, num_features=5, seed=1).with_split(seed=0)
GAPS = (sf.GAP(num_hops=1, epochs=1, batch_size=45), sf.GAP(num_hops=2, epochs=1, batch_size=45))
MLPS = (sf.MLP(epochs=1, batch_size=45), sf.MLP(epochs=2, batch_size=30))


def plan_of(unit, candidates=GAPS, rule="logarithmic", mean=4, budget=BUDGET):
    return Tuned(candidates, rule, mean).calibrate(budget, unit, GRAPH.public_facts(unit))


def trials_are(monkeypatch, count):
    monkeypatch.setattr(module, "draw_trials", lambda *law: count)


@pytest.mark.parametrize("unit", [EDGE, NODE, REPLACE])
def test_candidates_cost_about_the_same_and_scores_a_tenth(unit):
    trials = plan_of(unit).releases[0].event.candidates
    runs = [trial if unit is EDGE else trial[:-1] for trial in trials]
    assert central_limit_mu(runs[0]) == pytest.approx(central_limit_mu(runs[1]), rel=1e-9)
    if unit is not EDGE:
        scores = [trial[-1] for trial in trials]
        assert scores[0] == scores[1]
        assert central_limit_mu(scores[:1]) ** 2 == pytest.approx(
            SCORE_SHARE * central_limit_mu(runs[0]) ** 2, rel=1e-6
        )


def test_draws_of_the_longest_trial_and_of_secret_choices_are_charged():
    plan = plan_of(NODE, mean=3.5)
    release = plan.releases[0]
    untuned = GAPS[1].releases(NODE, plan.public, 1.0)
    assert release.affected_coordinates == sum(one.draws for one in untuned) + 1 + 1
    assert release.draws == 4 * release.affected_coordinates


@pytest.mark.parametrize(("unit", "candidates"), [(EDGE, GAPS), (NODE, GAPS), (REPLACE, GAPS), (NODE, MLPS),
                                                  (sf.RecordLevel(relation="replace"), MLPS)])  # fmt: skip
def test_the_best_trial_is_a_run_of_its_method_that_verifies_and_loads(unit, candidates, tmp_path):
    fitted = plan_of(unit, candidates).fit(GRAPH)
    assert fitted.plan.method in candidates
    assert fitted.certificate.values["method"] == candidates[0].name
    assert [entry["kind"] for entry in fitted.ledger.entries] == ["plan", "release"]
    listed = [{"method": one.name, "settings": one.settings} for one in candidates]
    assert fitted.certificate.values["candidates"] == listed
    run = fitted.save(tmp_path / "run")
    assert verify(run).problems == ()
    loaded = sf.load(run)
    assert loaded.plan.method == fitted.plan.method
    np.testing.assert_array_equal(loaded.predict_proba(GRAPH), fitted.predict_proba(GRAPH))


def test_a_charge_comes_before_the_first_trial(monkeypatch):
    seen = []
    monkeypatch.setattr(module, "_run", lambda *args: seen.append(len(session.ledger.entries)) or ({}, {}, 0))
    plan = plan_of(EDGE)
    session = module.Session(module.Ledger({}, plan.releases), bytes(32), 0)
    plan.method.run(plan, GRAPH, session)
    assert seen
    assert set(seen) == {2}


def test_the_highest_score_wins_and_ties_keep_one_of_the_best(monkeypatch):
    scores = iter([3, 7, 5, 7])
    outputs = iter("abcd")
    monkeypatch.setattr(module, "_run", lambda *args: ({"w": next(outputs)}, {}, next(scores)))
    trials_are(monkeypatch, 4)
    plan = plan_of(EDGE)
    outcome = plan.method.run(plan, GRAPH, module.Session(module.Ledger({}, plan.releases), bytes(32), 0))
    assert outcome.weights == {"w": "b"}
    assert outcome.chosen.method in GAPS


def test_trials_draw_candidates_uniformly_and_with_their_own_keys(monkeypatch):
    seen = []
    monkeypatch.setattr(module, "_run", lambda graph, seed, trial, key: seen.append((trial.method, key)) or ({}, {}, 0))
    trials_are(monkeypatch, 1000)
    plan = plan_of(EDGE)
    plan.method.run(plan, GRAPH, module.Session(module.Ledger({}, plan.releases), bytes(32), 0))
    assert 420 < sum(method == GAPS[0] for method, _ in seen) < 580
    assert len({key for _, key in seen}) == 1000


def counted(method, weights, graph):
    """The score without noise, of given weights."""
    plan = Plan(method, NODE, BUDGET, GRAPH.public_facts(NODE), (), None, None)
    silent = replace_run(method, weights)
    return module._run(graph, 0, replace(plan, method=silent), bytes(32))[2]


def replace_run(method, weights):
    class Silent(type(method)):
        def run(self, plan, graph, session):
            return Outcome(weights, {})

    return Silent(**method.settings)


def test_one_record_moves_the_score_by_one_at_most():
    fitted = sf.MLP(epochs=3, batch_size=45).calibrate(sf.Budget(20.0, 1e-6), NODE, GRAPH.public_facts(NODE)).fit(GRAPH)
    here = counted(fitted.plan.method, fitted.weights, GRAPH)
    moves = set()
    for node in np.flatnonzero(GRAPH.val_mask):
        for label in (-1, *range(3)):
            x, y = GRAPH.x.copy(), GRAPH.y.copy()
            x[node], y[node] = 0 if label < 0 else -x[node], label
            moves.add(abs(counted(fitted.plan.method, fitted.weights, replace(GRAPH, x=x, y=y)) - here))
    assert moves == {0, 1}


def test_private_scores_are_noisy_and_public_ones_exact(monkeypatch):
    monkeypatch.setattr(sf.MLP, "run", lambda *args: ({}, {}))
    monkeypatch.setattr(sf.MLP, "scores", lambda self, plan, w, r, graph: np.eye(3)[np.maximum(graph.y, 0)])
    right = int(GRAPH.val_mask.sum())
    plan = Plan(MLPS[0], NODE, BUDGET, GRAPH.public_facts(NODE), (), None, None)
    assert {module._run(GRAPH, 0, plan, bytes([i]) * 32)[2] for i in range(20)} == {right}
    score = Release("score", GaussianEvent(6.0), (1,), 1)
    noisy = [module._run(GRAPH, 0, replace(plan, releases=(score,)), i.to_bytes(32, "big"))[2] for i in range(400)]
    assert abs(np.mean(noisy) - right) < 1.2
    assert 5 < np.std(noisy) < 7


def test_no_trial_at_all_releases_nothing_and_stays_charged(monkeypatch, tmp_path):
    trials_are(monkeypatch, 0)
    ledger = DatasetLedger(tmp_path / "people.jsonl", 10.0)
    with pytest.raises(SfumatoError, match=r"came out empty.*the charge stays") as caught:
        plan_of(EDGE, rule="poisson").fit(GRAPH, ledger=tmp_path / "run" / "ledger.jsonl", dataset_ledger=ledger)
    assert not isinstance(caught.value, InputError)
    lines = [json.loads(line) for line in (tmp_path / "run" / "ledger.jsonl").read_text().splitlines()]
    assert [line["kind"] for line in lines] == ["plan", "release"]
    assert '"epsilon":1.99' in (tmp_path / "people.jsonl").read_text()


def test_what_spends_nothing_is_tuned_for_nothing(tmp_path):
    fitted = plan_of(EDGE, MLPS).fit(GRAPH)
    assert (fitted.plan.releases, fitted.certificate.epsilon) == ((), 0.0)
    assert "candidates" not in fitted.certificate.values
    assert verify(fitted.save(tmp_path / "run")).problems == ()


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: Tuned(GAPS[:1]), InputError, "candidates"),
        (lambda: Tuned((GAPS[0], GAPS[0])), InputError, "candidates.*different"),
        (lambda: Tuned((GAPS[0], MLPS[0])), InputError, "one method"),
        (lambda: Tuned(tuple(sf.MLP(epochs=k) for k in range(1, 1002))), InputError, "candidates.*at most 1000.*1001"),
        (lambda: Tuned(GAPS, "uniform"), InputError, "rule"),
        (lambda: Tuned(GAPS, mean_trials=1), InputError, "mean_trials"),
        (lambda: plan_of(sf.NoPrivacy(), budget=None), InputError, "unit of privacy"),
        (lambda: plan_of(sf.RecordLevel()), UnsupportedUnitError, "no bounded sensitivity"),
        (lambda: plan_of(EDGE, budget=sf.Budget(1e-4, 1e-6)), InputError, "epsilon.*noise multipliers.*Raise epsilon"),
        (
            lambda: plan_of(EDGE).check(GRAPH.with_roles(np.where(GRAPH.val_mask, 3, GRAPH.roles))),
            DataError,
            "validation nodes",
        ),
    ],
)
def test_refused_before_anything_is_spent(make, error, said):
    with pytest.raises(error, match=said):
        make()
