"""LPGNN learns from reports alone, predicts the same after weights are taken out and put back, and its presets hold."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import sfumato as sf
from sfumato.errors import DataError, InputError
from sfumato.graph._synthetic import stochastic_block_model
from sfumato.local._collection import received
from sfumato.local._lpgnn import LPGNN
from sfumato.local._presets import PRESETS, preset
from sfumato.nn._gnn import GNN
from sfumato.nn._training import Adam
from sfumato.verify import verify
from sfumato.verify._methods import rules_of


@pytest.fixture(scope="module")
def graph():
    """600 nodes of 3 classes, whose 0/1 features say something of the class."""
    graph = stochastic_block_model(600, 3, mean_degree=12, homophily=0.85, num_features=0, seed=3)
    chance = np.where(np.arange(12) % 3 == graph.y[:, None], 0.5, 0.05)
    rows = sp.csr_matrix(np.random.default_rng(0).random((600, 12)) < chance, dtype=np.float32)
    return replace(graph, x=rows).with_split((0.5, 0.25, 0.25), seed=1)


def fitted(graph, seed=0, **settings):
    method = LPGNN(**{"epochs": 60, "hidden": 8, "steps_x": 2, "steps_y": 2, **settings})
    return method.calibrate(None, method.unit, graph.public_facts(method.unit)).fit(graph, seed=seed)


def accuracy(fitted, graph):
    return float((fitted.predict(graph) == graph.y)[graph.test_mask].mean())


@pytest.mark.parametrize("backbone", ["sage", "gcn", "gat"])
def test_it_learns_from_reports(graph, backbone):
    run = fitted(graph, epsilon_x=2.0, epsilon_y=2.0, backbone=backbone)
    assert run.certificate.epsilon <= 4
    assert accuracy(run, graph) > 0.75
    epoch, value, low, high = run.weights["selection"]
    assert 1 <= epoch <= 60
    assert 0 <= low <= high <= 1
    assert low < value
    assert low < high or low == 1, "the estimate has no bias, so all of its interval may lie above 1"
    assert value < high or high == 1
    assert all(len(run.curves[name]) == 60 for name in ("network", "validation", "validation accuracy"))


@pytest.mark.parametrize("formed", [True, False])
def test_means_over_neighbors_serve_too(graph, formed, monkeypatch, tmp_path):
    """Only another aggregator than the first is named, so that certificates of kept runs stay what they are."""
    monkeypatch.setattr("sfumato.nn._topology._FORMED", 4 if formed else 0)
    asked = {"epsilon_x": None, "epsilon_y": 3.0, "epochs": 30, "steps_y": 1}
    means, usual = (fitted(graph, **asked, aggregator=name) for name in ("mean", "gcn"))
    stated = means.certificate.values["settings"]
    assert stated == {**usual.certificate.values["settings"], "aggregator": "mean"}
    assert means.certificate.epsilon == usual.certificate.epsilon
    assert not np.array_equal(means.predict_proba(graph), usual.predict_proba(graph))
    assert accuracy(means, graph) > 0.75
    if formed:
        checked, loaded = verify(means.save(tmp_path / "run")), sf.load(tmp_path / "run")
        assert checked.valid, checked.problems
        assert np.array_equal(loaded.predict_proba(graph), means.predict_proba(graph))
        (problem,) = rules_of("lpgnn").setting_faults({"method": "lpgnn", "settings": {**stated, "aggregator": "gcn"}})
        assert "settings.aggregator: expected one of mean" in problem


@pytest.mark.parametrize(
    ("features_in", "scale"), [("random", True), ("random", False), ("degree", True), ("ones", True)]
)
def test_made_up_features_ask_for_nothing(graph, features_in, scale):
    run = fitted(graph, features_in=features_in, scale=scale, epsilon_y=3.0, epochs=30)
    assert [release.name for release in run.plan.releases] == ["label-reports"]
    assert run.certificate.epsilon <= 3
    other = replace(graph, x=sp.csr_matrix(graph.x.shape, dtype=np.float32))
    assert np.array_equal(run.predict_proba(graph), run.predict_proba(other))


def test_random_features_are_uniform_and_standardized_when_scaled(graph):
    for scale in (True, False):
        method = LPGNN(features_in="random", scale=scale, steps_x=1)
        public = graph.public_facts(method.unit)
        got = received(method, graph, public, {"label-reports": np.zeros(600, np.int32)})
        topology, rows = method._inputs(got, 7)
        rows = (rows @ torch.eye(12)).numpy()
        raw = np.random.default_rng(7).random((600, 12), np.float32)
        hop = topology._plain.to_dense().numpy()
        if scale:
            assert rows.std() == pytest.approx(1, rel=0.05)
            ratio = rows / (hop @ (raw - 0.5))
            assert np.allclose(ratio, np.median(ratio), rtol=1e-2)
        else:
            assert np.allclose(rows, hop @ raw, atol=1e-5)


def test_scaled_reports_have_unit_noise_and_clear_columns_are_left_alone(graph):
    method = LPGNN(epsilon_x=0.01, steps_x=2)
    plan = method.calibrate(None, method.unit, graph.public_facts(method.unit))
    run = plan.fit(graph)
    got = received(method, graph, plan.public, run.released)
    assert (method._inputs(got, 0)[1] @ torch.eye(12)).std().item() == pytest.approx(1, rel=0.1)
    raw = replace(method, scale=False)
    assert (raw._inputs(got, 0)[1] @ torch.eye(12)).std().item() > 20
    clear = LPGNN(epsilon_x=None, steps_x=0)
    got = received(clear, graph, plan.public, run.released)
    assert np.array_equal((clear._inputs(got, 0)[1] @ torch.eye(12)).numpy(), graph.x.toarray())


def test_the_kept_epoch_is_the_one_predicted_with(graph, monkeypatch):
    """With the published rule and a cap that the first epoch exceeds, the network is that of one step."""
    monkeypatch.setattr("sfumato.local._drop._TRAIN_SLACK", -1.0)
    locked = fitted(graph, select="published", label_mechanism="randomized-response", features_in="ones", epochs=20)
    assert locked.weights["selection"][0] == 1
    last = fitted(graph, select="last", label_mechanism="randomized-response", features_in="ones", epochs=20)
    assert last.weights["selection"][0] == 20
    start, moved = (run.weights["network.second.own.weight"] for run in (locked, last))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        initial = GNN("sage", 12, 8, 3).second.own.weight.detach().numpy()
    assert np.allclose(start, initial, atol=0.0101)
    assert not np.allclose(moved, initial, atol=0.0101)


def test_patience_stops_and_needs_ten_epochs(graph):
    run = fitted(graph, patience=1, learning_rate=10.0, epochs=60, select="last")
    assert 10 <= len(run.curves["network"]) < 60
    assert run.weights["selection"][0] == len(run.curves["network"])


def test_weight_decay_is_that_of_torch():
    results = []
    for make in (lambda p: Adam(p, 0.1, 0.3), lambda p: torch.optim.Adam(p, lr=0.1, weight_decay=0.3)):
        weight = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
        optimizer = make([weight])
        for _ in range(5):
            if isinstance(optimizer, torch.optim.Optimizer):
                optimizer.zero_grad()
            (weight**3).sum().backward()
            optimizer.step()
        results.append(weight.detach().clone())
    assert torch.allclose(*results, atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"epsilon_x": 0.0}, "features_in"),
        ({"features_in": "noise"}, "features_in"),
        ({"loss": "cross-entropy"}, "loss"),
        ({"loss": "mean"}, "loss"),
        ({"backbone": "transformer"}, "backbone"),
        ({"select": "best"}, "select"),
        ({"steps_x": -1}, "steps_x"),
        ({"dropout": 1.0}, "dropout"),
        ({"weight_decay": -1.0}, "weight_decay"),
        ({"activation": "tanh"}, "activation"),
        ({"aggregator": "sum"}, "aggregator"),
    ],
)
def test_settings_are_checked(settings, named):
    with pytest.raises(InputError, match=named):
        LPGNN(**settings)


def test_no_validation_reports_is_an_error(graph):
    with pytest.raises(DataError, match="validation"):
        fitted(graph.with_split((0.75, 0.0, 0.25)))


def test_published_settings():
    facebook = LPGNN(**preset("lpgnn-2021", "musae/facebook", 1.0, 1.0))
    assert (facebook.steps_x, facebook.steps_y, facebook.weight_decay, facebook.dropout) == (2, 4, 0.01, 0.5)
    assert facebook.paper_rule
    assert not facebook.scale
    assert facebook.epochs == 500
    cora = LPGNN(**preset("lpgnn-2021", "planetoid/cora", 0.01, None))
    assert (cora.steps_x, cora.steps_y, cora.weight_decay, cora.dropout) == (8, 0, 0.01, 0.75)
    other = preset("lpgnn-2021", "somewhere", 1.0, 2.2)
    assert other == {**preset("lpgnn-2021", "planetoid/cora", 1.0, 2.0), "epsilon_y": 2.2}
    hops = {
        budgets: tuple(preset("lpgnn-2021", "planetoid/cora", *budgets)[name] for name in ("steps_x", "steps_y"))
        for budgets in ((0.01, 1.0), (0.12, 1.0), (9.0, 0.1), (None, 1.0), (1.0, None), (None, None))
    }
    assert list(hops.values()) == [(8, 8), (2, 4), (2, 8), (0, 4), (16, 0), (0, 0)]
    with pytest.raises(InputError, match="preset"):
        preset("lpgnn", "planetoid/cora")
    with pytest.raises(InputError, match="epsilon_x"):
        preset(PRESETS[0], "planetoid/cora", 0.0)


def test_the_convolution_of_2020_spends_its_epsilon_on_every_feature(graph):
    run = fitted(graph, **{**preset("pgc-2020", "planetoid/cora", 2.0), "hidden": 16})
    assert 23.99 < run.certificate.epsilon <= 24
    assert [release.name for release in run.plan.releases] == ["feature-reports"]
    assert accuracy(run, graph) > 0.6
    assert preset("pgc-2020", "musae/twitch_ENGB", 1.0)["learning_rate"] == 0.001


def test_certificates_note_that_published_settings_were_chosen_on_published_data():
    assert any("lpgnn-2021" in note and "demonstration" in note for note in LPGNN.card.notes)
