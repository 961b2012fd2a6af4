"""What every locally private method promises: it asks once, learns from reports alone, and claims their exact sum."""

from contextlib import closing
from dataclasses import FrozenInstanceError, replace
from functools import cache

import numpy as np
import pytest

import sfumato as sf
from sfumato import verify
from sfumato.catalog import METHODS
from sfumato.errors import DataError, InputError, UnsupportedUnitError
from sfumato.graph._subgraph import induced
from sfumato.graph._synthetic import campus, stochastic_block_model
from sfumato.local import Blink
from sfumato.local._method import LocalMethod
from sfumato.privacy.units import LocalLevel
from sfumato.randomizers import NeighborLists
from sfumato.record._resume import FitState

QUICK = {"label-only": {}, "lpgnn": {"epochs": 2}}
BUDGETS = {
    "both": (1.0, 0.5), "no features": (0.0, 0.5), "features in the clear": (None, 0.5),
    "labels in the clear": (1.0, None), "all in the clear": (None, None),
}  # fmt: skip
LOCAL = [name for name, method in METHODS.items() if issubclass(method, LocalMethod)]
GRAPH = stochastic_block_model(120, 3, mean_degree=20, num_features=5, seed=1).with_split((0.5, 0.25, 0.25), seed=0)


def made(name, kind, **settings):
    if name == "blink":
        return METHODS[name](epsilon=5.0, epochs=2)
    features, labels = BUDGETS[kind]
    if name == "label-only":
        features = features and 0.0
    if name == "lpgnn" and features == 0:
        settings["features_in"] = "random"
    return METHODS[name](epsilon_x=features, epsilon_y=labels, **QUICK.get(name, {}), **settings)


def plan_of(name, kind, **settings):
    method = made(name, kind, **settings)
    return method.calibrate(None, method.unit, GRAPH.public_facts(method.unit))


@cache
def fitted_of(name, kind):
    return plan_of(name, kind).fit(GRAPH)


CASES = [(name, kind) for name in LOCAL for kind in BUDGETS]


