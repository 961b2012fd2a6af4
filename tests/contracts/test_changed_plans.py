"""A plan that was changed after it was calibrated is refused before anything is charged, whichever part of it was changed."""

import copy
import pickle
import warnings
from dataclasses import replace

import pytest
from contracts_quick import FACTS, plans
from contracts_quick import SMALL as GRAPH

import sfumato as sf
from sfumato.catalog import load
from sfumato.central._arrivals import calibrate_arrival
from sfumato.central._tuned import Tuned
from sfumato.errors import InputError, SfumatoError, SfumatoWarning
from sfumato.method import _plan as module
from sfumato.method._derived import check_derived

EDGE, NODE = sf.EdgeLevel(directed=False), sf.NodeLevel(5)


def test_every_plan_follows_from_what_it_states():
    """Deriving it again gives the same releases, epsilon and delta, to the last bit."""
    assert len(plans()) > 60
    for plan in plans():
        with warnings.catch_warnings(action="error", category=SfumatoWarning):
            check_derived(replace(plan))


def refused(plan, monkeypatch, graph=GRAPH):
    monkeypatch.setattr(module, "open_session", None)
    with pytest.raises(SfumatoError) as caught:
        plan.fit(graph)
    return str(caught.value)


CHANGES = {
    "epsilon": lambda plan: {"epsilon": plan.epsilon / 2},
    "delta": lambda plan: {"delta": plan.delta / 2},
    "a budget": lambda plan: {"budget": sf.Budget(1.0, plan.budget.delta)},
    "none of the releases": lambda plan: {"releases": ()},
    "fewer releases": lambda plan: {"releases": plan.releases[:-1]},
    "visible to others": lambda plan: {
        "releases": (replace(plan.releases[0], visible_to="anyone but the node"), *plan.releases[1:])
    },
    "less noise": lambda plan: {"releases": tuple(replace(one, event=other(one.event)) for one in plan.releases)},
    "settings": lambda plan: {"method": replace(plan.method, batch_size=7, epochs=60)},
    "more settings": lambda plan: {"method": replace(plan.method, num_hops=3)},
    "method": lambda plan: {"method": sf.MLP() if plan.unit == NODE else sf.ProGAP()},
    "unit": lambda plan: {"unit": sf.NodeLevel(9), "public": GRAPH.public_facts(sf.NodeLevel(9))},
    "kind of unit": lambda plan: {
        "unit": EDGE if plan.unit == NODE else NODE,
        "public": FACTS[EDGE if plan.unit == NODE else NODE],
    },
}


def other(event):
    return replace(event, noise_multiplier=event.noise_multiplier / 2)


@pytest.mark.parametrize(
    ("change", "unit"),
    [(change, unit) for change in CHANGES for unit in (EDGE, NODE) if (change, unit) != ("settings", EDGE)],
    ids=str,
)
def test_a_changed_plan_is_refused_before_the_charge(change, unit, monkeypatch):
    plan = sf.GAP(epochs=1).calibrate(sf.Budget(4.0, 1e-5), unit, FACTS[unit])
    assert "Expected a plan as method" in refused(replace(plan, **CHANGES[change](plan)), monkeypatch)


def test_a_changed_number_of_nodes_is_still_told_by_name(monkeypatch):
    plan = sf.GAP(epochs=1).calibrate(sf.Budget(4.0, 1e-5), EDGE, FACTS[EDGE])
    assert "num_nodes=77" in refused(replace(plan, public=replace(plan.public, num_nodes=77)), monkeypatch)


def test_settings_without_a_price_may_be_changed():
    """Nothing is false then: releases and claim are those of the changed method."""
    plan = sf.GAP(num_hops=1, epochs=1).calibrate(sf.Budget(4.0, 1e-5), EDGE, FACTS[EDGE])
    fitted = replace(plan, method=replace(plan.method, epochs=2)).fit(GRAPH)
    assert fitted.certificate.values["settings"]["epochs"] == 2


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda plan: pickle.loads(pickle.dumps(plan)), replace])
def test_a_copy_is_the_same_plan(copied):
    plan = copied(sf.GAP(num_hops=1, epochs=1).calibrate(sf.Budget(4.0, 1e-5), EDGE, FACTS[EDGE]))
    assert plan.fit(GRAPH).certificate.epsilon == plan.epsilon


def test_tuned_and_inferred_plans_and_those_of_arrivals_too(monkeypatch, tmp_path, messages_kept):
    tuned = Tuned((sf.GAP(num_hops=1, epochs=1), sf.GAP(num_hops=2, epochs=1)), mean_trials=2)
    wrong = replace(tuned.calibrate(sf.Budget(4.0, 1e-5), EDGE, FACTS[EDGE]), epsilon=1.0)
    trained = sf.LabelMessages(num_hops=1).calibrate(sf.Budget(4.0, 0.0), EDGE, FACTS[EDGE]).fit(GRAPH)
    loaded = load(trained.save(tmp_path / "run")).plan
    check_derived(loaded)
    inferred = trained.calibrate_inference(sf.Budget(2.0, 0.0), EDGE, FACTS[EDGE])
    check_derived(replace(inferred))
    arriving = calibrate_arrival([trained], ["new"], FACTS[EDGE])
    check_derived(replace(arriving))
    for plan in (wrong, replace(inferred, epsilon=1.0), replace(loaded, epsilon=1.0), replace(inferred, releases=())):
        assert "Expected a plan as method" in refused(plan, monkeypatch)
    with pytest.raises(InputError, match="got another epsilon"):
        check_derived(replace(arriving, epsilon=1.0))


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda plan: pickle.loads(pickle.dumps(plan)), lambda one: one]
)
def test_a_plan_that_was_changed_by_force_is_derived_again(copied, monkeypatch):
    """The mark of a derived plan belongs to one object, as it was then."""
    plan = copied(sf.LabelMessages().calibrate(sf.Budget(2.0, 1e-6), EDGE, GRAPH.public_facts(EDGE)))
    check_derived(plan)
    object.__setattr__(plan, "epsilon", 0.1)
    assert "another epsilon" in refused(plan, monkeypatch)
