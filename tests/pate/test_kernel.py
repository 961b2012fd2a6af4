"""Kernel teachers: one record reaches one teacher; the numbers are those of the formula."""

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge

from sfumato.errors import InputError
from sfumato.pate import _kernel as kernel
from sfumato.pate._images import load_images
from sfumato.pate._kernel import KernelEnsemble, KernelTeacher
from sfumato.pate._teachers import assign


@pytest.fixture(scope="module")
def images():
    x = np.random.default_rng(0).random((60, 1, 28, 28)).astype(np.float32)
    y = np.arange(60) % 3
    x[y == 1, :, :14] *= 0.2
    x[y == 2, :, :, :14] *= 0.2
    return x, y


def test_a_teacher_is_kernel_ridge_regression():
    x, y = np.random.default_rng(0).random((12, 5)), np.arange(12) % 3
    squares = ((x[:, None] - x[None]) ** 2).sum(2)
    peer = KernelRidge(alpha=0.01, kernel="rbf", gamma=1 / np.median(squares)).fit(x, np.eye(3)[y] - 1 / 3)
    queries = np.random.default_rng(1).random((40, 5))
    own = KernelTeacher(3).fit(x, y)
    assert own.predict(queries).tolist() == peer.predict(queries).argmax(1).tolist()


@pytest.mark.parametrize("change", ["replaced", "removed"])
def test_one_record_moves_one_teacher(images, change):
    x, y = images
    ensemble = KernelEnsemble(6, 3)
    before = ensemble.fit(x, y, range(60)).trained.models
    if change == "replaced":
        x, y, ids = x.copy(), y.copy(), list(range(60))
        x[7], y[7] = 0.0, 2
    else:
        x, y, ids = np.delete(x, 7, 0), np.delete(y, 7), [i for i in range(60) if i != 7]
    after = ensemble.fit(x, y, ids).trained.models
    moved = [not np.array_equal(a.weights, b.weights) for a, b in zip(before, after, strict=True)]
    assert np.flatnonzero(moved).tolist() == assign([7], 6).tolist()


def test_teachers_without_records_vote_too(images):
    x, y = images
    votes = KernelEnsemble(40, 3).fit(x[:2], y[:2], range(2)).votes(x)
    assert (votes.sum(1) == 40).all()


def test_the_order_of_rows_decides_nothing(images):
    x, y = images
    order = np.random.default_rng(2).permutation(60)
    ensemble = KernelEnsemble(4, 3)
    one, other = ensemble.fit(x, y, range(60)), ensemble.fit(x[order], y[order], order)
    assert (one.predict(x) == other.predict(x)).all()


def test_blank_images_and_wrong_shapes(images):
    x, y = images
    blank = np.zeros_like(x)
    assert KernelEnsemble(2, 3).fit(blank, y, range(60)).votes(blank).sum() == 120
    with pytest.raises(InputError, match="finite images of the shape"):
        KernelEnsemble(2, 3).fit(x[:, :, :14], y, range(60))
    with pytest.raises(InputError, match="ridge"):
        KernelEnsemble(2, 3, ridge=0.0)


@pytest.mark.data
def test_teachers_of_few_real_images_agree(data_dir):
    images = load_images("fashion_mnist", data_dir)
    trained = KernelEnsemble(20, 10).fit(images.train_x[:4800], images.train_y[:4800], range(4800))
    votes = trained.votes(images.train_x[4800:5800])
    assert (votes.argmax(1) == images.train_y[4800:5800]).mean() > 0.84


def test_a_teacher_of_too_many_records_is_refused(images, monkeypatch):
    monkeypatch.setattr(kernel, "_MOST_RECORDS", 20)
    with pytest.raises(InputError, match="num_teachers to leave at most 20 records to each"):
        KernelEnsemble(2, 3).fit(*images, range(60))
