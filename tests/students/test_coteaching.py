"""Which rows teach which network, by hand; every fault of the published code in its own test."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from sfumato.errors import InputError
from sfumato.students._coteaching import CoTeaching, PATEPlus, disagreeing, keep_rate, peer_losses, small_loss
from sfumato.students._gan import Batch

DEFAULT = PATEPlus(2, noise_rate=0.0)
PUBLISHED = PATEPlus(2, noise_rate=0.0, as_published=True)


def batch(labels, rows=None, epoch=1, step=0):
    labels = torch.tensor(labels)
    return Batch(torch.arange(1, len(labels) + 1) if rows is None else torch.tensor(rows), labels, epoch, step)


def one_score(*margins):
    """Scores [rows, 2]: the margin of class 1 over class 0."""
    return torch.stack([torch.zeros(len(margins)), torch.tensor(margins)], 1).requires_grad_()


def learned_from(loss, scores):
    """Rows whose scores the loss reads."""
    (grad,) = torch.autograd.grad(loss, scores, allow_unused=True, retain_graph=True)
    return [] if grad is None else grad.abs().sum(1).nonzero()[:, 0].tolist()


@pytest.mark.parametrize(
    ("epoch", "noise_rate", "ramp", "expected"),
    [
        (1, 0.3, 15, 0.98),
        (6, 0.25, 15, 0.9),
        (15, 0.3, 15, 0.7),
        (16, 0.3, 15, 0.7),
        (5, 0.4, 10, 0.8),
        (9, 0.0, 15, 1.0),
    ],
)
def test_schedule(epoch, noise_rate, ramp, expected):
    assert math.isclose(keep_rate(epoch, noise_rate, ramp), expected)


def test_disagreement():
    assert disagreeing(one_score(1.0, -1.0, 2.0, -3.0), one_score(2.0, 1.0, -1.0, -1.0)).tolist() == [1, 2]


def test_smallest_losses_by_label_not_by_confidence():
    scores, labels = one_score(5.0, 1.0, -4.0, 2.0), torch.tensor([0, 1, 0, 1])
    assert small_loss(scores, labels, 0.5).tolist() == [2, 3]
    assert small_loss(scores, labels, 0.7).tolist() == [2, 3, 1]  # at least 2.8 rows


@pytest.mark.parametrize(("rate", "count"), [(0.55, 55), (0.7, 70), (1 - 0.3, 70), (0.981, 99), (1.0, 100), (0.001, 1)])
def test_at_least_the_share_and_no_rounding_error(rate, count):
    assert len(small_loss(torch.zeros(100, 2), torch.zeros(100, dtype=torch.int64), rate)) == count


def test_each_network_learns_from_its_peers_choice():
    first, second = one_score(9.0, 8.0, -1.0, -2.0), one_score(-2.0, -1.0, 9.0, 8.0)
    own, other = peer_losses([first, second], torch.ones(4, dtype=torch.int64), 0.5)
    assert learned_from(own, first) == [2, 3]  # small losses of the second, large ones of its own
    assert learned_from(other, second) == [0, 1]
    assert learned_from(own, second) == learned_from(other, first) == []
    expected = functional.cross_entropy(first[2:], torch.ones(2, dtype=torch.int64))
    torch.testing.assert_close(own, expected)


def test_coteaching_takes_all_rows_and_fewer_later():
    settings = CoTeaching(2, noise_rate=0.5)
    scores = [one_score(1.0, 2.0, 3.0, 4.0), one_score(1.0, 2.0, 3.0, 4.0)]
    early = settings.supervised(scores, batch([1, 1, 1, 1], epoch=1))
    assert learned_from(early[0], scores[0]) == [0, 1, 2, 3]
    late = settings.supervised(scores, batch([1, 1, 1, 1], epoch=15))
    assert learned_from(late[0], scores[0]) == [2, 3]


def test_pate_plus_takes_the_share_of_disagreeing_rows():
    scores = [one_score(1.0, 2.0, 3.0, 4.0, 5.0), one_score(1.0, -2.0, -3.0, -4.0, -5.0)]
    losses = PATEPlus(2, noise_rate=0.5).supervised(scores, batch([1, 1, 1, 1, 1], epoch=20))
    assert learned_from(losses[1], scores[1]) == [3, 4]  # easiest half of rows 1 to 4 for the first
    assert learned_from(losses[0], scores[0]) == [1, 2]  # for the second


def test_fault_1_softmax_taken_twice():
    scores, given = [one_score(10.0), one_score(-10.0)], batch([1])
    assert DEFAULT.supervised(scores, given)[0] < 1e-3
    published = PUBLISHED.supervised(scores, given)[0].item()
    assert math.isclose(published, math.log(1 + math.exp(-1)), rel_tol=1e-3)  # no score gets below this


@pytest.mark.parametrize("kind", [CoTeaching, PATEPlus])
def test_fault_2_mean_divided_by_the_number_again(kind):
    scores, given = [one_score(1e-4, 1e-4), one_score(-1e-4, -1e-4)], batch([1, 1])
    losses = [kind(2, noise_rate=0.0, as_published=flag).supervised(scores, given)[0].item() for flag in (False, True)]
    np.testing.assert_allclose(losses, [math.log(2), math.log(2) / 2], rtol=1e-3)


def test_fault_3_position_0_costs_the_last_row():
    scores = [one_score(1.0, 2.0, 3.0), one_score(-1.0, -2.0, -3.0)]
    with_0, without = batch([1, 1, 1], rows=[7, 0, 5]), batch([1, 1, 1], rows=[7, 8, 5])
    assert learned_from(DEFAULT.supervised(scores, with_0)[0], scores[0]) == [0, 1, 2]
    assert learned_from(PUBLISHED.supervised(scores, with_0)[0], scores[0]) == [0, 1]
    assert learned_from(PUBLISHED.supervised(scores, without)[0], scores[0]) == [0, 1, 2]


def test_fault_4_agreement_teaches_nothing():
    scores, given = [one_score(1.0, -2.0), one_score(2.0, -1.0)], {"labels": [1, 1]}
    losses = DEFAULT.supervised(scores, batch(**given))
    assert [loss.item() for loss in losses] == [0.0, 0.0]
    assert learned_from(losses[0], scores[0]) == []
    for epoch, step, rows in ((1, 80, [0, 1]), (62, 80, [0, 1]), (63, 80, []), (600, 0, [0, 1])):
        loss = PUBLISHED.supervised(scores, batch(**given, epoch=epoch, step=step))[0]
        assert learned_from(loss, scores[0]) == rows


def test_fault_5_share_rounded_down():
    scores, labels = one_score(1.0, 2.0, 3.0), torch.ones(3, dtype=torch.int64)
    assert len(small_loss(scores, labels, 0.5)) == 2
    assert len(small_loss(scores, labels, 0.5, as_published=True)) == 1
    assert len(small_loss(scores, labels, 0.3)) == 1
    assert len(small_loss(scores, labels, 0.3, as_published=True)) == 3  # none becomes all


@pytest.mark.parametrize(("name", "value"), [("noise_rate", 1.0), ("noise_rate", -0.1), ("ramp", 0)])
def test_settings_are_checked(name, value):
    with pytest.raises(InputError, match=name):
        PATEPlus(2, **{name: value})
