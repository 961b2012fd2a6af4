"""Controls of one name are candidates: the best is shown, and said."""

from dataclasses import replace

import pytest

import sfumato as sf
from sfumato.errors import InputError
from sfumato.evaluation import _request as module
from sfumato.evaluation._controls import Beside, titles
from sfumato.evaluation._request import Request, prepare
from sfumato.evaluation._source import Source
from sfumato.graph._synthetic import stochastic_block_model
from sfumato.method.card import CONTROLS, Control
from sfumato.scoring._scores import Summary

GRAPH = stochastic_block_model(150, 3, mean_degree=10, num_features=4, seed=0)
SOURCE = Source(dataset="campus")


def evaluated(monkeypatch, controls, method=None, unit="edge", budget=None):
    method = method or sf.MLP(epochs=2)
    monkeypatch.setattr(type(method), "card", replace(type(method).card, controls=controls))
    budget = budget or (None if unit == "none" else sf.Budget(2.0, 1e-6))
    request = Request(SOURCE, method, unit, budget, seeds=(0, 1), controls=True)
    return prepare(request, load=lambda source: GRAPH).evaluate()


CEILINGS = tuple(Control("ceiling", "ceiling", "sage", {"epochs": epochs}, private=False) for epochs in (1, 60))


@pytest.mark.parametrize("order", [CEILINGS, CEILINGS[::-1]])
def test_the_better_candidate_is_shown_and_said(monkeypatch, order):
    found = evaluated(monkeypatch, order)
    each = [evaluated(monkeypatch, (one,)).controls["ceiling"].held_out for one in order]
    assert found.controls["ceiling"].held_out == min(each) < max(each)
    values = found.to_dict("edge")
    assert (values["ceiling_method"], values["floor_method"], values["floor"]) == ("sage", None, None)


def test_the_ceiling_is_the_method_without_privacy_or_the_reference():
    assert [(one.method, one.private) for one in CONTROLS if one.name == "ceiling"] == [
        ("", False),
        ("reference", False),
    ]
    assert [one.method for one in CONTROLS if one.name == "floor"] == ["graph-free", "mlp", "linear"]
    assert titles("gap", {"ceiling_method": "gap"})["ceiling"] == "ceiling: no privacy (gap)"
    assert titles("gap", {})["ceiling"] == "ceiling: no privacy"


def test_progress_tells_stages_in_words_and_controls_by_their_titles(monkeypatch):
    stages = {}
    floor = Control("floor", "floor: no graph, same budget", "graph-free", {"epochs": 2})
    monkeypatch.setattr(sf.GAP, "card", replace(sf.GAP.card, controls=(floor,)))
    request = Request(SOURCE, sf.GAP(epochs=2), "edge", sf.Budget(2.0, 1e-6), seeds=(0,), controls=True)
    prepare(request, load=lambda source: GRAPH).evaluate(report=lambda stage, *_: stages.setdefault(stage))
    assert list(stages) == [
        "fitting a network on features",
        "fitting the classifier",
        "floor: no graph, fitting a network",
        "floor: no graph, fitting a linear model on features",
        "floor: no graph, fitting trees on features",
    ]


def test_a_run_without_privacy_is_its_own_candidate_and_is_not_fitted_again(monkeypatch):
    own = (Control("ceiling", "ceiling", private=False),)
    found = evaluated(monkeypatch, own, unit="none")
    assert found.controls["ceiling"] is found.outcome
    private = evaluated(monkeypatch, own, unit="record")
    assert private.controls["ceiling"].first.plan.epsilon is None


def test_a_candidate_that_does_not_fit_is_told_only_if_no_other_does(monkeypatch):
    refused = Beside("floor", "floor", sf.MLP(), sf.RecordLevel(), sf.Budget(1e-4, 1e-25))
    fits = Beside("floor", "floor", sf.MLP(epochs=2), sf.NoPrivacy(), None)
    for listed, told in (((refused,), 1), ((refused, fits), 0), ((fits, refused), 0)):
        monkeypatch.setattr(module, "controls", lambda plan, listed=listed: iter(listed))
        found = evaluated(monkeypatch, ())
        assert (len(found.left_out), "floor" in found.controls) == (told, not told)


def test_a_ceiling_is_chosen_by_its_loss_which_sees_a_rare_class(monkeypatch):
    """Of candidates the one with the better probabilities is shown, in table and verdict alike, even if its accuracy is worse."""
    scores = [{"accuracy": Summary.of([mean])} for mean in (0.9, 0.7)]
    first, second = (module.Outcome(None, one, 0.0, (), loss) for one, loss in zip(scores, (0.5, 0.4), strict=True))
    kept = evaluated(monkeypatch, ())
    fitted = iter((kept.outcome, first, second))
    monkeypatch.setattr(module.Prepared, "_repeat", lambda *_: next(fitted))
    assert evaluated(monkeypatch, CEILINGS).controls == {"ceiling": second}


def test_a_source_is_refused_in_words_of_python():
    with pytest.raises(InputError, match="Expected `drop` with `nodes` and `edges` only"):
        Source("campus", drop=("age",)).check()
