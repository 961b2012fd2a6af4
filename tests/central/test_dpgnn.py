"""Method dpgnn: what it learns, what its predictions read, what it charges and refuses, and what its verifier notices."""

import json
from dataclasses import replace

import numpy as np
import pytest
from central_nodes import accuracy, graphs
from central_nodes import fitted as fit
from central_nodes import planned as plan

import sfumato as sf
from sfumato import verify
from sfumato.central import _dpgnn as module
from sfumato.errors import InputError
from sfumato.method.contract import Session
from sfumato.privacy.events import RepeatedGaussianEvent
from sfumato.verify._methods import rules_of

NODE = sf.NodeLevel(max_out_degree=20)
SETTINGS = {"epochs": 30, "width": 8, "max_arcs": 2, "learning_rate": 0.05}
GRAPH, EASY = graphs(1500)


def planned(unit=NODE, epsilon=40.0, graph=GRAPH, **settings):
    return plan(sf.DPGNN(**{**SETTINGS, **settings}), unit, graph, epsilon)


def fitted(unit=NODE, epsilon=40.0, graph=GRAPH, **settings):
    return fit(sf.DPGNN(**{**SETTINGS, **settings}), unit, graph, epsilon)


@pytest.mark.parametrize("settings", [{}, {"num_layers": 2}, {"inference": "noised"}, {"batch_size": 100}])
def test_it_learns_where_noise_is_small(settings):
    assert accuracy(fitted(graph=EASY, **settings), EASY) > 0.7  # of about 0.4 for one class


def test_noised_sums_tell_what_own_features_do_not():
    """Features of noise at test nodes alone: neighbors know the class."""
    x = EASY.x.copy()
    x[GRAPH.test_mask] = np.random.default_rng(1).normal(size=(GRAPH.test_mask.sum(), 6))
    blurred = replace(EASY, x=x)
    run = fitted(epsilon=40.0, graph=blurred, inference="noised", max_arcs=20, epochs=60)
    own = run.plan.method.scores(run.plan, run.weights, {}, blurred).argmax(1)
    assert accuracy(run, blurred) > (own == GRAPH.y)[GRAPH.test_mask].mean() + 0.05


def test_without_privacy_all_neighbors_are_read():
    run = fitted(sf.NoPrivacy(), graph=EASY)
    assert np.array_equal(run.predict_proba(EASY).argmax(1), module_scores(run, EASY).argmax(1))
    assert accuracy(run, EASY) > 0.7


def module_scores(run, graph):
    return run.plan.method.clear_scores(run.plan, run.weights, graph)


def test_own_features_stand_for_the_mean_of_a_node_without_neighbors():
    run = fitted(num_layers=2)
    without = replace(GRAPH, indptr=np.zeros_like(GRAPH.indptr), indices=GRAPH.indices[:0])
    own = run.plan.method.scores(run.plan, run.weights, {}, GRAPH)
    assert np.allclose(module_scores(run, without), own, atol=1e-5)
    assert not np.allclose(module_scores(run, GRAPH), own, atol=1e-3)


@pytest.mark.parametrize(("relation", "layers", "terms"), [("remove", 1, 3), ("remove", 2, 7), ("replace", 1, 5)])
def test_the_run_is_charged_for_all_terms_that_a_record_reaches(relation, layers, terms):
    plan = planned(sf.NodeLevel(max_out_degree=20, relation=relation), 2.0, num_layers=layers, batch_size=100)
    (release,) = plan.releases
    rows = GRAPH.public_facts(NODE).num_train
    steps = 30 * rows // 100
    charged = "replace" if relation == "replace" else "leave"
    assert release.event == RepeatedGaussianEvent(100 / rows, terms, release.event.noise_multiplier, steps, charged)
    assert release.shape == (6 * (layers + 1) * 8 + 8 + 8 * 3 + 3,)
    assert release.arc_change == {1: 1, 2: 3}[layers] / terms


def test_the_unit_caps_what_training_reads():
    (release,) = planned(sf.NodeLevel(max_out_degree=1), 2.0).releases
    assert release.event.occurrences == 2


def test_the_charge_is_there_before_anything_is_read(monkeypatch):
    order = []

    def watched(where, name, said):
        real = getattr(where, name)
        monkeypatch.setattr(where, name, lambda *a, **k: (order.append(said(*a)), real(*a, **k))[1])

    watched(Session, "charge", lambda session, name: f"charge {name}")
    watched(module, "read_arcs", lambda *_: "read arcs")
    watched(module, "noisy_neighborhood_sum", lambda *_: "sum")
    fitted(inference="noised")
    assert order == ["charge network", "read arcs", "charge aggregate/1", "sum"]


@pytest.mark.parametrize(
    "settings",
    [
        {"num_layers": 9},
        {"max_arcs": 0},
        {"max_in_arcs": 0},
        {"inference": "clear"},
        {"num_layers": 2, "inference": "noised"},
    ],
)
def test_bad_settings_are_refused(settings):
    with pytest.raises(InputError):
        sf.DPGNN(**settings)


def test_a_budget_beyond_the_noise_that_steps_can_add_is_refused():
    with pytest.raises(InputError, match="noise multiplier of at most 2048"):
        planned(epsilon=0.05, max_arcs=20, num_layers=2)


@pytest.mark.parametrize("settings", [{}, {"inference": "noised"}, {"num_layers": 2, "batch_size": 100}])
def test_a_saved_run_is_verified_and_forgeries_are_not(tmp_path, settings):
    run = fitted(epsilon=4.0, **settings)
    folder = run.save(tmp_path / "run")
    assert verify.verify(folder).problems == ()
    loaded = sf.load(folder)
    assert np.array_equal(loaded.predict_proba(GRAPH), run.predict_proba(GRAPH))
    certificate = json.loads((folder / "release" / "certificate.json").read_text())
    rules = rules_of("dpgnn")
    (network, *_), charged = rules.releases(certificate), certificate["releases"][0]
    assert list(network.faults("", charged)) == []
    for key, value in (("occurrences", 1), ("relation", "add-remove"), ("steps", 1), ("sampling_prob", 0.01)):
        forged = {**charged, "event": {**charged["event"], key: value}}
        assert any(key in text for text in network.faults("", forged))


def test_the_rules_refuse_what_the_method_refuses():
    certificate = {"settings": {"inference": "noised", "num_layers": 2}, "unit": {"name": "node", "arcs": "incident"}}
    assert len(list(rules_of("dpgnn").faults(certificate))) == 2
