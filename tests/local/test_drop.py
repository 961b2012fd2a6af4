"""Losses against hand computation, the first-epoch trap, and debiased accuracy."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from sfumato.errors import InputError
from sfumato.local._collection import Collection
from sfumato.local._drop import Agreement, Epoch, Objective, Selection, forward_loss, targets
from sfumato.nn._topology import Topology
from sfumato.randomizers._subset import SubsetSelection

ARCS = np.array([[0, 1, 1, 0, 0], [1, 0, 1, 0, 0], [1, 1, 0, 1, 0], [0, 0, 1, 0, 0], [0, 0, 0, 0, 0]], np.float32)
STEP = ARCS / np.sqrt(np.outer([2, 2, 3, 1, 1], [2, 2, 3, 1, 1]))
FLIP = np.array([[0.7, 0.3], [0.3, 0.7]])
SCORES = torch.tensor([[1.0, 0.0], [0.0, 2.0], [0.5, 0.5], [3.0, 0.0], [0.0, 0.0]])
P = SCORES.softmax(1).double().numpy()


def collection(transition=FLIP, labels=(0, 1, 0, -1, 1), train=(1, 1, 0, 0, 1), val=(0, 0, 1, 0, 0)):
    masks = (np.array(mask, bool) for mask in (train, val))
    return Collection(sp.csr_matrix(ARCS), None, None, np.array(labels), *masks, transition)


def objective(loss, steps, got=None):
    got = got or collection()
    return Objective(loss, got, Topology(got.adjacency), steps)(SCORES).item()


def test_targets_are_the_neighborhood_majority_of_training_and_validation_reports():
    """Of node 0: reports 1 (weight 1/2) and 0 of the validation node (1/sqrt 6); the isolated node has no target."""
    assert targets(collection(), 1).tolist() == [1, 0, -1, -1, -1]
    lonely = {"labels": (0, -1, 1, -1, 1), "train": (1, 0, 0, 0, 1)}
    assert targets(collection(**lonely), 1).tolist() == [1, -1, -1, -1, -1]
    lonely["labels"] = (0, -1, -1, -1, 1)
    assert targets(collection(**lonely, val=(0,) * 5), 1).tolist() == [-1] * 5
    wanted = (STEP @ STEP)[:, :3] @ np.array([[1, 0], [0, 1], [0, 1]])
    assert targets(collection(labels=(0, 1, 1, -1, 1)), 2).tolist() == [*wanted.argmax(1)[:2], -1, -1, -1]
    assert targets(collection(), 0).tolist() == [0, 1, -1, -1, 1]


def test_targets_of_sets_smooth_unbiased_labels():
    randomizer = SubsetSelection(4, 1.0, size=2)
    sets = randomizer.sets.tolist()
    labels = [sets.index(pair) for pair in ([0, 1], [1, 3], [1, 2])]
    got = collection(randomizer.transition, (*labels, -1, -1), (1, 1, 1, 0, 0), (0,) * 5)
    assert targets(got, 1)[:3].tolist() == [1, 1, 1]
    assert targets(got, 0)[1] in (1, 3)


def test_each_loss_is_its_formula():
    plain = -np.log([P[0, 0], P[1, 1], P[4, 1]]).mean()
    assert objective("cross-entropy", 0) == pytest.approx(plain, rel=1e-5)
    forward = -np.log([(P @ FLIP)[0, 0], (P @ FLIP)[1, 1], (P @ FLIP)[4, 1]]).mean()
    assert objective("forward", 3) == pytest.approx(forward, rel=1e-5)
    assert objective("drop", 0) == pytest.approx(forward, rel=1e-5)
    smoothed = STEP @ P @ FLIP
    shares = np.exp(smoothed) / np.exp(smoothed).sum(1, keepdims=True)
    assert objective("drop", 1) == pytest.approx(-np.log([shares[0, 1], shares[1, 0]]).mean(), rel=1e-5)
    assert len({round(objective(*case), 4) for case in (("cross-entropy", 1), ("forward", 1), ("drop", 1))}) == 3


def test_drop_takes_means_over_neighbors_where_asked():
    """Node 2 hears 0 of a neighbor and 1 of its leaf: a tie in the mean, which class 0 wins; else the leaf has more weight."""
    got = collection(labels=(0, -1, 0, 1, -1), train=(0, 0, 1, 0, 0), val=(1, 0, 0, 1, 0))
    assert [targets(got, 1, mean=mean)[2] for mean in (False, True)] == [1, 0]
    mean = ARCS / np.array([2, 2, 3, 1, 1])[:, None]
    scores = SCORES.clone().requires_grad_()
    Objective("drop", got, Topology(got.adjacency), 2, mean=True)(scores).backward()
    plain = SCORES.double().requires_grad_()
    smoothed = torch.from_numpy(mean @ mean).double() @ plain.softmax(1) @ torch.from_numpy(FLIP)
    wanted = int(targets(got, 2, mean=True)[2])
    torch.nn.functional.cross_entropy(smoothed[2:3], torch.tensor([wanted])).backward()
    assert torch.allclose(scores.grad.double(), plain.grad, atol=1e-6)


def test_drop_learns_through_its_hops():
    got, scores = collection(), SCORES.clone().requires_grad_()
    Objective("drop", got, Topology(got.adjacency), 1)(scores).backward()
    assert scores.grad[2].abs().sum() > 0, "a neighbor of training nodes that is none itself"
    assert scores.grad[4].abs().sum() == 0


def test_forward_loss_reads_the_column_of_the_report():
    skew = torch.tensor([[0.9, 0.1, 0.0], [0.2, 0.3, 0.5]])
    scores = torch.tensor([[0.0, math.log(3)]])
    for report, chance in enumerate((0.375, 0.25, 0.375)):
        assert forward_loss(scores, skew, torch.tensor([report])).item() == pytest.approx(-math.log(chance), rel=1e-5)


def kept(rule, epochs, ceiling=0.3):
    selection, best = Selection(rule, ceiling), None
    for epoch in epochs:
        if selection.replaces(best, epoch):
            best = epoch
    return best.number


LEARNING = [Epoch(i + 1, 2.0 - 0.1 * i, 0.15 + 0.02 * i, 0.15 + 0.02 * i) for i in range(8)]


def test_the_published_rule_locks_onto_the_first_epoch():
    """An untrained network agrees too often by luck: nothing may replace it, however well it learns."""
    assert kept("published", LEARNING) == 8
    lucky = [LEARNING[0]._replace(val=0.31), *LEARNING[1:]]
    assert kept("published", lucky) == 1
    assert kept("algorithm-4", lucky) == kept("debiased", lucky) == 8


def test_the_published_rule_wants_all_three_and_its_caps():
    first, good = LEARNING[0], LEARNING[5]
    assert kept("published", [first, good]) == 6
    for worse in (
        good._replace(loss=2.0),
        good._replace(val=0.15),
        good._replace(train=0.15),
        good._replace(val=0.301),
        good._replace(train=0.316),
    ):
        assert kept("published", [first, worse]) == 1
    assert kept("published", [first, good._replace(train=0.314)]) == 6


def test_other_rules():
    over = LEARNING[7]._replace(loss=0.1, train=0.5)
    assert kept("algorithm-4", [LEARNING[0], LEARNING[1], over]) == 2
    assert kept("algorithm-4", [over, over._replace(number=9, loss=0.05)]) == 9
    assert kept("debiased", [LEARNING[0], LEARNING[1], over]) == 8
    assert kept("last", [over, LEARNING[0]]) == 1
    with pytest.raises(InputError, match="select"):
        Selection("best", 0.3)


def test_the_interval_of_an_accuracy_stays_within_its_range():
    agreement = Agreement(np.array([[0.6, 0.4], [0.4, 0.6]]))
    value, low, high = agreement.accuracy(0.62, 50)
    assert (round(value, 9), high) == (1.1, 1.0)
    assert 0 < low < 1
    value, low, high = agreement.accuracy(0.3, 50)
    assert (round(value, 9), low) == (-0.5, 0.0)
    assert 0 < high < 1


def test_debiased_accuracy_recovers_the_accuracy_with_its_interval():
    generator = np.random.default_rng(0)
    for randomizer in (SubsetSelection(5, 1.0, size=1), SubsetSelection(5, 1.0, size=2)):
        agreement, true = Agreement(randomizer.transition), generator.integers(5, size=2000)
        inside, estimates = 0, []
        chances = randomizer.transition.cumsum(axis=1)
        for _ in range(200):
            predicted = np.where(generator.random(2000) < 0.6, true, (true + generator.integers(1, 5, 2000)) % 5)
            reports = (generator.random((2000, 1)) > chances[true]).sum(axis=1)
            value, low, high = agreement.accuracy(agreement.share(predicted, reports), 2000)
            estimates.append(value)
            inside += low <= 0.6 <= high
        assert np.mean(estimates) == pytest.approx(0.6, abs=0.015)
        assert 180 <= inside <= 199
