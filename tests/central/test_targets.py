"""Methods that learn several labels or a number, at both units, with certificates that verify; and all that is refused."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import sfumato as sf
from sfumato.catalog import METHODS, load, method_named
from sfumato.central._arrivals import graph_free
from sfumato.errors import InputError, LedgerError, UnsupportedTargetError
from sfumato.graph._graph import PublicFacts
from sfumato.graph._synthetic import stochastic_block_model
from sfumato.graph._targets import Targets
from sfumato.method._checks import LEARNERS, check_target
from sfumato.privacy.units import NoPrivacy, RecordLevel
from sfumato.scoring._scores import SCORES
from sfumato.verify import verify

BASE = stochastic_block_model(300, 3, mean_degree=25, homophily=0.9, num_features=6, seed=1)
EDGE, NODE = sf.EdgeLevel(directed=False), sf.NodeLevel(max_out_degree=10)
BUDGETS = {"edge": sf.Budget(4.0, 1e-6), "node": sf.Budget(8.0, 1e-5), "record": sf.Budget(8.0, 1e-5), "none": None}


def graph_of(targets):
    return replace(BASE, y=None, classes=(), targets=targets, assumed_public=()).with_split()


MEMBERSHIP = np.stack([BASE.y == 0, BASE.y <= 1], axis=1).astype(float)
GRAPHS = {
    "multilabel": graph_of(Targets("multilabel", MEMBERSHIP, ("first", "not last"))),
    "number": graph_of(Targets("number", BASE.y * 10.0, limits=(-5, 25))),
}


def fitted(method, unit, kind, graph=None):
    graph = graph or GRAPHS[kind]
    return method.calibrate(BUDGETS[unit.name], unit, graph.public_facts(unit)).fit(graph)


QUICK = {"gap": {"epochs": 3}, "progap": {"epochs": 2, "depth": 1}, "mlp": {"epochs": 3}, "reference": {"epochs": 3},
         "sage": {"epochs": 3}}  # fmt: skip


@pytest.mark.filterwarnings("ignore::sfumato.errors.SfumatoWarning")
@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize("unit", [EDGE, NODE, NoPrivacy(), RecordLevel()], ids=lambda unit: unit.name)
@pytest.mark.parametrize("name", QUICK)
def test_every_method_that_says_so_learns_them_and_its_release_verifies(tmp_path, name, unit, kind):
    method = method_named(name, **QUICK[name])
    if unit.private and unit.name not in method.card.units:
        pytest.skip(f"{name} has no proof under unit {unit.name}")
    graph = GRAPHS[kind]
    model = fitted(method, unit, kind)
    model.save(tmp_path / "run")
    again, found = load(tmp_path / "run"), verify(tmp_path / "run")
    assert found.valid, found.problems
    answer = again.predict(graph)
    assert np.array_equal(answer, model.predict(graph))
    assert again.classes_.tolist() == list(graph.classes)
    assert tuple(again.evaluate(graph)["test_scores"]) == SCORES[kind]
    assert len(again.predictions(graph).frame()) == graph.num_nodes
    stated = json.loads((tmp_path / "run/release/certificate.json").read_text())["public_facts"]
    assert stated["target"] == kind
    if kind == "number":
        assert answer.shape == (300,)
        assert (answer >= -5).all()
        assert (answer <= 25).all()
        assert stated["target_range"] == [-5, 25]
        with pytest.raises(InputError, match="Call predict"):
            again.predict_proba(graph)
    else:
        chances = again.predict_proba(graph)
        assert chances.shape == answer.shape == (300, 2)
        assert np.array_equal(answer, chances > 0.5)


def test_cards_say_who_learns_them():
    known = [name for name, method in METHODS.items() if method.card.targets]
    assert {*LEARNERS} == {name for name in known if METHODS[name].card.units}
    assert {*known} == {*QUICK}


@pytest.mark.parametrize("kind", GRAPHS)
def test_gap_learns_from_the_graph_at_edge_level(kind):
    graph, test = GRAPHS[kind], GRAPHS[kind].test_mask
    answer = fitted(sf.GAP(), EDGE, kind).predict(graph)[test]
    truth = graph.targets.values[test]
    if kind == "multilabel":
        assert (answer == truth).mean() > 0.85
    else:
        assert np.mean((answer - truth[:, 0]) ** 2) < 0.5 * np.var(truth)


@pytest.mark.filterwarnings("ignore::sfumato.errors.SfumatoWarning")
@pytest.mark.parametrize("kind", GRAPHS)
def test_all_other_methods_refuse_before_anything_is_spent(kind):
    refused = 0
    for name in METHODS:
        if name in QUICK:
            continue
        method = METHODS[name]()
        unit = method.unit or next(
            one for one in (EDGE, NODE, sf.NodeLevel(arcs="incident"), RecordLevel(), NoPrivacy())
            if not one.private or one.name in method.card.units
        )  # fmt: skip
        budget = None if method.unit else BUDGETS[unit.name]
        with pytest.raises(
            UnsupportedTargetError, match=f"Method '{name}' cannot learn .* Use one of gap, progap, mlp"
        ):
            method.calibrate(budget, unit, GRAPHS[kind].public_facts(unit))
        refused += 1
    assert refused == len(METHODS) - len(QUICK)


@pytest.mark.parametrize("unit", [EDGE, NODE], ids=lambda unit: unit.name)
def test_a_choice_among_settings_counts_right_answers_and_refuses(unit):
    tuned = sf.Tuned((sf.GAP(num_hops=1), sf.GAP(num_hops=2)))
    with pytest.raises(UnsupportedTargetError, match="compared by right answers"):
        tuned.calibrate(BUDGETS[unit.name], unit, GRAPHS["number"].public_facts(unit))


def test_a_range_read_off_protected_numbers_is_refused_and_at_edge_level_it_is_not():
    graph = graph_of(Targets("number", BASE.y * 10.0))
    for unit in (NODE, RecordLevel()):
        with pytest.raises(UnsupportedTargetError, match="known without this data"):
            sf.MLP().calibrate(BUDGETS[unit.name], unit, graph.public_facts(unit))
    assert sf.GAP().calibrate(BUDGETS["edge"], EDGE, graph.public_facts(EDGE)).public.target_range == (0, 20)


def test_a_plan_is_for_its_own_target_and_range():
    plan = sf.GAP().calibrate(BUDGETS["edge"], EDGE, GRAPHS["number"].public_facts(EDGE))
    with pytest.raises(InputError, match="target_range"):
        plan.fit(graph_of(Targets("number", BASE.y * 10.0, limits=(-5, 30))))
    with pytest.raises(InputError, match=r"num_classes|target"):
        plan.fit(GRAPHS["multilabel"])
    with pytest.raises(InputError):
        plan.fit(BASE)


@pytest.mark.filterwarnings("ignore::sfumato.errors.SfumatoWarning")
@pytest.mark.parametrize(("unit", "method"), [(EDGE, "gap"), (NoPrivacy(), "gap"), (NODE, "mlp")])
def test_auto_chooses_among_those_that_learn_the_target(unit, method):
    for graph in GRAPHS.values():
        plan = sf.Auto().calibrate(BUDGETS[unit.name], unit, graph.public_facts(unit))
        assert plan.method.name == method


def test_another_graph_is_predicted_with_the_range_of_training(tmp_path):
    model = fitted(sf.GAP(epochs=3), EDGE, "number")
    other = replace(BASE, y=None, classes=(), assumed_public=(), name="other", node_ids=np.arange(300, 600))
    inference = model.calibrate_inference(BUDGETS["edge"], EDGE, other.public_facts(EDGE)).fit(other)
    answer = inference.predict(other)
    assert answer.shape == (300,)
    assert (answer >= -5).all()
    inference.save(tmp_path / "run")
    assert verify(tmp_path / "run").valid
    wrong = replace(other, targets=Targets("number", BASE.y * 10.0, limits=(0, 30)))
    with pytest.raises(InputError, match="target_range"):
        model.calibrate_inference(BUDGETS["edge"], EDGE, wrong.public_facts(EDGE))


def test_no_message_names_a_range_that_was_read_off_protected_numbers():
    unseen = replace(BASE, y=None, classes=(), targets=Targets("number", BASE.y * 10.0 + 4), assumed_public=())
    other = replace(unseen, name="other", node_ids=np.arange(300, 600))
    said = "target_range.*got .*others, which are protected"
    model = fitted(sf.GAP(epochs=1), NODE, "number")
    with pytest.raises(InputError, match=said) as inferred:
        model.calibrate_inference(BUDGETS["node"], NODE, other.public_facts(NODE))
    with pytest.raises(InputError, match=said) as trained:
        model.plan.fit(unseen.with_split())
    assert "24" not in f"{inferred.value}{trained.value}"
    with pytest.raises(InputError, match=r"target_range.*24"):  # at edge level labels are public
        fitted(sf.GAP(epochs=1), EDGE, "number").plan.fit(unseen.with_split())


def test_nodes_alone_get_a_chance_for_each_label():
    model = fitted(sf.MLP(epochs=3), EDGE, "multilabel")
    found = graph_free(model, GRAPHS["multilabel"])
    assert np.allclose(found, model.predict_proba(GRAPHS["multilabel"]))
    assert not np.allclose(found.sum(axis=1), 1)


@pytest.mark.filterwarnings("ignore::sfumato.errors.SfumatoWarning")
def test_a_stopped_fit_does_not_go_on_with_other_targets(tmp_path):
    from sfumato.record._resume import FitState

    graph = GRAPHS["number"]
    plan = sf.MLP(epochs=1).calibrate(BUDGETS["node"], NODE, graph.public_facts(NODE))
    state = FitState.create(tmp_path / "private", {})
    ledger = tmp_path / "ledger.jsonl"
    plan.fit(graph, ledger=ledger, state=state)
    state.close()
    other = graph_of(Targets("number", BASE.y[::-1] * 10.0, limits=(-5, 25)))
    with pytest.raises(LedgerError):
        plan.fit(other, ledger=ledger, state=FitState.open(tmp_path / "private"))


@pytest.mark.parametrize("origin", [None, object()], ids=["training", "inference"])
def test_a_range_that_was_read_off_protected_numbers_is_refused(origin):
    method = SimpleNamespace(name="gap", origin=origin, card=sf.GAP.card)
    facts = PublicFacts(100, 75, 8, 1, False, assumed=("target range",), target="number", target_range=(0.0, 1.0))
    check_target(method, sf.EdgeLevel(directed=False), facts)
    with pytest.raises(UnsupportedTargetError, match="known without this data"):
        check_target(method, sf.NodeLevel(max_out_degree=5), facts)
