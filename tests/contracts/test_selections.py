"""Tuned runs of every method under every unit: the verifier confirms what is planned and refuses what is refused.

Nothing is trained: plans are charged and certified, and the certificates are checked.
"""

import sys
from dataclasses import fields, replace
from functools import cache
from itertools import cycle

import numpy as np
import pytest
from contracts_quick import UNITS as EVERY_UNIT
from contracts_quick import pixels, proves

import sfumato as sf
from sfumato.catalog import METHODS, PAIR_METHODS, method_named
from sfumato.central._tuned import Tuned
from sfumato.errors import InputError, SfumatoError
from sfumato.graph._targets import Targets
from sfumato.method._derived import marked
from sfumato.method._plan import Plan
from sfumato.method.contract import Outcome, Planned
from sfumato.privacy.accounting import epsilon
from sfumato.privacy.events import RULES, GaussianEvent, SelectionEvent
from sfumato.record._certificate import total_draws
from sfumato.record.ledger import Release
from sfumato.verify._claim import claim_faults
from sfumato.verify._methods import rules_of
from sfumato.verify._plan import copied_faults, method_faults, unfit
from sfumato.verify._verifier import sentence_faults

UNITS = {title: unit for title, unit in EVERY_UNIT.items() if title != "none"}
GRAPH = pixels(40, mean_degree=6)
BUDGETS = dict(zip(RULES, [sf.Budget(4.0, 1e-6), sf.Budget(0.8, 1e-5), sf.Budget(9.0, 1e-9)], strict=True))
TRIALS = dict(zip(RULES, [3.0, 25.0, 12.0], strict=True))


