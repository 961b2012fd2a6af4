"""Bounds from one run hit published values, hold by simulation and by enumeration, and are not those of other claims."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr, ndtri

from sfumato.audit._bounds import one_run_epsilon, one_run_p_value
from sfumato.audit._gaussian import epsilon_of_mu
from sfumato.audit._one_run import audit_one_run
from sfumato.audit._one_run_fdp import contradicts, one_run_mu
from sfumato.audit._thresholds import Bonferroni
from sfumato.errors import InputError

SPOTS = [
    (1000, 1000, 1000, 5.8091, 5.7823, 12.3346),
    (1000, 100, 95, 2.1724, 2.1652, 3.3233),
    (1000, 200, 160, 1.0867, 1.0850, 1.7292),
    (1000, 1000, 600, 0.2975, 0.2972, 0.5835),
    (5000, 500, 490, 3.3563, 3.3357, 4.9501),
]
GOLDEN = [(0, 0, 0), (1, 1.13346, 2.164749), (2, 2.311945, 4.7218075), (4, 4.395568, 9.133752)]


@pytest.mark.parametrize(("canaries", "guesses", "correct", "pure", "approximate", "gaussian"), SPOTS)
def test_published_spot_values(canaries, guesses, correct, pure, approximate, gaussian):
    assert one_run_epsilon(correct, guesses, canaries) == pytest.approx(pure, abs=5e-5)
    assert one_run_epsilon(correct, guesses, canaries, delta=1e-5) == pytest.approx(approximate, abs=5e-5)
    assert epsilon_of_mu(one_run_mu(correct, guesses, canaries), 1e-5) == pytest.approx(gaussian, abs=5e-5)


@pytest.mark.parametrize(("canaries", "ceiling"), [(10, 1.05), (100, 3.49), (1000, 5.81)])
def test_ceiling_of_one_run(canaries, ceiling):
    found = one_run_epsilon(canaries, canaries, canaries)
    assert found == pytest.approx(ceiling, abs=5e-3)
    assert 1 / (1 + math.exp(-found)) == pytest.approx(0.05 ** (1 / canaries))


def corners(hits, alarms):
    """Corners of the convex hull of the ROC curve; published code divides the risk by their number."""
    kept = []
    for point in zip(alarms.tolist(), hits.tolist(), strict=True):
        while len(kept) > 1:
            (x0, y0), (x1, y1), (x, y) = kept[-2], kept[-1], point
            if (y1 - y0) * (x - x1) > (y - y1) * (x1 - x0):
                break
            kept.pop()
        kept.append(point)
    return kept


def published_counts(shift, n=10_000):
    """Right guesses and guesses at those corners, for normal scores at the quantiles (i + 0.5) / n."""
    others = ndtri((np.arange(n) + 0.5) / n)
    members = others + shift
    thresholds = np.append(np.union1d(members, others), np.inf)[::-1]
    hits, alarms = (n - np.searchsorted(side, thresholds) for side in (members, others))
    return np.array([(right, right + wrong) for wrong, right in corners(hits, alarms)])


@pytest.mark.parametrize(("shift", "plain", "gaussian"), GOLDEN)
def test_published_golden_values(shift, plain, gaussian):
    """They divide the risk by the number of corners: 386, 374 and 140 of 20,001 thresholds for shifts 1, 2 and 4.

    Each is the epsilon at which the last corner is no longer rejected: a little below one is, a little above none.
    """
    counts, canaries = published_counts(shift), 20_000
    risk, counts = 0.05 / len(counts), counts[1:]  # the first corner has no guesses
    if shift == 0:
        assert min(one_run_p_value(int(c), int(g), canaries, 0.0, 1e-6) for c, g in counts) > risk
        assert not any(contradicts(1e-6, int(c), int(g), canaries, risk) for c, g in counts)
        return
    for epsilon, expected in ((plain * (1 - 1e-5), True), (plain * (1 + 1e-5), False)):
        likely = counts[counts[:, 0] > counts[:, 1] / (1 + math.exp(-epsilon))]
        p_values = [one_run_p_value(int(c), int(g), canaries, epsilon, 1e-6) for c, g in likely]
        assert (min(p_values) <= risk) == expected
    best = 0.0
    for correct, guesses in counts.tolist():
        best = max(best, one_run_mu(correct, guesses, canaries, confidence=1 - risk, above=best))
    assert epsilon_of_mu(best, 1e-6) == pytest.approx(gaussian, rel=1e-5)


@pytest.mark.parametrize(("shift", "plain", "gaussian"), GOLDEN)
def test_ours_is_above_the_published_values_at_a_risk_that_is_proved(shift, plain, gaussian):
    """The risk is divided by 32 numbers of guesses that are fixed before; 20,000 canaries times delta punish more."""
    others = ndtri((np.arange(10_000) + 0.5) / 10_000)
    options = {"name": "normal", "knowledge": "all", "delta": 1e-6, "confidence": 0.95}
    truth = epsilon_of_mu(float(shift), 1e-6)
    for published, family in ((plain, False), (gaussian, True)):
        found = audit_one_run(others + shift, others, **options, gaussian=family).epsilon_lower_bound
        assert published <= found <= truth


def gaussian_laws(mu, canaries, guesses):
    """Whether each of ``canaries`` independent Gaussian canaries is in, by falling score, [draws, guesses]."""
    generator = np.random.default_rng(5)
    inside = generator.random((400, canaries)) < 0.5
    scores = generator.normal(size=inside.shape) + mu * inside
    order = np.argsort(-scores, axis=1)[:, :guesses]
    return np.take_along_axis(inside, order, axis=1)


@pytest.mark.parametrize("mu", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("guesses", [5, 30, 100])
@pytest.mark.parametrize("one_sided", [False, True])
def test_honest_gaussian_is_not_contradicted(mu, guesses, one_sided):
    right = gaussian_laws(mu, 100, guesses).sum(axis=1)
    found = [contradicts(mu, int(v), guesses, 100, 0.1, one_sided=one_sided) for v in right]
    assert np.mean(found) <= 0.1


def test_larger_mu_than_claimed_is_contradicted():
    right = gaussian_laws(3.0, 100, 30).sum(axis=1)
    assert np.mean([contradicts(1.0, int(v), 30, 100, 0.1, one_sided=True) for v in right]) > 0.9


@pytest.mark.parametrize("mu", [0.2, 1.0, 2.5])
def test_one_canary_is_the_exact_bound(mu):
    """With one canary that is always guessed, R_1 <= Phi(Phi^-1(1 - R_1) + mu) gives P[right] <= Phi(mu / 2) exactly."""
    most = ndtr(mu / 2)
    assert contradicts(mu, 1, 1, 1, most + 1e-6)
    assert not contradicts(mu, 1, 1, 1, most - 1e-6)


@pytest.mark.parametrize("canaries", [2, 5, 12])
@pytest.mark.parametrize("mu", [0.5, 1.5])
def test_independent_gaussian_canaries_are_within_the_bound_by_enumeration(canaries, mu):
    """All are guessed at the best threshold: T is Bin(m, Phi(mu / 2)), and no tail of it is called impossible."""
    for correct in range(1, canaries + 1):
        tail = stats.binom.sf(correct - 1, canaries, ndtr(mu / 2))
        assert not contradicts(mu, correct, canaries, canaries, tail * (1 - 1e-9))


@pytest.mark.parametrize("mu", [0.5, 2.0])
def test_dependent_canaries_are_within_the_bound(mu):
    """A noisy count of the canaries is mu-GDP for each; all are guessed alike, so that they are right together."""
    generator = np.random.default_rng(6)
    inside = generator.random((2000, 10)) < 0.5
    count = mu * inside.sum(axis=1) + generator.normal(size=2000)
    right = (inside == (count > 5 * mu)[:, None]).sum(axis=1)
    rejected = np.array([contradicts(mu, v, 10, 10, 0.1) for v in range(11)])
    assert rejected[right].mean() <= 0.1


def published_fault(correct, guesses, canaries, epsilon):
    """A published p-value leaves out the term of delta."""
    return stats.binom.sf(correct - 1, guesses, 1 / (1 + math.exp(-epsilon)))


def test_delta_term_is_there():
    """A mechanism that betrays 20 of 60 canaries with probability 0.1 is (0.5, 1/30)-DP for each of them.

    Without the term of delta, its honest claim is refuted more often than one time in twenty.
    """
    right = 1 / (1 + math.exp(-0.5))
    counts = np.arange(61)
    chances = 0.9 * stats.binom.pmf(counts, 60, right) + 0.1 * stats.binom.pmf(counts - 20, 40, right)
    without = np.array([published_fault(v, 60, 60, 0.5) for v in counts])
    with_term = np.array([one_run_p_value(int(v), 60, 60, 0.5, 20 * 0.1 / 60) for v in counts])
    assert chances[without <= 0.05].sum() > 0.05
    assert chances[with_term <= 0.05].sum() <= 0.05


def audited(members, others, **options):
    options = {"name": "canaries", "knowledge": "the model", "delta": 1e-5, "confidence": 0.95} | options
    return audit_one_run(members, others, **options).epsilon_lower_bound


@pytest.mark.parametrize("gaussian", [False, True])
def test_honest_run_is_contradicted_at_most_at_the_stated_rate(gaussian):
    generator, above = np.random.default_rng(7), 0
    epsilon = epsilon_of_mu(1.0, 1e-5)
    for _ in range(40):
        inside = generator.random(200) < 0.5
        scores = generator.normal(size=200) + inside
        above += audited(scores[inside], scores[~inside], gaussian=gaussian) > epsilon
    assert above <= 0.1 * 40


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("guesses", [None, 50, Bonferroni(5), Bonferroni(None)])
def test_random_and_reversed_scores_give_nothing(gaussian, guesses):
    members, others = np.random.default_rng(8).normal(size=(2, 100))
    assert audited(members, others, gaussian=gaussian, guesses=guesses, confidence=0.999) == 0
    assert audited(members - 5, others, gaussian=gaussian, guesses=guesses) == 0
    assert audited(members + 5, others, gaussian=gaussian, guesses=guesses) > 1


def test_equal_scores_are_no_evidence():
    """Members listed first must not win ties."""
    assert audited(np.ones(500), np.ones(500)) == 0


def test_guesses_that_are_all_in_are_worth_more():
    assert one_run_mu(95, 100, 1000, one_sided=True) > one_run_mu(95, 100, 1000) * 1.05


def test_search_starts_above_a_known_bound():
    full = one_run_mu(95, 100, 1000)
    assert one_run_mu(95, 100, 1000, above=full / 2) == pytest.approx(full, rel=1e-8)
    assert one_run_mu(95, 100, 1000, above=full * 1.01) == 0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: one_run_mu(3, 2, 9), "correct"),
        (lambda: one_run_mu(1, 10, 9), "guesses"),
        (lambda: one_run_mu(1, 2, 9, confidence=1.0), "confidence"),
        (lambda: audited([np.nan], [0.0]), "members to be a vector of finite scores"),
        (lambda: audited([1.0], [0.0], guesses=3), "guesses"),
        (lambda: audited([1.0] * 9, [0.0] * 9, gaussian=True, delta=0.0), "delta"),
    ],
)
def test_wrong_arguments_are_named(call, words):
    with pytest.raises(InputError, match=words):
        call()
