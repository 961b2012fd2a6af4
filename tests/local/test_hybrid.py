"""The hybrid: what it weighs, what it reads, and that it follows features where only they tell anything."""

from types import SimpleNamespace

import numpy as np
from scipy.special import softmax

from sfumato.graph import campus, interests
from sfumato.local import Hybrid
from sfumato.local._collection import encode, received
from sfumato.local._hybrid import _weigh
from sfumato.method.contract import Watch
from sfumato.noise.coins import SecretWords
from sfumato.privacy.units import LocalLevel


def session(seed=0):
    return SimpleNamespace(seed=seed, watch=Watch())


def test_an_expert_that_knows_gets_the_weight():
    generator = np.random.default_rng(0)
    labels = generator.integers(3, size=400)
    keep = 0.6
    transition = np.full((3, 3), (1 - keep) / 2) + (keep - (1 - keep) / 2) * np.eye(3)
    reports = np.where(generator.random(400) < keep, labels, (labels + generator.integers(1, 3, 400)) % 3)
    knows = np.log(0.8 * np.eye(3)[labels] + 0.2 / 3)
    guesses = np.log(0.8 * np.eye(3)[generator.integers(3, size=400)] + 0.2 / 3)
    typical = np.array([0.5, 0.5])
    good, bad = _weigh(np.stack([knows, guesses]), transition[:, reports].T, typical, 0.5)
    assert good > 0.7 > 0.2 > bad
    swapped = _weigh(np.stack([guesses, knows]), transition[:, reports].T, typical, 0.5)
    np.testing.assert_allclose(swapped, [bad, good], atol=1e-4)


def test_exponents_are_where_likelihood_and_prior_are_highest():
    generator = np.random.default_rng(1)
    logs, likelihood = np.log(generator.random((2, 50, 3))), generator.random((50, 3))
    typical = np.array([0.5, 0.2])

    def height(exponents):
        mixed = softmax(np.tensordot(exponents, logs, 1), axis=1)
        return np.log((mixed * likelihood).sum(axis=1)).sum() - 2 * ((exponents - typical) ** 2).sum()

    found = _weigh(logs, likelihood, typical, 0.5)
    for away in ([0.01, 0], [0, 0.01]):
        assert height(found) > max(height(found + away), height(np.maximum(found - away, 0)) - 1e-12)


def test_without_reports_weights_are_the_usual_ones():
    typical = np.array([0.5, 0.5, 0.2])
    np.testing.assert_allclose(_weigh(np.zeros((3, 5, 4)), np.ones((5, 4)), typical, 0.5), typical, atol=1e-6)


def test_no_features_are_asked_for_at_epsilon_zero():
    graph = campus(600, seed=0).with_split((0.5, 0.25, 0.25), seed=0)
    method = Hybrid(epsilon_x=0.0, epsilon_y=2.0)
    plan = method.calibrate(None, method.unit, graph.public_facts(method.unit))
    assert [release.name for release in plan.releases] == ["label-reports"]
    fitted = plan.fit(graph)
    assert fitted.weights["exponents"].shape == (3,)
    assert (fitted.predict(graph) == graph.y)[graph.test_mask].mean() > 0.6
    np.testing.assert_allclose(fitted.predict_proba(graph).sum(axis=1), 1, rtol=1e-5)


def test_the_same_reports_give_the_same_answer_and_nothing_else_is_read():
    graph = campus(600, seed=0).with_split((0.5, 0.25, 0.25), seed=0)
    method, public = Hybrid(epsilon_x=2.0, epsilon_y=2.0, cap=4), graph.public_facts(LocalLevel())
    reports = encode(method, graph, public, SecretWords(bytes(32)))
    got = received(method, graph, public, reports)
    first = method.learn(got, graph.num_classes, session())
    assert np.array_equal(first["probabilities"], method.learn(got, graph.num_classes, session())["probabilities"])
    strange = graph.__class__(**{**graph.__dict__, "y": np.roll(graph.y, 7), "x": graph.x[::-1]})
    again = received(method, strange, public, reports)
    assert np.array_equal(first["probabilities"], method.learn(again, graph.num_classes, session())["probabilities"])
    assert first["exponents"].shape == (5,)


def test_features_lead_where_neighbors_say_nothing():
    graph = interests(2000, seed=0).with_split((0.5, 0.25, 0.25), seed=0)
    right, exponents = [], []
    for method in (*[Hybrid(epsilon_x=8.0, epsilon_y=3.0, cap=8)] * 2, Hybrid(epsilon_x=0.0, epsilon_y=3.0)):
        fitted = method.calibrate(None, method.unit, graph.public_facts(method.unit)).fit(graph)
        right.append((fitted.predict(graph) == graph.y)[graph.test_mask].mean())
        exponents.append(fitted.weights["exponents"])
    mean = np.mean(exponents[:2], axis=0)  # of two draws of the reports
    assert max(mean[3:]) > max(mean[:3])
    assert min(right[:2]) > right[2] + 0.1
