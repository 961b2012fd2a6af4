"""Published analyses of PATE, recomputed from the official votes of 2018.

LNMax: Papernot et al. 2017, tables 1 and 2 and their analysis code. The rest: Papernot et al. 2018, table 2, and theirs.
"""

import gzip
import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from sfumato.pate._aggregation import ConfidentGNMax, GNMax, LNMax
from sfumato.pate._analysis import analyze
from sfumato.pate._data_dependent import (
    PUBLISHED_MOMENTS,
    PUBLISHED_ORDERS,
    confident_renyi,
    gaussian_log_q,
    gaussian_renyi,
    laplace_log_q,
    laplace_renyi,
    log_answer_probability,
    to_epsilon,
)
from sfumato.pate._epsilon_release import published_release
from sfumato.pate._smooth import gnss_renyi, published_gnss_renyi
from sfumato.pate._votes import read_votes
from sfumato.privacy import accounting

HAND_MADE = np.zeros((5, 10), int)
for _row, _counts in enumerate([[250], [240, 10], [200, 50], [180, 30, 20, 10, 10], [130, 120]]):
    HAND_MADE[_row, : len(_counts)] = _counts

CONFIDENT = {
    "mnist": (ConfidentGNMax(200.0, 150.0, 40.0), 640, 1e-5),
    "svhn": (ConfidentGNMax(300.0, 200.0, 40.0), 8500, 1e-6),
    "adult": (ConfidentGNMax(300.0, 200.0, 40.0), 1500, 1e-5),
}


@pytest.fixture(scope="session")
def votes(data_dir):
    return lambda name, queries=None: read_votes(data_dir / "pate_votes" / f"{name}_250_teachers.npy", queries)


def test_gnmax_unit_vectors():
    log_q = gaussian_log_q(HAND_MADE, 40.0)
    assert log_q == pytest.approx([-10.019228, -9.094431, -5.179152, -4.369730, -0.661519], abs=6e-7)
    expected = [
        [1.52736e-5, 2.05891e-5, 5.32132e-5, 2.08327e-3],
        [3.65491e-5, 4.84401e-5, 1.171e-4, 3.51613e-3],
        [1.25e-3, 1.65488e-3, 2.90776e-3, 1.91905e-2],
        [1.25e-3, 3.32055e-3, 5.36625e-3, 2.40182e-2],
        [1.25e-3, 5e-3, 1.25e-2, 3.125e-2],
    ]
    assert gaussian_renyi(log_q, 40.0, np.array([2.0, 8, 20, 50])) == pytest.approx(np.array(expected), rel=4e-6)


def test_lnmax_unit_vectors():
    log_q = laplace_log_q(HAND_MADE, 20.0)
    assert log_q == pytest.approx([-9.014921, -8.486533, -6.030965, -5.314990, -0.904757], abs=6e-7)
    expected = [
        [2.55736e-5, 3.03921e-5, 4.91499e-5],
        [4.33777e-5, 5.15478e-5, 8.33428e-5],
        [5.05424e-4, 5.99771e-4, 9.63677e-4],
        [1.03405e-3, 1.2251e-3, 1.95465e-3],
        [0.01, 0.04, 0.0861788],
    ]
    assert laplace_renyi(log_q, 0.1, np.array([2.0, 8, 20])) == pytest.approx(np.array(expected), rel=4e-6)


def test_threshold_unit_vectors():
    answered, refused = log_answer_probability(HAND_MADE.max(axis=1), 200.0, 150.0)
    assert answered == pytest.approx([-0.461149, -0.502300, -0.693147, -0.805275, -1.138281], abs=6e-7)
    orders = np.array([2.0, 8.0, 20.0])
    costs = gaussian_renyi(np.minimum(answered, refused), 150 * np.sqrt(2), orders)
    assert costs == pytest.approx(np.tile(orders / (2 * 150**2), (5, 1)))
    assert (confident_renyi(np.zeros((5, 3)), HAND_MADE.max(axis=1), 200.0, 150.0, orders) <= costs).all()


@pytest.mark.parametrize(
    ("most", "expected"),
    [(8, [1.4423, 1.4444, 1.5011, 1.5656, 5.3026]), (64, [0.2634, 0.2923, 0.5556, 0.7194, 5.3026])],
)
def test_hundred_copies_by_moments(most, expected):
    orders = np.arange(2.0, most + 2)
    costs = 100 * laplace_renyi(laplace_log_q(HAND_MADE, 20.0), 0.1, orders)
    assert to_epsilon(costs, orders, 1e-5, "classic").min(axis=1) == pytest.approx(expected, abs=6e-5)


def advanced(epsilon: float, count: int, slack: float) -> float:
    """Epsilon of so many mechanisms at delta ``slack``: Dwork and Roth (2014), theorem 3.20."""
    return math.sqrt(-2 * count * math.log(slack)) * epsilon + count * epsilon * math.expm1(epsilon)


