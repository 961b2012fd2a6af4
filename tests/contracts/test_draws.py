"""What every release really draws is what its event says: noise, clipping, sampling, steps and counts, for every method.

The events are those of the certificate. What was drawn is noted where samplers and mechanisms are called, in units of what the
data can move there: whole steps of a clipped sum, of a message, of a copy. A method or a mechanism that this file does not
know fails the test: say here what one record can move.
"""

import re
import sys
from contextlib import suppress
from dataclasses import fields, replace
from fractions import Fraction
from functools import cache
from itertools import cycle

import numpy as np
import pytest
from contracts_draws import Recorder, below
from contracts_events import check, check_reports, check_votes
from contracts_quick import UNITS, pixels, proves
from torch import nn

import sfumato as sf
from sfumato.catalog import CARDS, GRAPH_CARDS, METHODS, method_named
from sfumato.central._arrivals import calibrate_arrival
from sfumato.central._dpsgd import DPSGD
from sfumato.central._hop_network import PrivateTrainer
from sfumato.central._tuned import Tuned
from sfumato.errors import InputError, SfumatoError, UnsupportedUnitError
from sfumato.graph._subgraph import induced
from sfumato.local._method import AskingMethod
from sfumato.method.contract import Method
from sfumato.pate._aggregation import ConfidentGNMax, GNMax, InteractiveGNMax, LNMax
from sfumato.tables._newcomers import Newcomers, node_names

CLIP, BATCH = 1e-3, 8
BUDGET = sf.Budget(4.0, 1e-5)
SMALL = {"epochs": 2, "steps": 2, "batch_size": BATCH, "l2_clip_norm": CLIP, "width": 4, "hidden": 4, "max_epochs": 2,
         "num_groups": 20}  # fmt: skip
FORMS = {
    "gap": [{}, {"encoder": False}],
    "edgerand": [{}, {"mean_degree": 4.0}],
    "lapgraph": [{}, {"mean_degree": 4.0}],
    "dpar": [
        {"mechanism": kind, "num_roots": 16} for kind in ("none", "random", "unreleased", "gaussian", "exponential")
    ]
    + [{"mechanism": "exponential-laplace", "num_roots": 16, "column_clip": 0.5}, {"power_steps": 1}],
    "cnn": [{"network": "softmax"}, {"network": "softmax", "augment": 1}, {"learn_filters": True}],
    "class-dp": [{"network": "softmax"}],
    "subclass-dp": [{"network": "softmax"}, {"network": "softmax", "records_per_cell": None}],
    "graph-split": [{}, {"groups": "even"}, {"checkpoints": 2}, {"groups": "linked"}, {"groups": "alone"}],
    "scattering": [{}, {"head": "cnn"}],
    "daily-messages": [
        {},
        {"noise": "sums"},
        {"deletions": True},
        {"noise": "sums", "deletions": True, "refreshes": 30},
    ],
    "dpgnn": [{"max_arcs": 2}, {"max_arcs": 2, "inference": "noised"}],
}
"""Settings of a method whose releases differ; methods that are not named here have one form."""
EDGE, NODE = UNITS["edge"], UNITS["node"]
CURATOR = [unit for unit in UNITS.values() if unit.private and unit.trust == "curator"]
CURATOR.append(sf.NodeLevel(arcs="incident", relation="replace"))
ASKED = [{"epsilon_x": 0.8, "epsilon_y": 0.7, "mechanism": kind, "per_feature": False} for kind in
         ("multi-bit", "one-bit", "laplace", "gaussian", "piecewise", "collision", "direction")]  # fmt: skip
ASKED += [{"epsilon_x": 0.8, "epsilon_y": 0.7, "mechanism": kind, "per_feature": True} for kind in
          ("pgc", "piecewise", "laplace")]  # fmt: skip
ASKED += [{**ASKED[0], "label_mechanism": "randomized-response"}]


def graph_of(seed=0, nodes=30, features=144):
    """Training nodes without a label, which only their owners may know of."""
    graph = pixels(nodes, seed, features, nodes - 1, mean_degree=9)
    y = graph.y.copy()
    y[np.flatnonzero(graph.train_mask)[:3]] = -1
    return replace(graph, y=y)


GRAPH, OTHER = graph_of(), graph_of(1, 28)


def made(name, form):
    known = {one.name for one in fields(type(method_named(name)))}
    return method_named(name, **{**{key: value for key, value in SMALL.items() if key in known}, **form})


@cache
def calibrated(method, unit):
    try:
        return method.calibrate(BUDGET, unit, GRAPH.public_facts(unit))
    except UnsupportedUnitError:
        return None