@pytest.mark.parametrize(("name", "kind"), [*CASES, ("blink", "links")])
class TestEveryAskingMethod:
    def test_is_a_frozen_dataclass_with_its_own_name(self, name, kind):
        method = made(name, kind)
        assert method.name == name
        assert method == made(name, kind)
        with pytest.raises(FrozenInstanceError):
            method.epsilon_y = 2.0

    def test_any_other_unit_is_refused_with_the_right_one(self, name, kind):
        method = made(name, kind)
        others = [sf.EdgeLevel(directed=False), sf.NodeLevel(max_out_degree=5), sf.NoPrivacy(), sf.RecordLevel(), sf.LinkLevel(),
                  LocalLevel(), LocalLevel(features=False), LocalLevel(labels=False)]  # fmt: skip
        for unit in others:
            if unit != method.unit:
                with pytest.raises(UnsupportedUnitError, match=r"no proof under .*Use "):
                    method.calibrate(None, unit, GRAPH.public_facts(unit))

    def test_a_budget_is_a_limit(self, name, kind):
        method, plan = made(name, kind), plan_of(name, kind)
        facts = GRAPH.public_facts(method.unit)
        if not plan.epsilon:
            return
        assert method.calibrate(sf.Budget(plan.epsilon, 1e-9), method.unit, facts).epsilon == plan.epsilon
        with pytest.raises(InputError, match="budget to cover"):
            method.calibrate(sf.Budget(plan.epsilon * (1 - 1e-9), 1e-9), method.unit, facts)

    def test_reports_are_integers_of_the_planned_shape(self, name, kind):
        fitted = fitted_of(name, kind)
        assert {key: array.shape for key, array in fitted.released.items()} == {
            release.name: release.shape for release in fitted.plan.releases
        }
        assert all(np.issubdtype(array.dtype, np.integer) for array in fitted.released.values())
        charged = [entry["release"] for entry in fitted.ledger.entries if entry["kind"] == "release"]
        assert charged == [release.to_dict() for release in fitted.plan.releases]

    def test_two_fits_never_share_coins(self, name, kind):
        one, two = fitted_of(name, kind), plan_of(name, kind).fit(GRAPH)
        for release in one.plan.releases:
            assert (one.released[release.name] != two.released[release.name]).any()

    def test_predictions_read_no_private_value(self, name, kind):
        fitted = fitted_of(name, kind)
        unit, hidden = fitted.plan.unit, GRAPH
        if getattr(unit, "features", False):
            hidden = replace(hidden, x=np.zeros_like(GRAPH.x))
        if getattr(unit, "labels", False):
            hidden = replace(hidden, y=np.zeros_like(GRAPH.y))
        if unit == sf.LinkLevel():
            hidden = replace(hidden, indptr=np.zeros_like(GRAPH.indptr), indices=GRAPH.indices[:0])
        np.testing.assert_array_equal(fitted.predict_proba(hidden), fitted.predict_proba(GRAPH))

    def test_rows_in_another_order_are_answered_in_that_order(self, name, kind):
        fitted, order = fitted_of(name, kind), np.random.default_rng(0).permutation(120)
        np.testing.assert_array_equal(fitted.predict_proba(induced(GRAPH, order)), fitted.predict_proba(GRAPH)[order])

    def test_another_graph_with_the_same_ids_is_refused(self, name, kind):
        other = stochastic_block_model(120, 3, mean_degree=20, num_features=5, seed=2).with_split(seed=0)
        with pytest.raises(InputError, match=r"same node ids but other (features|labels|arcs), which are public"):
            fitted_of(name, kind).predict_proba(other)

    def test_saved_run_verifies_and_loads_the_same_predictions(self, name, kind, tmp_path):
        fitted = fitted_of(name, kind)
        run = fitted.save(tmp_path / "run")
        assert verify.verify(run).problems == ()
        loaded = sf.load(run)
        assert loaded.plan == fitted.plan
        assert loaded.certificate == fitted.certificate
        probabilities = loaded.predict_proba(GRAPH)
        assert probabilities.shape == (120, 3)
        np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
        np.testing.assert_array_equal(probabilities, fitted.predict_proba(GRAPH))


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_unit_and_claim_follow_from_the_questions(name, kind):
    method, plan = made(name, kind), plan_of(name, kind)
    private = [value for value in (method.epsilon_x, method.epsilon_y) if value is not None]
    assert plan.unit == (
        LocalLevel(method.epsilon_x is not None, method.epsilon_y is not None) if private else sf.NoPrivacy()
    )
    assert plan.delta == (0.0 if private else None)
    assert plan.epsilon == (pytest.approx(sum(private), rel=1e-9) if private else None)
    if private:
        assert plan.epsilon <= sum(private)
    assert len(plan.releases) == sum(value > 0 for value in private)


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_the_certificate_speaks_of_users_and_not_of_a_curator(name, kind):
    fitted = fitted_of(name, kind)
    text, private = str(fitted.certificate), kind != "all in the clear"
    assert ("users trust nobody" in text) == private
    assert "trusted curator" not in text
    if private:
        assert "simulated" in text
        assert "who reports a label" in text
        assert ", delta = 0 " in text


@pytest.mark.parametrize(("unit", "train"), [(LocalLevel(), 60), (sf.LinkLevel(), 60), (sf.NoPrivacy(), 90)])
def test_a_graph_without_roles_is_split_as_its_unit_says(unit, train):
    bare = replace(GRAPH, roles=None)
    methods = {"local": METHODS["label-only"](), "link": METHODS["blink"](epochs=1), "none": METHODS["sage"](epochs=1)}
    plan = methods[unit.name].calibrate(None, unit, bare.public_facts(unit))
    assert plan.public.num_train == train
    assert plan.fit(bare).certificate.values["public_facts"]["num_train"] == train


def test_the_suite_sees_every_local_method():
    assert set(LOCAL) == {"label-only", "hybrid", "lpgnn"}


def test_a_large_epsilon_without_draws_has_no_share_of_the_sampler():
    method = METHODS["label-only"](epsilon_y=5000.0)
    plan = method.calibrate(None, method.unit, GRAPH.public_facts(method.unit))
    assert plan.delta_sampler == 0.0


def test_label_only_asks_for_no_features():
    with pytest.raises(InputError, match="Expected epsilon_x to be 0 for label-only"):
        METHODS["label-only"](epsilon_x=1.0)