@pytest.mark.parametrize(
    ("queries", "delta", "strong", "moments"),
    [
        (100, 1e-5, 5.8502, 5.3026),
        (1000, 1e-5, 25.69, 20.7565),
        (500, 1e-6, 17.01, 14.4078),
        (1000, 1e-6, 27.14, 21.9078),
    ],
)
def test_lnmax_whatever_the_votes_are(queries, delta, strong, moments):
    """Published as the data-independent cost of 100 queries: 5.80."""
    assert advanced(2 / 20, queries, delta) == pytest.approx(strong, abs=6e-3 if strong > 10 else 6e-5)
    orders = PUBLISHED_MOMENTS + 1
    at_worst = queries * laplace_renyi(np.zeros(1), 2 / 20, orders)[0]
    assert to_epsilon(at_worst, orders, delta, "classic").min() == pytest.approx(moments, abs=6e-5)
    assert accounting.epsilon(LNMax(20.0).events(queries), delta) < moments < strong
    assert advanced(1 / 20, queries, delta) < 0.6 * strong  # one count moved instead of two


@pytest.mark.parametrize(
    ("asked", "answered", "stddevs", "delta", "expected"),
    [
        (640, 286, (150.0, 40.0), 1e-5, 3.1753),  # MNIST
        (8500, 3098, (200.0, 40.0), 1e-6, 12.675),  # SVHN
        (1500, 524, (200.0, 40.0), 1e-5, 4.3426),  # Adult
        (12000, 10762, (500.0, 100.0), 1e-8, 10.1062),  # Glyph
    ],
)
def test_confident_at_the_published_answers_whatever_the_votes_are(asked, answered, stddevs, delta, expected):
    threshold, answers = ConfidentGNMax(0.0, *stddevs).events(asked, answered)
    rates = [event.count / (2 * event.noise_multiplier**2) for event in (threshold, answers)]
    epsilon = to_epsilon(sum(rates) * PUBLISHED_ORDERS, PUBLISHED_ORDERS, delta, "classic").min()
    assert epsilon == pytest.approx(expected, abs=6e-4 if expected > 12 else 6e-5)
    assert accounting.epsilon((threshold, answers), delta) < epsilon
    without_refusals = to_epsilon(rates[1] * PUBLISHED_ORDERS, PUBLISHED_ORDERS, delta, "classic").min()
    assert without_refusals < expected - 0.01


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "queries", "delta", "expected", "moment", "free"),
    [
        ("mnist", 100, 1e-5, 2.0430, 8, 5.3026),  # published: 2.04
        ("mnist", 1000, 1e-5, 7.3993, 5, 20.7565),
        ("svhn", 500, 1e-6, 4.3722, None, 14.4078),
        ("svhn", 1000, 1e-6, 6.4329, None, 21.9078),
        ("adult", 500, 1e-5, 2.5812, None, None),  # published: 2.66
    ],
)
def test_lnmax_tables(votes, name, queries, delta, expected, moment, free):
    result = analyze(votes(name, queries), LNMax(20.0), delta, as_published=True)
    assert result.epsilon == pytest.approx(expected, abs=6e-5)
    assert moment is None or result.order == moment + 1
    assert free is None or result.data_independent == pytest.approx(free, abs=6e-5)
    assert analyze(votes(name, queries), LNMax(20.0), delta).epsilon < expected
    inverted = analyze(votes(name, queries), LNMax(1 / 20), delta, as_published=True)
    assert abs(inverted.epsilon / expected - 1) > 0.1


