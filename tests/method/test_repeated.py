"""A second fit on one graph warns where no ledger adds the fits up."""

import warnings

import numpy as np
import pytest

import sfumato as sf
from sfumato.attacks import _shadows as shadows
from sfumato.errors import RepeatedFitWarning
from sfumato.graph._synthetic import campus
from sfumato.method import _opening as repeated
from sfumato.method._plan import Plan
from sfumato.record._dataset_ledger import DatasetLedger

UNIT = sf.EdgeLevel(directed=False)
NODES = np.arange(150)


@pytest.fixture
def graph():
    return campus(150).with_split(seed=0)


def plan_of(graph, budget=None, unit=UNIT):
    return sf.LabelMessages().calibrate(budget or sf.Budget(1.0, 1e-6), unit, graph.public_facts(unit))


@pytest.fixture(autouse=True)
def _every_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RepeatedFitWarning)
        yield


def test_the_second_fit_of_a_plan_warns_where_it_is_called(graph):
    plan = plan_of(graph)
    plan.fit(graph)
    with pytest.warns(
        RepeatedFitWarning, match=r"fit 2 on one graph.* epsilon 2\. Fit once, or pass dataset_led"
    ) as told:
        plan.fit(graph, seed=1)
    assert told[0].filename == __file__
    with pytest.warns(RepeatedFitWarning, match=r"fit 3 on one graph without a ledger.* epsilon 3\."):
        plan_of(graph).fit(graph.with_split(seed=1))  # the same arcs, split anew


def test_a_warning_that_is_an_error_stops_before_anything_is_spent(graph, monkeypatch):
    plan = plan_of(graph)
    plan.fit(graph)
    monkeypatch.setattr(type(plan.method), "run", lambda *_: 1 / 0)
    with pytest.raises(RepeatedFitWarning):
        plan.fit(graph)


def test_other_plans_and_other_graphs_do_not_warn(graph):
    plan_of(graph).fit(graph)
    plan_of(graph, sf.Budget(2.0, 1e-6)).fit(graph)
    other = campus(150, seed=1).with_split(seed=0)
    plan_of(other).fit(other)


def test_what_spends_nothing_or_is_added_up_does_not_warn(graph, tmp_path):
    ledger = DatasetLedger(tmp_path / "ledger.jsonl", 3.0, 1e-5)
    plan = plan_of(graph)
    plan.fit(graph, dataset_ledger=ledger)
    plan.fit(graph, dataset_ledger=ledger)
    bare = sf.GraphFree().calibrate(None, sf.NoPrivacy(), graph.public_facts(sf.NoPrivacy()))
    bare.fit(graph)
    bare.fit(graph)


def test_fits_that_the_library_makes_to_evaluate_do_not_count(graph, monkeypatch):
    asked = "def fit(plan, graph):\n    plan.fit(graph)\n"
    exec(compile(asked, "inside.py", "exec"), space := vars(shadows).copy())  # its module is one of the library
    plan = plan_of(graph)
    space["fit"](plan, graph)
    space["fit"](plan, graph)
    plan.fit(graph)


def test_nothing_is_kept_of_graphs_that_are_gone():
    graph = campus(150).with_split(seed=0)
    plan_of(graph).fit(graph)
    place = id(graph.indices)
    assert any(key[0] == place for key in repeated._SPENT)
    del graph
    assert not any(key[0] == place for key in repeated._SPENT)


def test_a_fit_that_is_refused_is_none(monkeypatch):
    graph = campus(150)
    model = sf.PrivateGraphClassifier(graph, "label-messages")
    with monkeypatch.context() as patched:
        patched.setattr(Plan, "check", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            model.fit(NODES[:110])
    model.fit(NODES[:110])  # does not warn


def test_every_fold_of_a_cross_validation_is_a_fit():
    selection = pytest.importorskip("sklearn.model_selection")
    graph = campus(150)
    with pytest.warns(RepeatedFitWarning, match="Cross-validation and searches fit once for every fold") as told:
        selection.cross_val_score(sf.PrivateGraphClassifier(graph, "label-messages"), NODES, cv=3)
    numbers = [str(one.message).split(" on ")[0] for one in told]
    assert numbers == ["This is fit 2", "This is fit 3"]
    with pytest.warns(RepeatedFitWarning, match="fit 4 on one graph.* epsilon 6"):  # 3 folds of 1, and one of 3
        sf.PrivateGraphClassifier(graph, "label-messages", epsilon=3.0).fit(NODES[:110])
    for _ in range(2):
        sf.PrivateGraphClassifier(graph, "linear").fit(NODES[:110])  # no edge is read, so that it costs epsilon 0
