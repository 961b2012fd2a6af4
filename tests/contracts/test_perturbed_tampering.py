"""Forged runs of edgerand, lapgraph and lpgnet: costs and values that do not follow from the settings are refused."""

import pytest
from contracts_forgery import event, problems, rewrite, setting

import sfumato as sf
from sfumato.central._edgerand import EdgeRand
from sfumato.central._lapgraph import LapGraph
from sfumato.central._lpgnet import LPGNet
from sfumato.graph._synthetic import stochastic_block_model

EDGE = sf.EdgeLevel(directed=False)
GRAPH = stochastic_block_model(120, 3, mean_degree=12, num_features=5, seed=0).with_split(seed=0)


def fit(method):
    return method.calibrate(sf.Budget(4.0, 0.0), EDGE, GRAPH.public_facts(EDGE)).fit(GRAPH)


def costs(*epsilons):
    def change(certificate, _):
        for one, epsilon in zip(certificate["releases"], epsilons, strict=True):
            one["event"]["epsilon"] = epsilon

    return change


def no_count(certificate, _):
    del certificate["releases"][0]


def both(*changes):
    def change(certificate, spec):
        for one in changes:
            one(certificate, spec)

    return change


FORGED = [
    (EdgeRand(epochs=1), costs(0.04, 7.96), "claim.epsilon"),
    (EdgeRand(epochs=1), costs(2.0, 1.9999), "expected the share count_share"),
    (EdgeRand(epochs=1), event(1, num_outcomes=3), "over 2 outcomes"),
    (EdgeRand(epochs=1), event(1, count=2), "expected one release of type randomized-response"),
    (EdgeRand(epochs=1), no_count, "releases: expected ['edge-count', 'edges']"),
    (EdgeRand(epochs=1), both(no_count, setting(mean_degree=12.0)), "edge-count: this tensor belongs to no release"),
    (EdgeRand(epochs=1), setting(asymmetric=False), "releases: expected ['edges']"),
    (EdgeRand(epochs=1), setting(num_layers=3), "is missing"),
    (EdgeRand(epochs=1), setting(num_layers=9), "settings.num_layers: expected at most 8"),
    (LapGraph(epochs=1), setting(num_layers=9), "settings.num_layers: expected at most 8"),
    (LapGraph(epochs=1), costs(2.0, 1.9999), "expected the share count_share"),
    (LapGraph(epochs=1), setting(asymmetric=True), "is not a setting of method lapgraph"),
    (LapGraph(epochs=1), costs(0.04, 39.6), "claim.epsilon"),
    (LPGNet(epochs=1), costs(1.0, 2.9999), "the same epsilon at every stage"),
    (LPGNet(epochs=1), costs(3.0, 3.0), "claim.epsilon"),
    (LPGNet(epochs=1), setting(num_hops=3), "releases: expected"),
    (LPGNet(epochs=1), setting(num_hops=10**6), "beyond what can be verified here"),
]


@pytest.mark.parametrize(("method", "change", "problem"), FORGED)
def test_what_does_not_follow_from_the_settings_is_refused(method, change, problem, tmp_path):
    run = fit(method).save(tmp_path / "run")
    rewrite(run, change)
    assert problem in problems(run)


@pytest.mark.parametrize("count", [-5, 0, 10**15])
def test_a_number_of_edges_that_is_cut_away_is_refused(count, tmp_path):
    fitted = fit(EdgeRand(epochs=1))
    fitted.released["edge-count"][:] = count
    assert "edge-count: expected 1 to 7140" in problems(fitted.save(tmp_path / "run"))


def test_more_of_the_largest_pairs_than_are_wanted_are_refused(tmp_path):
    fitted = fit(LapGraph(epochs=1))
    fitted.released["edge-count"][:] = 1
    assert "edges: expected at most 1 pairs" in problems(fitted.save(tmp_path / "count"))
    run = fit(LapGraph(epochs=1, mean_degree=12.0)).save(tmp_path / "degree")
    rewrite(run, setting(mean_degree=0.1))
    assert "edges: expected at most 6 pairs" in problems(run)


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        (lambda edges: edges[:, ::-1].copy(), "the smaller end first"),
        (lambda edges: edges[::-1].copy(), "not in ascending order"),
        (lambda edges: edges + 110, "holds columns"),
        (lambda edges: edges.astype("int32"), "has dtype I32"),
    ],
)
def test_edges_that_no_mechanism_releases_are_refused(fault, problem, tmp_path):
    fitted = fit(EdgeRand(epochs=1))
    fitted.released["edges"] = fault(fitted.released["edges"])
    assert problem in problems(fitted.save(tmp_path / "run"))