CURATORS = [*(name for name in CARDS if not isinstance(method_named(name), AskingMethod)), *GRAPH_CARDS]
CASES = [(name, form, unit) for name in CURATORS for form in FORMS.get(name, [{}]) for unit in CURATOR
         if proves(made(name, form), unit, GRAPH.public_facts(unit))]  # fmt: skip


@pytest.fixture(scope="module")
def _recorder():
    with pytest.MonkeyPatch.context() as patch:
        yield Recorder(patch)


@pytest.fixture
def recorder(_recorder):
    return _recorder.cleared()


def title(value):
    return value if isinstance(value, str) else value.describe() if hasattr(value, "describe") else str(value)


@pytest.mark.parametrize(("name", "form", "unit"), CASES, ids=title)
def test_draws_are_those_of_the_certificate(name, form, unit, recorder):
    fitted = calibrated(made(name, form), unit).fit(GRAPH)
    check(recorder, fitted, GRAPH)


@pytest.mark.parametrize("layers", [(), (nn.Tanh(),)], ids=["whole batches", "row by row"])
@pytest.mark.parametrize("unit", [NODE, replace(NODE, relation="replace"), sf.RecordLevel()], ids=title)
def test_a_network_of_the_users_own_draws_what_its_certificate_says(layers, unit, recorder):
    method = DPSGD(
        nn.Sequential(nn.Linear(144, GRAPH.num_classes), *layers), epochs=1, batch_size=BATCH, l2_clip_norm=CLIP
    )
    check(recorder, method.calibrate(BUDGET, unit, GRAPH.public_facts(unit)).fit(GRAPH), GRAPH)


@pytest.mark.parametrize("unit", [NODE, replace(NODE, relation="replace")], ids=title)
def test_a_private_trainer_draws_what_its_certificate_says(unit, recorder):
    trainer = PrivateTrainer(nn.Linear(3 * 144, GRAPH.num_classes), epochs=1, batch_size=BATCH, l2_clip_norm=CLIP)
    check(recorder, trainer.calibrate(BUDGET, unit, GRAPH.public_facts(unit)).fit(GRAPH), GRAPH)


@pytest.mark.parametrize("pays", [False, True])
@pytest.mark.parametrize(("name", "rule"), [("piloted-messages", "messages_pay"), ("promised-messages", "hop_pays")])
def test_whatever_is_chosen_costs_the_rest(name, rule, pays, recorder, monkeypatch):
    monkeypatch.setattr(sys.modules[METHODS[name].__module__], rule, lambda *_: pays)
    (*_, unit) = [unit for one, _, unit in CASES if one == name]
    check(recorder, calibrated(made(name, {}), unit).fit(GRAPH), GRAPH)


FIRST = [(name, unit) for name, form, unit in CASES if form == FORMS.get(name, [{}])[0] and name in {*METHODS}]
INFERS = [(name, unit) for name, unit in FIRST if METHODS[name].inductive is not Method.inductive]


@pytest.mark.parametrize(("name", "unit"), INFERS, ids=title)
def test_inference_on_another_graph_draws_what_it_charges(name, unit, recorder, messages_kept):
    fitted = calibrated(made(name, {}), unit).fit(GRAPH)
    try:
        plan = fitted.calibrate_inference(BUDGET, unit, OTHER.public_facts(unit))
    except InputError:  # under this unit it predicts from features alone
        return
    recorder.cleared()
    check(recorder, plan.fit(OTHER), OTHER)


@pytest.mark.parametrize("unit", [EDGE, NODE, replace(NODE, relation="replace")], ids=title)
def test_nodes_that_arrive_cost_what_is_charged_for_them(unit, recorder, messages_kept):
    known, count = induced(GRAPH, range(24)).with_split(seed=0), 6
    part = induced(GRAPH, range(24, 30))
    empty = replace(part, indptr=np.zeros(count + 1, np.int64), indices=np.zeros(0, np.int32))
    late = Newcomers.join(empty, [known], np.repeat(np.arange(count), 3), count + np.arange(3 * count))
    late = replace(late, nodes_per_person=None)
    run = made("label-messages", {}).calibrate(BUDGET, unit, known.public_facts(unit)).fit(known)
    budget = BUDGET if "labels" not in unit.public else None
    plan = calibrate_arrival([run], node_names(late), late.public_facts(unit), budget)
    recorder.cleared()
    check(recorder, plan.fit(late), late)


