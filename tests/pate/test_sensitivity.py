"""Local sensitivities against every histogram within reach."""

import numpy as np
import pytest

from sfumato.errors import InputError
from sfumato.pate._data_dependent import (
    charged,
    gaussian_log_q,
    gaussian_renyi,
    laplace_log_q,
    laplace_renyi,
    log_tilted_weights,
)
from sfumato.pate._sensitivity import (
    _LaplaceLoss,
    conditions,
    confident_local_sensitivities,
    laplace_local_sensitivities,
    local_sensitivities,
)

GAUSSIAN = [(8, 3, 1.0, 2.0), (6, 3, 0.7, 1.5), (9, 2, 3.0, 2.0), (5, 4, 2.0, 2.0), (8, 3, 5.0, 4.0)]
LAPLACE = [
    (teachers, classes, scale, order)
    for teachers, classes in ((12, 2), (11, 3), (7, 4), (2, 2), (1, 3))
    for scale in (0.4, 1.0, 2.5, 8.0)
    for order in (1.1, 2.0, 8.0, 60.0)
]
BOUND = {"gaussian": local_sensitivities, "laplace": laplace_local_sensitivities}


def cost(law, noise, order):
    """The bound on the divergence of one answer, as a function of counts."""

    def gaussian(rows):
        return gaussian_renyi(gaussian_log_q(rows, noise), noise, np.array([order]))[:, 0]

    def laplace(rows):
        return laplace_renyi(laplace_log_q(rows, noise), 2 / noise, np.array([order]))[:, 0]

    return {"gaussian": gaussian, "laplace": laplace}[law]


def ceiling(law, noise, order):
    return order / noise**2 if law == "gaussian" else min(2 / noise, 2 * order / noise**2)


@pytest.mark.parametrize(
    ("law", "teachers", "classes", "noise", "order"),
    [("gaussian", *values) for values in GAUSSIAN] + [("laplace", *values) for values in LAPLACE],
)
def test_no_histogram_within_reach_moves_more(exact, law, teachers, classes, noise, order):
    rows, truth = exact.changes(teachers, classes, cost(law, noise, order))
    bound = BOUND[law](rows, noise, order)
    slack = 1e-12 * ceiling(law, noise, order)
    assert (bound + slack >= truth).all()
    assert (np.diff(bound, axis=1) >= -slack).all()


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_a_bound_that_looks_one_vote_less_far_fails(exact, law):
    rows, truth = exact.changes(8, 3, cost(law, 1.0, 2.0))
    bound = BOUND[law](rows, 1.0, 2.0)
    assert (bound[:, :-1] < truth[:, 1:] - 1e-9).any()


@pytest.mark.parametrize("order", [2.0, 8.0, 60.0])
@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_bound_of_lnmax_is_attained(exact, scale, order):
    rows, truth = exact.changes(12, 2, cost("laplace", scale, order))
    bound = laplace_local_sensitivities(rows, scale, order)
    unanimous = rows.max(axis=1) == 12
    assert bound[unanimous, 0] == pytest.approx(truth[unanimous, 0], rel=1e-5)
    assert (0.999 * bound[unanimous, 0] < truth[unanimous, 0]).all()


def published_laplace(counts, scale, order, *, ranked_first):
    """Published code: the step of the extremal counts at each distance, as long as the winner is not overtaken."""
    ranked = np.sort(counts)[::-1]
    first, second = (ranked if ranked_first else counts)[:2]
    move = np.eye(len(counts), dtype=int)[1] - np.eye(len(counts), dtype=int)[0]
    reached = ranked + move * np.arange(counts.sum() + 1)[:, None]
    steps = np.diff(cost("laplace", scale, order)(reached))
    return np.maximum.accumulate(np.where(first >= second + np.arange(len(steps)), steps, 0))


def test_published_sensitivities_of_lnmax_miss_some(exact):
    """Known faults elsewhere: 0 at every distance unless class 0 wins, for the counts are not sorted first; 0 in a tie."""
    rows, truth = exact.changes(10, 3, cost("laplace", 1.0, 2.0))
    unsorted, ranked = (
        np.array([published_laplace(row, 1.0, 2.0, ranked_first=first) for row in rows]) for first in (False, True)
    )
    gaps = np.diff(np.sort(rows, axis=1))[:, -1]
    behind = (rows[:, 0] < rows[:, 1]) & (gaps >= 4)
    assert (unsorted[behind] == 0).all()
    assert (truth[behind].max(axis=1) > 0.1).all()
    assert (ranked[behind].max(axis=1) > 0.1).all()
    assert (ranked[gaps == 0] == 0).all()
    assert (truth[gaps == 0].max(axis=1) > 0.1).all()


def test_one_vote_moves_log_q_of_lnmax_by_the_step(exact):
    for classes in (2, 3, 4):
        _, truth = exact.changes(9, classes, lambda rows: laplace_log_q(rows, 1.5))
        step = _LaplaceLoss(1.5, 9, 2.0).step
        assert step < 2 / 1.5
        assert truth.max() <= step * (1 + 1e-6)
        if classes == 2:
            assert truth.max() > 0.999 * step


