"""EdgeRand, LapGraph and LPGNet: what they release, what it costs, and what they learn."""

from dataclasses import replace

import numpy as np
import pytest

import sfumato as sf
from sfumato.central._edgerand import EdgeRand
from sfumato.central._lapgraph import LapGraph
from sfumato.central._lpgnet import LPGNet
from sfumato.errors import InputError
from sfumato.graph._synthetic import stochastic_block_model
from sfumato.privacy.events import LaplaceEvent, PureEvent
from sfumato.record.ledger import Release
from sfumato.verify import verify

EDGE, ARC = sf.EdgeLevel(directed=False), sf.EdgeLevel(directed=True)
PURE = sf.Budget(4.0, 0.0)
METHODS = [
    EdgeRand(epochs=3), EdgeRand(epochs=3, asymmetric=False, backbone="mlp"), EdgeRand(epochs=3, mean_degree=10.0),
    LapGraph(epochs=3), LapGraph(epochs=3, mean_degree=10.0, jumping=False, num_layers=2), LPGNet(epochs=3),
    LPGNet(epochs=3, num_hops=1),
]  # fmt: skip


def graph(nodes=300):
    return stochastic_block_model(nodes, 3, mean_degree=12, homophily=0.9, num_features=5, seed=0).with_split(seed=0)


def fit(method, unit=EDGE, budget=PURE, data=None):
    data = data or graph()
    return method.calibrate(budget, unit, data.public_facts(unit)).fit(data)


def name_of(method):
    return f"{method.name}-{getattr(method, 'backbone', method.width)}-{len(method.settings)}"


@pytest.mark.parametrize("unit", [EDGE, ARC], ids=["edge", "arc"])
@pytest.mark.parametrize("method", METHODS, ids=name_of)
def test_a_run_needs_no_delta_verifies_and_is_loaded_again(method, unit, tmp_path):
    data = graph()
    fitted = fit(method, unit, data=data)
    claim = fitted.certificate.values["claim"]
    assert claim["delta"] == 0
    assert 4 * (1 - 1e-9) <= claim["epsilon"] <= 4
    found = verify(fitted.save(tmp_path / "run"))
    assert found.problems == ()
    assert sum(release.event.epsilon for release in fitted.plan.releases) <= claim["epsilon"]
    np.testing.assert_array_equal(sf.load(tmp_path / "run").predict_proba(data), fitted.predict_proba(data))


@pytest.mark.parametrize("method", METHODS, ids=name_of)
def test_without_privacy_the_true_topology_is_read(method):
    data = graph()
    fitted = fit(method, sf.NoPrivacy(), None, data)
    if "edges" in fitted.released:
        sources, targets = fitted.released["edges"].T
        assert len(sources) == data.num_edges
        assert (sources < targets).all()


def test_the_number_of_edges_is_charged_unless_it_is_public_or_not_needed():
    facts = graph().public_facts(EDGE)

    def names(method):
        return [release.name for release in method.calibrate(PURE, EDGE, facts).releases]

    assert names(EdgeRand()) == names(LapGraph()) == ["edge-count", "edges"]
    assert names(EdgeRand(mean_degree=9.0)) == names(LapGraph(mean_degree=9)) == ["edges"]
    assert names(EdgeRand(asymmetric=False)) == ["edges"]


def test_about_as_many_edges_come_out_as_there_are_or_as_are_public():
    data = graph(1000)
    for method in (EdgeRand(epochs=1), EdgeRand(epochs=1, mean_degree=2 * data.num_edges / 1000)):
        assert abs(len(fit(method, data=data).released["edges"]) / data.num_edges - 1) < 0.1
    assert len(fit(LapGraph(epochs=1, mean_degree=4.0), data=data).released["edges"]) == 2000
    assert len(fit(EdgeRand(epochs=1, asymmetric=False), data=data).released["edges"]) > 7000


@pytest.mark.parametrize("method", [EdgeRand(epochs=30, backbone="mlp"), LapGraph(epochs=30, backbone="mlp")])
def test_learns_from_links_where_there_is_next_to_no_noise(method):
    """Features say nothing here: the graph alone does."""
    data = graph(600)
    data = replace(data, x=np.random.default_rng(0).normal(size=data.x.shape).astype(np.float32))
    right = (fit(method, budget=sf.Budget(200.0, 0.0), data=data).predict(data) == data.y)[data.test_mask]
    assert right.mean() > 0.6


def test_pure_costs_that_do_not_fall_with_noise_never_exceed_the_budget(monkeypatch):
    fixed = Release("fixed", PureEvent(1.0), (1,), 0)
    real = LPGNet.releases
    monkeypatch.setattr(LPGNet, "releases", lambda *told: (fixed, *real(*told)))
    with pytest.raises(InputError, match="to pay for the pure releases"):
        LPGNet().calibrate(sf.Budget(0.5, 0.0), EDGE, graph().public_facts(EDGE))


def test_noise_whose_sampler_needs_a_delta_is_not_pure(monkeypatch):
    """Rounded Laplace noise is within 2^-100 of its law a draw: delta 0 would be false."""
    monkeypatch.setattr(LPGNet, "releases", lambda self, unit, public, z: (Release("a", LaplaceEvent(z), (3, 1), 3),))
    facts = graph().public_facts(EDGE)
    with pytest.raises(InputError, match="to have a delta above 0"):
        LPGNet().calibrate(PURE, EDGE, facts)
    assert LPGNet().calibrate(sf.Budget(4.0, 1e-6), EDGE, facts).delta_sampler > 0


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        ({"backbone": "gat"}, "backbone"), ({"num_layers": 0}, "num_layers"), ({"num_layers": 9}, "num_layers"),
        ({"count_share": 1.0}, "count_share"),
        ({"mean_degree": 0}, "mean_degree"), ({"jumping": 1}, "jumping"), ({"asymmetric": "no"}, "asymmetric"),
        ({"learning_rate": 0}, "learning_rate"), ({"width": 0}, "width"), ({"epochs": 0}, "epochs"),
    ],
)  # fmt: skip
def test_settings_out_of_range(bad, named):
    with pytest.raises(InputError, match=f"Expected {named}"):
        EdgeRand(**bad)


def test_lapgraph_refuses_an_epsilon_at_which_its_noise_vanishes():
    facts = graph().public_facts(EDGE)
    with pytest.raises(InputError, match="to be at most 500"):
        LapGraph(mean_degree=12.0).calibrate(sf.Budget(501.0, 0.0), EDGE, facts)
    LapGraph(mean_degree=12.0).calibrate(sf.Budget(499.0, 0.0), EDGE, facts)


def test_epsilon_too_small_for_the_count_is_refused():
    with pytest.raises(InputError, match="every release an epsilon of at least 1e-09"):
        EdgeRand().calibrate(sf.Budget(1e-8, 0.0), EDGE, graph().public_facts(EDGE))
