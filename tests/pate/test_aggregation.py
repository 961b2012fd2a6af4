"""What a changed vote moves, what the noise is, and what each answer costs whatever the votes are."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from sfumato.errors import InputError
from sfumato.pate import _aggregation as aggregation
from sfumato.pate._aggregation import (
    REFUSED,
    ConfidentGNMax,
    GNMax,
    InteractiveGNMax,
    LNMax,
    peaks_above,
)
from sfumato.pate._data_dependent import GRID
from sfumato.pate._votes import count_votes
from sfumato.privacy import accounting
from sfumato.privacy.events import GaussianEvent, LaplaceEvent

KEY = bytes(range(32))
CLOSE = np.tile([13, 10, 7], (40_000, 1))


def every_pair():
    """Counts of four teachers over three classes before and after any one of them votes anew."""
    for before in product(range(3), repeat=4):
        for teacher, vote in product(range(4), range(3)):
            after = [*before[:teacher], vote, *before[teacher + 1 :]]
            yield count_votes(np.array([before, after]).T, 3)


def test_one_teacher_moves_counts_by_the_stated_sensitivities():
    moves = np.array([after - before for before, after in every_pair()])
    peaks = np.array([after.max() - before.max() for before, after in every_pair()])
    assert np.sqrt((moves**2).sum(axis=1)).max() == aggregation.L2_SENSITIVITY
    assert np.abs(moves).sum(axis=1).max() == aggregation.L1_SENSITIVITY
    assert np.abs(peaks).max() == aggregation.MAX_SENSITIVITY
    assert np.sqrt((moves**2).sum(axis=1)).max() > 1, "a sensitivity of 1 would be wrong by sqrt 2"


def test_students_predictions_leave_the_sensitivity_of_the_peak():
    student = np.random.default_rng(0).dirichlet(np.ones(3), 1)
    peaks = [[peaks_above(counts[None], student)[0] for counts in pair] for pair in every_pair()]
    assert np.abs(np.diff(peaks, axis=1)).max() * GRID == 1


def test_events_hold_the_sensitivity():
    assert LNMax(20.0).events(100) == (LaplaceEvent(10.0, 100),)
    assert GNMax(40.0).events(7)[0].noise_multiplier == pytest.approx(40 / np.sqrt(2))
    events = ConfidentGNMax(200.0, 150.0, 40.0).events(640, 286)
    assert events[0] == GaussianEvent(150.0, 640)
    assert (events[1].noise_multiplier, events[1].count) == (pytest.approx(40 / np.sqrt(2)), 286)
    assert ConfidentGNMax(200.0, 150.0, 40.0).events(640, 1000)[1].count == 640


def test_pure_loss_of_lnmax_is_two_over_the_scale():
    """Known fault elsewhere: the Laplace scale inverted."""
    assert accounting.delta(LNMax(20.0).events(1), 0.1) == 0
    assert accounting.delta(LNMax(20.0).events(1), 0.09) > 0


@pytest.mark.parametrize(
    ("mechanism", "law"),
    [
        (LNMax, lambda noise: "laplace"),
        (GNMax, lambda noise: "gaussian"),
        (lambda noise: ConfidentGNMax(-1000.0, 1.0, noise), lambda noise: "gaussian"),
    ],
)
def test_answers_follow_their_law_and_no_other(exact, mechanism, law):
    noise = 6.0
    seen = np.bincount(mechanism(noise).aggregate(CLOSE, KEY).labels, minlength=3)

    def p_value(scale):
        expected = np.exp(exact.plurality(CLOSE[0], scale, law(scale)))
        return stats.chisquare(seen, expected * len(CLOSE)).pvalue

    assert p_value(noise) > 1e-3
    assert p_value(noise * 2 / 3) < 1e-9
    assert p_value(noise * 3 / 2) < 1e-9
    assert p_value(1 / noise) < 1e-9 or np.isnan(p_value(1 / noise))


def test_threshold_refuses_as_often_as_it_should():
    answers = ConfidentGNMax(15.0, 4.0, 1.0).aggregate(CLOSE, KEY)
    rate = answers.answered / len(CLOSE)
    expected = stats.norm.cdf((13 - 15) / 4)
    spread = np.sqrt(expected * (1 - expected) / len(CLOSE))
    assert abs(rate - expected) < 4 * spread
    assert abs(rate - stats.norm.cdf((13 - 15) / 6)) > 4 * spread


def test_refused_queries_cost_as_much_as_answered_ones():
    mechanism = ConfidentGNMax(1e6, 10.0, 5.0)
    answers = mechanism.aggregate(np.array([[9, 1]] * 50), KEY)
    assert (answers.labels == REFUSED).all()
    assert answers.asked == 50
    assert accounting.epsilon(mechanism.events(answers.asked), 1e-5) > accounting.epsilon(mechanism.events(1), 1e-5)


def test_cap_on_answers_stops_asking():
    votes = np.array([[9, 1], [5, 5], [9, 1], [9, 1]])
    answers = ConfidentGNMax(8.0, 0.01, 0.01).aggregate(votes, KEY, max_answers=2)
    assert answers.labels.tolist() == [0, REFUSED, 0, REFUSED]
    assert (answers.asked, answers.answered) == (3, 2)
    every = ConfidentGNMax(8.0, 0.01, 0.01).aggregate(votes, KEY, max_answers=9)
    assert (every.asked, every.answered) == (4, 3)


def test_student_labels_what_it_is_sure_of():
    votes = np.array([[9, 1], [9, 1], [1, 9]])
    student = np.array([[0.95, 0.05], [0.6, 0.4], [0.9, 0.1]])
    answers = InteractiveGNMax(5.0, 0.01, 0.01, student_confidence=0.9).aggregate(votes, KEY, student=student)
    assert answers.labels.tolist() == [0, REFUSED, 1]
    assert (answers.answered, answers.reinforced, answers.asked) == (1, 1, 3)
    capped = InteractiveGNMax(5.0, 0.01, 0.01).aggregate(votes[::-1], KEY, max_answers=1, student=student[::-1])
    assert capped.labels.tolist() == [1, REFUSED, REFUSED]
    assert capped.reinforced == 0


def test_noise_depends_on_key_votes_and_mechanism():
    votes = np.random.default_rng(0).multinomial(20, [0.4, 0.3, 0.3], 200)
    first = GNMax(20.0).aggregate(votes, KEY).labels
    assert (first == GNMax(20.0).aggregate(votes.astype(float), KEY).labels).all()
    assert (first != GNMax(20.0).aggregate(votes, bytes(32)).labels).any()
    assert (GNMax(20.0).aggregate(votes).labels != GNMax(20.0).aggregate(votes).labels).any()


def test_threshold_and_answers_draw_apart():
    """One stream for both would tell, by a label, how close the largest count came to the threshold."""
    votes = np.tile([10, 10], (20_000, 1))
    open_door = ConfidentGNMax(-1000.0, 10.0, 10.0).aggregate(votes, KEY).labels
    passed = ConfidentGNMax(10.0, 10.0, 10.0).aggregate(votes, KEY).labels != REFUSED
    assert abs(np.corrcoef(open_door, passed)[0, 1]) < 0.03


@pytest.mark.parametrize(
    ("make", "fragment"),
    [
        (lambda: LNMax(0.0), "scale"),
        (lambda: LNMax(scale="20"), "scale"),
        (lambda: GNMax(-1.0), "noise_stddev"),
        (lambda: GNMax(float("nan")), "noise_stddev"),
        (lambda: ConfidentGNMax(float("inf"), 1.0, 1.0), "threshold"),
        (lambda: ConfidentGNMax(200.0, 0.0, 40.0), "threshold_stddev"),
        (lambda: InteractiveGNMax(5.0, 1.0, 1.0, student_confidence=2.0), "student_confidence"),
        (lambda: InteractiveGNMax(5.0, 1.0, 1.0).aggregate(CLOSE), "student"),
        (lambda: InteractiveGNMax(5.0, 1.0, 1.0).aggregate(CLOSE[:1], student=np.array([[2, 0, 0]])), "probabilities"),
        (lambda: ConfidentGNMax(5.0, 1.0, 1.0).aggregate(CLOSE[:2], max_answers=0), "max_answers"),
        (lambda: GNMax(1.0).aggregate(np.array([[3, -1]])), "votes[0, 1]"),
    ],
)
def test_wrong_arguments_are_refused(make, fragment):
    with pytest.raises(InputError) as error:
        make()
    assert fragment in str(error.value)
    assert "\n" not in str(error.value)