@pytest.mark.parametrize("scale", [0.3, 1.0, 5.0, 20.0, 100.0])
@pytest.mark.parametrize("order", [1.05, 2.0, 8.0, 60.0, 500.0])
def test_lnmax_needs_no_conditions(scale, order):
    """C5, C6, and no jump where the ceiling is met: on a grid, what is proved."""
    loss = _LaplaceLoss(scale, 250, order)
    log_q = -np.geomspace(60, -loss.log_q0, 4000)
    slack = 1e-12 * loss.ceiling
    assert (np.diff(loss(log_q)) >= -slack).all()
    assert loss(np.array(loss.log_q0 - 1e-9)) == pytest.approx(loss.ceiling, rel=1e-6)
    assert (np.diff(loss.rise(log_q[log_q <= loss.log_q1])) >= -slack).all()
    assert np.diff(loss.rise(log_q)).min() < -1e-6 * loss.ceiling, "beyond q_1 steps shrink: the test would see it"


def test_extreme_noise_of_lnmax():
    votes = np.array([[100_000, 0], [50_000, 50_000]])
    little = laplace_local_sensitivities(votes[:, ::-1] // 1000, 2.0**-10, 8.0)
    assert little[0, 0] == 0
    assert little.max() == pytest.approx(2048 * 2 / 7, rel=1e-5)  # c^l q decides from ln q_0 = -2048 down to -4096
    much = laplace_local_sensitivities(votes // 1000, 2.0**15, 8.0)
    assert (much == 0).all()


@pytest.mark.parametrize(("threshold", "spread"), [(5.0, 2.0), (3.0, 4.0)])
@pytest.mark.parametrize(("teachers", "classes", "noise", "order"), GAUSSIAN)
def test_confident_bound_covers_the_probability_of_an_answer(exact, teachers, classes, noise, order, threshold, spread):
    def value(rows):
        answers = gaussian_renyi(gaussian_log_q(rows, noise), noise, np.array([order]))[:, 0]
        return charged(answers, log_tilted_weights(rows.max(axis=1), threshold, spread, order), order)

    rows, truth = exact.changes(teachers, classes, value)
    bound = confident_local_sensitivities(rows, rows.max(axis=1), threshold, spread, noise, order)
    assert (bound + 1e-12 >= truth).all()


def test_published_weights_miss_that_probability(exact):
    threshold, spread, noise, order = 5.0, 2.0, 5.0, 4.0

    def value(rows):
        answers = gaussian_renyi(gaussian_log_q(rows, noise), noise, np.array([order]))[:, 0]
        return charged(answers, log_tilted_weights(rows.max(axis=1), threshold, spread, order), order)

    rows, truth = exact.changes(8, 3, value)
    weights = log_tilted_weights(rows.max(axis=1), threshold, spread, order)
    assert (np.exp(weights)[:, None] * local_sensitivities(rows, noise, order) < truth).any()


@pytest.mark.parametrize(("law", "noise"), [("gaussian", 40.0), ("laplace", 20.0)])
def test_classes_are_sorted_first(law, noise):
    """Known fault elsewhere: with unsorted counts the sensitivity is 0 unless class 0 wins."""
    winner_last = BOUND[law](np.array([[30, 20, 200]]), noise, 14.0)
    assert winner_last == pytest.approx(BOUND[law](np.array([[200, 30, 20]]), noise, 14.0), rel=1e-12)
    assert winner_last[0, 60] > 0


def test_published_local_sensitivities():
    few = local_sensitivities(np.array([[10, 0, 0]]), 0.5, 1.5)[0]
    assert few == pytest.approx([3.13507e-17, 1.60180e-8, 5.90684e-3, *[5.99981308] * 7], rel=1e-5)
    many = local_sensitivities(np.array([[1000, 500, 300, 200, 0]]), 250.0, 10.0)[0]
    assert (many[:298] == 0).all()
    assert many[298:301] == pytest.approx([2.777e-7, 2.109e-6, 2.731e-6], rel=3e-4)
    assert many[300:] == pytest.approx(many[300])


def test_published_conditions():
    assert conditions(20.0, 10, 25.0) == (True, False)
    assert conditions(30.0, 10, 25.0) == (True, True)
    with pytest.raises(InputError, match="C5 and C6"):
        local_sensitivities(np.array([[100, *[0] * 9]]), 20.0, 25.0)


def test_extreme_orders_stay_finite():
    """e^((a - 1) c) is above every float here; the sum is at most a whole step and a whole answer."""
    rows = np.array([[20, 5, 0], [10, 9, 6]])
    for noise, order in ((0.1, 14.0), (2.0**-10, 14.0), (0.01, 1000.0)):
        bound = confident_local_sensitivities(rows, rows.max(axis=1), 15.0, 2.0, noise, order)
        assert (bound <= 2 * order / noise**2).all()