@pytest.mark.data
def test_lnmax_of_the_published_student(votes, data_dir):
    chosen = np.load(data_dir / "pate_votes" / "mnist_250_teachers_100_indices_used_by_student.npy")
    rows = votes("mnist")[chosen]
    assert analyze(rows, LNMax(20.0), 1e-5, as_published=True).epsilon == pytest.approx(1.9587, abs=6e-5)
    orders = np.arange(2.0, 66)
    total = laplace_renyi(laplace_log_q(rows, 20.0), 0.1, orders).sum(axis=0)
    assert to_epsilon(total, orders, 1e-5, "classic").min() == pytest.approx(1.4371, abs=6e-5)


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "answered", "epsilon", "order", "parts", "free", "tight"),
    [
        ("mnist", 282.72, 1.9988, 14.0, (0.1991, 0.9141, 0.8856), 3.1574, 1.7119),
        ("svhn", 2969.09, 4.9152, 7.5, (0.7969, 1.9929, 2.1255), 12.3930, 4.4497),
        ("adult", 538.26, 1.6782, 15.5, (0.2906, 0.5936, 0.7940), 4.4018, 1.4136),
    ],
)
def test_confident_tables(votes, name, answered, epsilon, order, parts, free, tight):
    mechanism, queries, delta = CONFIDENT[name]
    rows = votes(name, queries)
    result = analyze(rows, mechanism, delta, as_published=True)
    assert result.answered == pytest.approx(answered, abs=6e-3)
    assert result.epsilon == pytest.approx(epsilon, abs=6e-5)
    assert result.order == order
    assert (result.threshold, result.answers, result.conversion) == pytest.approx(parts, abs=6e-5)
    assert result.data_independent == pytest.approx(free, abs=6e-5)
    weights = np.exp(log_answer_probability(rows.max(axis=1), mechanism.threshold, mechanism.threshold_stddev)[0])
    means = weights @ gaussian_renyi(gaussian_log_q(rows, 40.0), 40.0, PUBLISHED_ORDERS)
    means += queries * PUBLISHED_ORDERS / (2 * mechanism.threshold_stddev**2)
    assert to_epsilon(means, PUBLISHED_ORDERS, delta).min() == pytest.approx(tight, abs=6e-5)


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "epsilon"),
    [("mnist", 1.7252), ("svhn", 4.2400), ("adult", 1.3767)],
)
def test_proved_costs_of_the_same_runs(votes, name, epsilon):
    mechanism, queries, delta = CONFIDENT[name]
    assert analyze(votes(name, queries), mechanism, delta).epsilon == pytest.approx(epsilon, abs=6e-5)


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "beta", "sensitivity", "noise", "cost", "after", "stddev"),
    [
        ("mnist", 0.0329, 0.06175, 6.233, 0.5174, 2.5162, 0.3849),
        ("svhn", 0.0533, 0.07165, 4.884, 0.5352, 5.4504, 0.3499),
        ("adult", 0.0310, 0.03326, 7.915, 0.4073, 2.0855, 0.2632),
    ],
)
def test_published_release_of_epsilon(votes, name, beta, sensitivity, noise, cost, after, stddev):
    mechanism, queries, delta = CONFIDENT[name]
    before, chosen, epsilon = published_release(votes(name, queries), mechanism, delta)
    assert chosen.order == before.order
    assert chosen.beta == pytest.approx(beta, abs=6e-5)
    assert chosen.sensitivity == pytest.approx(sensitivity, abs=6e-6)
    assert chosen.noise == pytest.approx(noise, abs=6e-4)
    assert chosen.cost == pytest.approx(cost, abs=6e-5)
    assert epsilon == pytest.approx(after, abs=6e-5)
    assert chosen.noise * chosen.sensitivity == pytest.approx(stddev, abs=6e-5)


@pytest.mark.parametrize(
    ("order", "share", "noise", "printed", "true"),
    [
        (14.0, 0.46, 6.233, 0.5174, 1.589),  # MNIST
        (7.5, 0.40, 4.884, 0.5352, 0.634),  # SVHN
        (15.5, 0.48, 7.915, 0.4073, 1.741),  # Adult
    ],
)
def test_what_the_published_releases_cost(order, share, noise, printed, true):
    """The quadrature of docs/decisions/0010-pate-costs.md."""
    beta = share / order
    first, second = norm(0, noise), norm(np.exp(-beta), np.exp(-beta) * noise)

    def ratio(x):
        return np.exp(order * first.logpdf(x) + (1 - order) * second.logpdf(x))

    found = np.log(quad(ratio, -400, 400, points=[0], limit=500)[0]) / (order - 1)
    assert found == pytest.approx(true, abs=6e-4)
    assert gnss_renyi(beta, noise, order) == pytest.approx(found, rel=1e-9)
    assert published_gnss_renyi(beta, noise, order) == pytest.approx(printed, abs=6e-5)


@pytest.mark.data
def test_answers_of_the_mnist_teachers(votes, data_dir):
    rows = votes("mnist")
    with gzip.open(data_dir / "mnist" / "t10k-labels-idx1-ubyte.gz") as file:
        truth = np.frombuffer(file.read()[8:], np.uint8)[:9000]
    assert (rows.argmax(axis=1) == truth).mean() == pytest.approx(0.9437, abs=6e-5)
    accuracy = [(LNMax(20.0).aggregate(rows).labels == truth).mean() for _ in range(4)]
    assert np.mean(accuracy) == pytest.approx(0.9318, abs=0.004)  # published 93.18 %; 10 draws: +- 0.15 %
    for scale in (20 * 2 / 3, 30.0, 1 / 20):
        assert abs((LNMax(scale).aggregate(rows).labels == truth).mean() - 0.9318) > 0.006
    assert (GNMax(40.0).aggregate(rows).labels == truth).mean() == pytest.approx(0.918, abs=0.008)


@pytest.mark.data
def test_runs_that_stop_at_the_published_answers(votes):
    """286 answers in random order: 648 queries on average, epsilon 1.969 +- 0.052 (published: 286 and 1.97)."""
    rows = votes("mnist")
    mechanism, asked, epsilons = CONFIDENT["mnist"][0], [], []
    for seed in range(8):
        mixed = np.random.default_rng(seed).permutation(rows)[:2000]
        answers = mechanism.aggregate(mixed, max_answers=286)
        assert answers.answered == 286
        asked.append(answers.asked)
        given = gaussian_renyi(gaussian_log_q(mixed[answers.labels >= 0], 40.0), 40.0, PUBLISHED_ORDERS).sum(axis=0)
        total = given + answers.asked * PUBLISHED_ORDERS / (2 * 150**2)
        epsilons.append(to_epsilon(total, PUBLISHED_ORDERS, 1e-5, "classic").min())
    assert np.mean(asked) == pytest.approx(648, abs=45)
    assert np.mean(epsilons) == pytest.approx(1.969, abs=0.08)