RULES = cycle(["logarithmic", "geometric", "poisson"])
TUNED = [(name, unit, next(RULES)) for name, unit in FIRST if METHODS[name].card.candidates]
TUNED = [case for case in TUNED if getattr(case[1], "relation", None) != "replace"]


@pytest.mark.parametrize(("name", "unit", "rule"), TUNED, ids=title)
def test_a_selection_runs_the_trials_that_it_charges(name, unit, rule, recorder):
    candidates = [made(name, settings) for settings in METHODS[name].card.candidates[:2]]
    plan = calibrated(Tuned((*candidates,), rule=rule, mean_trials=2.0), unit)
    if plan is not None and plan.releases:  # a score has a proof there
        with suppress(SfumatoError):  # poisson may draw no trial
            check(recorder, plan.fit(GRAPH), GRAPH)


PEOPLE = graph_of(features=4)
LOCAL = [("blink", {"epsilon": 3.0}), *(("lpgnn", form) for form in ASKED)]
LOCAL += [(name, {**ASKED[i], "epsilon_x": 0.0}) for name in ("hybrid", "label-only") for i in (0, -1)]
LOCAL += [("pgc-links", {**form, "epsilon_y": None}) for form in ASKED[5:9]]


@pytest.mark.parametrize(("name", "form"), LOCAL, ids=title)
def test_reports_have_the_law_that_is_claimed(name, form, recorder):
    method = made(name, form)
    fitted = method.calibrate(None, method.unit, PEOPLE.public_facts(method.unit)).fit(PEOPLE)
    check_reports(recorder, fitted, PEOPLE)


SHARED = ("shared-counts", {"epsilon_y": 0.7})


def test_two_servers_draw_what_each_of_them_claims(recorder):
    """Each server draws its own noise, for two counts that a label moves, from coins of its own."""
    method = made(*SHARED)
    fitted = method.calibrate(None, method.unit, PEOPLE.public_facts(method.unit)).fit(PEOPLE)
    (release,) = fitted.certificate.values["releases"]
    drawn = [draw for frame in recorder.frames for draw in frame.of("discrete_laplace")]
    assert {2 / draw.args["scale"] for draw in drawn} == {Fraction(release["event"]["epsilon"])}
    assert len({draw.key for draw in drawn}) == 2


VOTES = np.random.default_rng(0).multinomial(20, [0.6, 0.3, 0.1], size=25)
MECHANISMS = [(LNMax(3.0), {}), (GNMax(4.0), {}), (ConfidentGNMax(9.0, 5.0, 3.0), {"max_answers": 7}),
              (InteractiveGNMax(2.0, 5.0, 3.0), {"max_answers": 7, "student": np.full((25, 3), 1 / 3)})]  # fmt: skip


@pytest.mark.parametrize(("mechanism", "asked"), MECHANISMS, ids=title)
def test_votes_are_answered_with_the_noise_that_is_charged(mechanism, asked, recorder):
    assert {type(one) for one, _ in MECHANISMS} >= {*below(LNMax), *below(GNMax), *below(ConfidentGNMax)}
    answers = mechanism.aggregate(VOTES, **asked)
    most = asked.get("max_answers")
    check_votes(recorder, mechanism.events(25, *([most] if most else [])), answers, VOTES)


def test_every_method_is_here():
    tried = {name for name, *_ in CASES} | {name for name, _ in LOCAL} | {SHARED[0]}
    assert tried == {name for name, face in (*CARDS.items(), *GRAPH_CARDS.items()) if face.units} | {"auto"}


def choices(name):
    """A method with each other value of one setting that is a choice, as its own errors list them."""
    for setting, value in method_named(name).settings.items():
        if isinstance(value, bool):
            yield {setting: not value}
        elif isinstance(value, str):
            with pytest.raises(InputError) as error:
                method_named(name, **{setting: "?"})
            listed = re.search(r"to be (?:one of )?(.+?), got", str(error.value))[1]
            yield from ({setting: other} for other in re.split(r",? or |, ", listed) if other != value)


def kinds(method, unit):
    """What a method releases, by name and event; None where it refuses."""
    try:
        return tuple((one.name, one.event.type) for one in method.releases(unit, GRAPH.public_facts(unit), 1.0))
    except InputError:
        return None


@pytest.mark.parametrize("name", [name for name in CURATORS if name in {*METHODS}])
def test_every_choice_that_releases_something_else_is_here(name):
    for unit in CURATOR:
        known = {kinds(made(name, form), unit) for form in FORMS.get(name, [{}])}
        for choice in choices(name):
            try:
                method = made(name, choice)
            except InputError:  # not with the other settings
                continue
            assert kinds(method, unit) in {None, *known}, (choice, unit)