@cache
def candidates_of(name):
    """The method's own list, or its defaults beside one setting changed."""
    method = method_named(name)
    if method.card.candidates is not None:
        return tuple(type(method)(**settings) for settings in method.card.candidates)
    for field in sorted(fields(method), key=lambda field: field.name != "learning_rate"):
        value = getattr(method, field.name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            for factor in (2, 0.5):
                try:
                    other = replace(method, **{field.name: type(value)(value * factor)})
                except InputError:
                    continue
                if other.settings != method.settings:
                    return method, other
    raise AssertionError(f"no two settings of {name}")


PLANNED = [
    (name, title)
    for name in (*METHODS, *PAIR_METHODS)
    for title, unit in UNITS.items()
    if unit.name in method_named(name).card.units and proves(candidates_of(name)[0], unit, GRAPH.public_facts(unit))
]


def tuned_plan(name, unit, rule, public=None):
    tuned = Tuned(candidates_of(name), rule, TRIALS[rule])
    plan = tuned.calibrate(BUDGETS[rule], unit, GRAPH.public_facts(unit) if public is None else public)
    tuned.check(GRAPH)
    return plan


def certificate(plan, monkeypatch):
    """What a run of the plan certifies, with the first candidate as the best one and no weights."""

    def chosen(self, plan, graph, session):
        for release in plan.releases:
            session.charge(release.name)
        return Outcome({}, {}, Planned(self.candidates[0], plan.unit, plan.budget, plan.public, (), None, None))

    monkeypatch.setattr(Tuned, "run", chosen)
    return plan.fit(GRAPH).certificate.values


def faults(values):
    """All that the verifier finds in a certificate, except for what it says of files."""
    rules = rules_of(values["method"])
    strange = [*sentence_faults(values, rules), *copied_faults(values, None, None), *unfit(values, rules)]
    return [*strange, *method_faults(values, rules, None, None, None), *claim_faults(values)[0]]


@pytest.mark.parametrize(
    ("name", "title", "rule"), [(*case, rule) for case, rule in zip(PLANNED, cycle(RULES), strict=False)]
)
def test_what_is_tuned_is_confirmed(name, title, rule, monkeypatch):
    try:
        plan = tuned_plan(name, UNITS[title], rule)
    except SfumatoError:
        pytest.skip("not tuned")
    values = certificate(plan, monkeypatch)
    assert faults(values) == []
    assert not plan.releases or claim_faults(values)[1][1] <= 1.0005 * plan.epsilon


def test_the_candidate_with_the_most_draws_counts_wherever_it_stands(monkeypatch):
    for hops in ((3, 1), (1, 3)):
        tuned = Tuned(tuple(sf.GAP(num_hops=one) for one in hops), mean_trials=3)
        plan = tuned.calibrate(BUDGETS["poisson"], UNITS["node"], GRAPH.public_facts(UNITS["node"]))
        assert faults(certificate(plan, monkeypatch)) == []


class Forced(Tuned):
    """A selection among any candidates, whatever the library thinks of it."""

    def __post_init__(self):
        object.__setattr__(self, "card", self.candidates[0].card)


def forced_plan(name, unit, public):
    """The plan of a tuned run as a forger would write it, with a private score beside each trial's releases."""
    forced = Forced(candidates_of(name), "logarithmic", 3.0)
    alone = [one.calibrate(BUDGETS["logarithmic"] if unit.trust == "curator" else None, unit, public).releases
             for one in forced.candidates]  # fmt: skip
    score = () if "labels" in unit.public else (Release("score", GaussianEvent(100.0), (1,), 1),)
    trials = [(*releases, *score) for releases in alone]
    event = SelectionEvent(tuple(tuple(one.event for one in trial) for trial in trials), "logarithmic", 3.0)
    release = Release("tuned", event, (1,), 1 + max(map(total_draws, trials)))
    return marked(Plan(forced, unit, sf.Budget(60.0, 1e-6), public, (release,), epsilon([event], 0.9e-6), 1e-6))


def refused(name, unit, public):
    try:
        tuned_plan(name, unit, "logarithmic", public)
    except SfumatoError:
        return True
    return False


@pytest.mark.parametrize(("name", "title"), PLANNED)
def test_what_is_not_tuned_does_not_pass(name, title, monkeypatch):
    """A run that the library refuses to tune, written with its own code, is refused by the verifier too, and no other is."""
    unit = UNITS[title]
    public = GRAPH.public_facts(unit)
    if (
        not candidates_of(name)[0]
        .calibrate(BUDGETS["poisson"] if unit.trust == "curator" else None, unit, public)
        .releases
    ):
        pytest.skip("free")
    found = [
        text
        for text in faults(certificate(forced_plan(name, unit, public), monkeypatch))
        if "claim.epsilon" not in text
    ]
    assert bool(found) == refused(name, unit, public), found
    assert not found or any("selection" in text for text in found), found


@pytest.mark.parametrize("name", ["mlp", "gap"])
def test_targets_that_are_no_classes_are_not_tuned(name, monkeypatch):
    unit, rng = UNITS["node"], np.random.default_rng(0)
    targets = Targets("multilabel", rng.integers(0, 2, (40, 2)), ("left", "right"))
    graph = replace(GRAPH, y=None, classes=(), targets=targets)
    public = graph.public_facts(unit)
    assert refused(name, unit, public)
    plan = forced_plan(name, unit, public)
    monkeypatch.setattr(sys.modules[__name__], "GRAPH", graph)
    assert any("targets of kind multilabel" in text for text in faults(certificate(plan, monkeypatch)))


FORGED = {
    "edgerand": ("edge", lambda one, _: one["settings"].update(count_share=one["settings"]["count_share"] / 2), "epsilon"),
    "graph-split": ("node", lambda one, _: one["settings"].update(l2_clip_norm=1e-300), "l2_clip_norm"),
    "lpgnet": ("edge", lambda _, events: events[0].update(epsilon=events[0]["epsilon"] / 2), "stage"),
    "dpgnn": ("node", lambda one, _: one["settings"].update(num_layers=2, max_arcs=1), "num_layers: expected 1 with noised"),
}  # fmt: skip
"""How the last candidate of a tuned run becomes a run that its method refuses, and what the verifier says of it."""
NOISED = tuple(sf.DPGNN(max_arcs=2, inference="noised", learning_rate=rate) for rate in (0.01, 0.02))


@pytest.mark.parametrize("name", FORGED)
def test_a_candidate_that_its_method_refuses_does_not_pass(name, monkeypatch):
    title, forge, said = FORGED[name]
    tried = candidates_of(name) if name != "dpgnn" else NOISED
    plan = Tuned(tried, "logarithmic", 12.0).calibrate(
        BUDGETS["logarithmic"], UNITS[title], GRAPH.public_facts(UNITS[title])
    )
    values = certificate(plan, monkeypatch)
    assert faults(values) == []
    forge(values["candidates"][-1], values["releases"][0]["event"]["candidates"][-1])
    found = faults(values)
    assert any(said in text and "candidates" in text for text in found), found
