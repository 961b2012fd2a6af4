"""Disputed labels are counted by hand, planted wrong ones are moved out, and the second training never sees them."""

import numpy as np
import pytest
import torch

from sfumato.errors import InputError
from sfumato.students import _cleansing as cleansing
from sfumato.students._cleansing import Disputes, PATEPlusPlus, most_disputed
from sfumato.students._coteaching import PATEPlus
from sfumato.students._gan import Batch

CLASSES, ROWS, WRONG = 4, 200, 50
SMALL = {"network": "mlp", "widths": (24,), "epochs": 12, "batch_size": 20, "noise_rate": 0.25}


def scores(*classes):
    """Scores whose largest is at the given classes."""
    return torch.eye(CLASSES)[list(classes)]


def batch(rows, labels, epoch):
    return Batch(torch.tensor(rows), torch.tensor(labels), epoch, 0)


def planted(seed=0):
    """Images with one bright band, which is the class; the wrong labels are known to the test alone."""
    draw = np.random.default_rng(seed)
    y = draw.integers(0, CLASSES, 2 * ROWS)
    x = 0.6 * draw.random((len(y), 1, 4, 4), np.float32)
    x[np.arange(len(y)), 0, y] += 0.3
    wrong = draw.permutation(ROWS)[:WRONG]
    noisy = y[:ROWS].copy()
    noisy[wrong] = (noisy[wrong] + draw.integers(1, CLASSES, WRONG)) % CLASSES
    return x[:ROWS], noisy, x[ROWS:], np.isin(np.arange(ROWS), wrong)


def test_disputed_means_neither_agreed_nor_either_right():
    table = Disputes(4, decay=1.0)
    table([scores(0, 1, 0, 0), scores(1, 1, 1, 1)], batch([3, 2, 1, 0], [2, 2, 0, 1], 1))
    assert table.close().tolist() == [0, 0, 0, 1]


def test_once_an_epoch_and_decayed():
    table = Disputes(2, decay=0.5)
    apart = [scores(0), scores(1)]
    for epoch, row in ((1, 0), (1, 0), (2, 1), (3, 0)):
        table(apart, batch([row], [3], epoch))
    assert table.close().tolist() == [1.25, 0.5]  # 1/4 + 1 and 1/2


def count(decay):
    """Right labels are disputed in epochs 1 to 6, while nothing is learned yet, wrong ones in 6 to 10."""
    table = Disputes(4, decay)
    for epoch in range(1, 11):
        rows = [0, 1] * (epoch <= 6) + [2, 3] * (epoch >= 6)
        size = len(rows)
        table([scores(*[0] * size), scores(*[1] * size)], batch(rows, [3] * size, epoch))
    return table.close()


def moved_of(table, share, groups=None):
    return most_disputed(table, share, np.zeros(len(table), int) if groups is None else groups).tolist()


def test_decay_tells_wrong_labels_from_early_confusion():
    table = count(0.9)
    np.testing.assert_allclose(table, [sum(0.9**e for e in range(4, 10))] * 2 + [sum(0.9**e for e in range(5))] * 2)
    assert moved_of(table, 0.5) == [2, 3]
    assert moved_of(count(1.0), 0.5) == [0, 1]  # without decay
    assert moved_of(-table, 0.5) == [0, 1]  # in inverted order


def test_share_is_rounded_down_and_ties_go_by_position():
    assert moved_of(np.array([1.0, 3.0, 1.0, 0.0]), 0.5) == [0, 1]
    assert moved_of(np.zeros(10), 0.39) == [0, 1, 2]
    assert len(moved_of(np.zeros(100), 0.29)) == 29
    assert moved_of(np.ones(3), 0.0) == []


def test_every_label_loses_the_same_share():
    labels = np.arange(60) % 3
    table = np.where(labels == 2, 5.0, np.arange(60) / 60)  # label 2 is disputed most
    moved = np.array(moved_of(table, 0.3, labels))
    assert np.bincount(labels[moved]).tolist() == [6, 6, 6]
    assert moved[labels[moved] == 1].min() > 40  # its most disputed ones
    assert np.bincount(labels[moved_of(table, 0.3)]).tolist() == [0, 0, 18]  # of all rows alike


@pytest.mark.parametrize("seed", [0, 1])
def test_planted_wrong_labels_are_moved(seed):
    x, noisy, pool, wrong = planted(seed)
    student = PATEPlusPlus(CLASSES, removal=0.25, seed=seed, **SMALL).fit(x, noisy, pool)
    assert np.bincount(noisy[student.moved]).tolist() == (np.bincount(noisy) // 4).tolist()
    moved = np.bincount(student.moved, minlength=ROWS) > 0
    assert moved[wrong].mean() > 1.5 * moved[~wrong].mean()
    inverted = np.bincount(most_disputed(-student.counts, 0.25, noisy), minlength=ROWS) > 0
    assert inverted[wrong].mean() < inverted[~wrong].mean()
    assert np.array_equal(student.moved, most_disputed(student.counts, 0.25, noisy))
    of_all = PATEPlusPlus(CLASSES, removal=0.25, per_class=False, seed=seed, **SMALL).fit(x, noisy, pool)
    assert np.array_equal(of_all.moved, moved_of(of_all.counts, 0.25))
    assert len(of_all.moved) == WRONG


def test_second_training_sees_moved_rows_without_labels(monkeypatch):
    x, noisy, pool, _ = planted()
    calls, train = [], cleansing.train

    def recorded(settings, *arrays, **options):
        calls.append(arrays)
        return train(settings, *arrays, **options)

    monkeypatch.setattr(cleansing, "train", recorded)
    student = PATEPlusPlus(CLASSES, removal=0.3, **SMALL | {"epochs": 2}).fit(x, noisy, pool)
    (_, second) = calls
    kept = np.ones(ROWS, bool)
    kept[student.moved] = False
    assert kept.sum() == ROWS - (np.bincount(noisy) * 3 // 10).sum()
    for got, expected in zip(second, (x[kept], noisy[kept], np.concatenate([pool, x[~kept]])), strict=True):
        assert np.array_equal(got, expected)


def test_nothing_removed_is_pate_plus():
    x, noisy, pool, _ = planted()
    small = SMALL | {"epochs": 3}
    plus = PATEPlus(CLASSES, **small).fit(x, noisy, pool).predict_proba(pool)
    same = PATEPlusPlus(CLASSES, removal=0.0, **small).fit(x, noisy, pool).predict_proba(pool)
    assert np.array_equal(plus, same)
    other = PATEPlusPlus(CLASSES, removal=0.3, **small).fit(x, noisy, pool).predict_proba(pool)
    assert not np.array_equal(plus, other)


@pytest.mark.parametrize(("name", "value"), [("removal", 1.0), ("removal", -0.1), ("decay", 1.1)])
def test_settings_are_checked(name, value):
    with pytest.raises(InputError, match=name):
        PATEPlusPlus(2, **{name: value})