@pytest.mark.parametrize("name", [*LOCAL, "blink"])
def test_a_resumed_fit_asks_nobody_twice(name, tmp_path):
    graph = campus(200, seed=0).with_split((0.5, 0.25, 0.25), seed=0)
    method = made(name, "both") if name != "blink" else METHODS["blink"](epsilon=4.0, epochs=2)
    plan = method.calibrate(None, method.unit, graph.public_facts(method.unit))
    with closing(FitState.create(tmp_path / "private", {})) as state:
        first = plan.fit(graph, ledger=tmp_path / "ledger.jsonl", state=state)
    charged = (tmp_path / "ledger.jsonl").read_text()
    with closing(FitState.open(tmp_path / "private")) as state:
        again = plan.fit(graph, ledger=tmp_path / "ledger.jsonl", state=state)
    assert (tmp_path / "ledger.jsonl").read_text() == charged
    assert {key: array.tolist() for key, array in first.released.items()} == {
        key: array.tolist() for key, array in again.released.items()
    }
    other = plan.fit(graph)
    assert any(not np.array_equal(array, other.released[key]) for key, array in first.released.items())


@pytest.mark.parametrize(
    ("settings", "fractions", "error", "message"),
    [
        ({"epsilon_y": 1e-7}, (0.5, 0.25, 0.25), InputError, "epsilon_y"),
        ({}, (0.75, 0.0, 0.25), DataError, "validation"),
        ({}, (0.0, 0.75, 0.25), DataError, "training"),
    ],
)
def test_what_nobody_could_learn_from_is_refused_before_anyone_is_asked(tmp_path, settings, fractions, error, message):
    roles = np.random.default_rng(0).choice(3, 200, p=fractions).astype(np.uint8)
    graph = replace(campus(200, seed=0), roles=roles)
    method = METHODS["hybrid"](**settings)

    def fit():
        plan = method.calibrate(None, method.unit, graph.public_facts(method.unit))
        plan.fit(graph, ledger=tmp_path / "ledger.jsonl")

    with pytest.raises(error, match=message):
        fit()
    assert not (tmp_path / "ledger.jsonl").exists()


LINKED = GRAPH.public_facts(sf.LinkLevel())


@pytest.mark.parametrize(("epsilon", "share"), [(5.0, 0.1), (1.0, 0.37), (0.3, 0.5), (60.0, 0.01)])
def test_the_claim_of_blink_is_the_exact_sum_of_both_reports(epsilon, share):
    plan = Blink(epsilon=epsilon, degree_share=share).calibrate(None, sf.LinkLevel(), LINKED)
    assert plan.epsilon == NeighborLists(epsilon, share).realized_epsilon <= epsilon
    assert plan.epsilon == pytest.approx(min(epsilon, share * epsilon + 64 * np.log(2)), rel=1e-6)
    assert (plan.delta, plan.delta_sampler, plan.budget) == (0.0, 0.0, None)
    shapes = {release.name: release.shape for release in plan.releases}
    assert shapes == {"degree-reports": (120,), "link-reports": (120, 15)}


def test_blink_refuses_what_cannot_be_learned_before_anyone_is_asked(tmp_path):
    directed = replace(GRAPH, directed=True)
    with pytest.raises(InputError, match="directed to be False"):
        Blink().calibrate(None, sf.LinkLevel(), directed.public_facts(sf.LinkLevel()))
    plan = Blink(epochs=1).calibrate(None, sf.LinkLevel(), LINKED)
    alone = replace(GRAPH, roles=np.where(GRAPH.val_mask, 3, GRAPH.roles).astype(np.uint8))
    with pytest.raises(DataError, match="validation"):
        plan.fit(alone, ledger=tmp_path / "ledger.jsonl")
    assert not (tmp_path / "ledger.jsonl").exists()


def test_the_certificate_of_blink_says_what_a_relationship_costs_and_trusts_nobody():
    text = str(fitted_of("blink", "links").certificate)
    for words in ("epsilon = 5, delta = 0 about it (unit link, relation replace)", "users trust nobody",
                  "A relationship that both of its ends report costs epsilon = 10.", "Features, labels and roles are public.",
                  "Of this epsilon: degree-reports 0.5, link-reports 4.5."):  # fmt: skip
        assert words in text
    assert "curator" not in text
    assert "who reports a label" not in text
