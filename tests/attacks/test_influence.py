"""Influences are true finite differences in float64, exactly zero where nothing is read, and equal to links without privacy."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from sfumato.attacks import _influence as home
from sfumato.attacks._influence import Influence, answers_alone, network_of, taking_any_features
from sfumato.attacks._pairs import candidates
from sfumato.central import _perturbed
from sfumato.central._baselines import SAGE
from sfumato.central._edgerand import EdgeRand
from sfumato.central._gap import GAP
from sfumato.central._labels import LabelMessages
from sfumato.central._lapgraph import LapGraph
from sfumato.central._progap import ProGAP
from sfumato.central._reference import Reference
from sfumato.errors import InputError
from sfumato.graph._graph import Graph
from sfumato.graph._synthetic import campus, stochastic_block_model
from sfumato.privacy.budget import Budget
from sfumato.privacy.units import EdgeLevel, NoPrivacy

GRAPH = stochastic_block_model(80, 2, mean_degree=4, num_features=5, seed=0).with_split(seed=0)
STEP = 1e-4


def fit(method, epsilon=None, graph=GRAPH):
    unit = NoPrivacy() if epsilon is None else EdgeLevel(directed=False)
    delta = 0.0 if isinstance(method, (EdgeRand, LapGraph)) else 1e-6
    budget = None if epsilon is None else Budget(epsilon, delta)
    return method.calibrate(budget, unit, graph.public_facts(unit)).fit(graph)


def selu(z):
    return 1.0507009873554805 * np.where(z > 0, z, 1.6732632423543772 * np.expm1(np.minimum(z, 0)))


def sage_by_hand(fitted, graph, x):
    """Probabilities of GraphSAGE, written out in NumPy, float64, from the stored weights."""
    w = {name.removeprefix("network."): array.astype(np.float64) for name, array in fitted.weights.items()}
    adjacency = np.zeros((graph.num_nodes, graph.num_nodes))
    for sender in range(graph.num_nodes):
        adjacency[graph.indices[graph.indptr[sender] : graph.indptr[sender + 1]], sender] = 1
    mean = adjacency / np.maximum(adjacency.sum(1, keepdims=True), 1)

    def layer(rows, k):
        own = rows @ w[f"own.{k}.weight"].T + w[f"own.{k}.bias"]
        return own + mean @ (rows @ w[f"neighbor.{k}.weight"].T + w[f"neighbor.{k}.bias"])

    z = layer(x.astype(np.float64), 0)
    z = (z - w["norm.running_mean"]) / np.sqrt(w["norm.running_var"] + 1e-5) * w["norm.weight"] + w["norm.bias"]
    scores = np.exp(layer(selu(z), 1))
    return scores / scores.sum(1, keepdims=True)


def differences(fitted, graph, probabilities):
    """Influence of each row on each column, by a whole pass for each node."""
    x, found = graph.x.astype(np.float64), np.zeros((graph.num_nodes, graph.num_nodes))
    calm = probabilities(fitted, graph, x)
    for v in range(graph.num_nodes):
        other = x.copy()
        other[v] *= 1 + STEP
        found[v] = np.linalg.norm(probabilities(fitted, graph, other) - calm, axis=1) / STEP
    return found


def all_influences(fitted, graph=GRAPH):
    pairs = np.stack(np.divmod(np.arange(graph.num_nodes**2), graph.num_nodes), 1)
    return network_of(fitted, graph).influences(graph.x, pairs, STEP).reshape(graph.num_nodes, -1)


@pytest.mark.parametrize("directed", [False, True])
def test_influences_are_those_of_a_whole_pass_for_each_node(directed, monkeypatch):
    graph = GRAPH
    if directed:
        ends = np.random.default_rng(0).integers(40, size=(2, 90))
        x, y = GRAPH.x[:40], GRAPH.y[:40]
        graph = Graph.from_edges(*ends, 40, directed=True, x=x, y=y).with_split(seed=0)
    fitted = fit(SAGE(epochs=20), graph=graph)
    assert sage_by_hand(fitted, graph, graph.x) == pytest.approx(fitted.predict_proba(graph), abs=1e-5)
    monkeypatch.setattr(home, "_BLOCK", 7)
    monkeypatch.setattr(home, "_ROWS", 11)
    found, expected = all_influences(fitted, graph), differences(fitted, graph, sage_by_hand)
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-9)
    assert ((found == 0) == (expected < 1e-9)).all()


def test_nodes_more_than_two_hops_away_have_no_influence_at_all():
    path = Graph.from_edges(range(9), range(1, 10), 10, directed=False, x=GRAPH.x[:10], y=GRAPH.y[:10] % 2)
    found = all_influences(fit(SAGE(epochs=5), graph=path.with_roles([0] * 8 + [1, 2])), path)
    apart = abs(np.subtract.outer(np.arange(10), np.arange(10)))
    assert ((found > 0) == (apart <= 2)).all()


def single(fitted, graph, x):
    """What the model itself answers, in float32."""
    asked = replace(graph, x=x.astype(np.float32))
    return taking_any_features(fitted).predict_proba(asked).astype(np.float64)


SUMS = {"aggregator": "sum", "layers_before": 1, "epochs": 10}
NETWORKS = (
    EdgeRand(num_layers=1, epochs=10),
    EdgeRand(num_layers=3, epochs=10),
    SAGE(num_layers=1, epochs=10),
    SAGE(num_layers=3, epochs=10),
    SAGE(**SUMS),
    SAGE(**SUMS, jumping=True),
)


@pytest.mark.parametrize("method", NETWORKS, ids=repr)
def test_influences_of_other_networks_are_those_of_their_own_answers_at_a_step_that_float32_resolves(
    method, monkeypatch
):
    fitted = fit(method)
    monkeypatch.setitem(globals(), "STEP", 0.5)
    assert all_influences(fitted) == pytest.approx(differences(fitted, GRAPH, single), rel=1e-3, abs=1e-5)


def test_single_precision_of_published_code_is_noise_at_this_step():
    """The same difference by float32 passes is wrong by more than a tenth for many pairs that do influence each other."""
    fitted = fit(SAGE(epochs=20))
    true, rough = all_influences(fitted), differences(fitted, GRAPH, single)
    weak = (true > 0) & (true < 0.01)
    assert weak.any()
    assert (abs(rough - true)[weak] > 0.1 * true[weak]).mean() > 0.3


def test_links_of_a_network_that_reads_true_arcs_are_found():
    found = Influence().run(fit(SAGE(epochs=20)), GRAPH, seed=0)
    assert found.scores.auc().value > 0.9
    assert found.measures["share_of_links_that_influence"] > 0.99
    assert found.measures["precision_at_number_of_links"] > 0.8


@pytest.mark.parametrize("method", [GAP(), ProGAP(), LabelMessages(), Reference(epochs=5)])
def test_models_that_answer_from_cached_rows_have_no_influence_even_without_privacy(method):
    fitted = fit(method)
    assert answers_alone(fitted, GRAPH)
    found = Influence().run(fitted, GRAPH, seed=0)
    assert found.scores.auc().value == 0.5
    assert not found.scores.members.any()


@pytest.mark.parametrize("jumping", [False, True])
@pytest.mark.parametrize("make", [EdgeRand, LapGraph])
def test_perturbed_topologies_give_away_the_released_edges_and_no_others(make, jumping):
    method = make(mean_degree=4.0, num_layers=2, jumping=jumping, epochs=5)
    fitted = fit(method, 1.0)
    found, released = all_influences(fitted) > 0, np.zeros((80, 80), bool)
    for u, v in fitted.released["edges"]:
        released[u, v] = released[v, u] = True
    np.fill_diagonal(released, True)
    assert (found == (released.astype(int) @ released > 0)).mean() > 0.999
    drawn = candidates(GRAPH, np.random.default_rng(0), 10**4)
    assert Influence().run(fitted, GRAPH, seed=0).scores.auc().value < 0.75
    assert len(drawn.links) > 100


def test_an_answer_that_reads_others_features_is_told_apart():
    class Mean:
        def predict_proba(self, graph):
            x = np.asarray(graph.x)
            return np.stack([np.roll(x[:, 0], 3), x[:, 1]], 1)  # node u reads node u - 3

    assert not answers_alone(Mean(), GRAPH)
    Mean.predict_proba = lambda self, graph: np.asarray(graph.x)
    assert answers_alone(Mean(), GRAPH)


def test_a_model_with_another_way_to_read_features_is_refused():
    graph = campus(60).with_split(seed=0)
    method = SimpleNamespace(name="other")
    fitted = SimpleNamespace(
        ran=SimpleNamespace(method=method, public=None),
        predict_proba=lambda graph: np.roll(graph.x.toarray(), 1, axis=0),
    )
    with pytest.raises(InputError, match="other"):
        Influence().run(fitted, graph, seed=0)
    with pytest.raises(InputError, match="features"):
        Influence().run(fitted, stochastic_block_model(60, 2, num_features=0, mean_degree=4, seed=0), seed=0)


def test_the_two_noises_of_lapgraph_come_from_different_coins(monkeypatch):
    """Published code draws the noise of the edge count and that of the cells from one seed: one is a multiple of the other."""
    words = {}

    def keep(name, at, function):
        def kept(*arguments):
            words[name] = arguments[at].bytes(64)
            return function(*arguments)

        return kept

    monkeypatch.setattr(_perturbed, "noisy_edge_count", keep("count", 3, _perturbed.noisy_edge_count))
    monkeypatch.setattr(LapGraph, "drawn", keep("cells", 5, LapGraph.drawn))
    fit(LapGraph(epochs=1), 1.0)
    assert words["count"] != words["cells"]
    first = dict(words)
    fit(LapGraph(epochs=1), 1.0)
    assert first["count"] != words["count"]
    assert first["cells"] != words["cells"]


def test_default_precision_is_left_as_it_was():
    Influence(most=20).run(fit(SAGE(epochs=2)), GRAPH, seed=0)
    assert torch.get_default_dtype() == torch.float32
