"""Forged runs of link-messages: costs, shapes and words that do not follow from the settings are refused."""

import pytest
from contracts_forgery import event, everywhere, problems, release, rewrite, setting

import sfumato as sf
from sfumato.graph._synthetic import stochastic_block_model
from sfumato.verify import verify

EDGE = sf.EdgeLevel(directed=False)
GRAPH = stochastic_block_model(60, 3, mean_degree=12, num_features=5, seed=0).with_split(seed=0)


@pytest.fixture
def run(tmp_path):
    fitted = sf.LinkMessages().calibrate(sf.Budget(2.0, 0.0), EDGE, GRAPH.public_facts(EDGE)).fit(GRAPH)
    return fitted.save(tmp_path / "run")


def directed(certificate, spec):
    for one in (certificate, spec):
        one["unit"]["directed"] = True


def anyone(certificate, _):
    certificate["who_may_see"]["anyone"].append("sums before noise")


FORGED = {
    "a lower claim": (everywhere("claim", {"epsilon": 1.0, "delta": 0.0}), "claim.epsilon"),
    "a dearer event": (event(0, epsilon=3.0), "claim.epsilon"),
    "Gaussian noise": (release(0, event={"type": "gaussian", "noise_multiplier": 9.0, "count": 1}), "of type pure"),
    "two releases in one": (event(0, count=2), "expected one release of type pure"),
    "fewer numbers": (release(0, shape=[180]), "shape: expected"),
    "no release": (lambda certificate, _: certificate["releases"].clear(), "releases: expected ['links']"),
    "arcs": (directed, "links of method link-messages have no direction"),
    "an unknown setting": (setting(hops=2), "is not a setting of method link-messages"),
    "a share of all": (setting(learner_share=1.0), "settings.learner_share"),
    "sums for anyone": (anyone, "who_may_see"),
    "another method": (everywhere("method", "label-messages"), "settings"),
}


@pytest.mark.parametrize(("change", "problem"), FORGED.values(), ids=FORGED)
def test_what_does_not_follow_from_the_settings_is_refused(change, problem, run):
    assert verify(run).valid
    rewrite(run, change)
    assert problem in problems(run)


def test_other_weights_are_refused(tmp_path):
    fitted = sf.LinkMessages().calibrate(sf.Budget(2.0, 0.0), EDGE, GRAPH.public_facts(EDGE)).fit(GRAPH)
    fitted.weights["counts.before.noise"] = fitted.weights["link.weight"]
    assert "counts.before.noise: belongs to no network" in problems(fitted.save(tmp_path / "more"))
