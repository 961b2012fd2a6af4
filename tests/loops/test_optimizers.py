"""Adam in C and in NumPy has the same bits, at any number of threads, and is Adam."""

import numpy as np
import pytest
import torch

from sfumato.loops import _native, _optimizers
from sfumato.loops._optimizers import adam_step

HOW = {"decay": 0.02, "momentum": 0.9, "rate": 0.1}


def vectors(size, kind):
    random = np.random.default_rng(0)
    flat, grad, mean, square = random.normal(size=(4, size)).astype(kind)
    return flat, grad, mean, square**2


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("size", [0, 1, 7, 1000, 2**15 + 9])
def test_both_give_the_same_bits(size, kind, threads, monkeypatch):
    if _native.library() is None:
        pytest.skip("no compiled library here")
    monkeypatch.setattr(_native, "threads", lambda: threads)
    for decay in (0.0, 0.02):
        found, expected = vectors(size, kind), vectors(size, kind)
        for steps in (1, 2, 500):
            for one in (found, expected):
                one[1][:3] = [np.nan, np.inf, -1e-30][:size]
            adam_step(*found, **HOW | {"decay": decay}, steps=steps)
            with monkeypatch.context() as patched:
                patched.setattr(_optimizers, "_compiled", lambda: None)
                adam_step(*expected, **HOW | {"decay": decay}, steps=steps)
            for one, other in zip(found, expected, strict=True):
                assert np.array_equal(one, other, equal_nan=True)
                assert not size or one.tobytes() == other.tobytes() or np.isnan(one[0])


def test_it_is_adam():
    random = np.random.default_rng(1)
    parameter = torch.nn.Parameter(torch.from_numpy(random.normal(size=50)))
    flat, grad, mean, square = parameter.detach().numpy().copy(), *np.zeros((3, 50))
    peer = torch.optim.Adam([parameter], lr=0.1, weight_decay=0.02)
    for step in range(1, 30):
        grad[:] = random.normal(size=50)
        parameter.grad = torch.from_numpy(grad.copy())
        adam_step(flat, grad, mean, square, **HOW, steps=step)
        peer.step()
    assert not grad.any()
    np.testing.assert_allclose(flat, parameter.detach().numpy(), rtol=1e-12)


def test_other_vectors_are_refused():
    flat, grad, mean, square = vectors(6, np.float64)
    for wrong in (grad[:3], grad.astype(np.float32), vectors(12, np.float64)[1][::2]):
        with pytest.raises(TypeError, match="four vectors"):
            adam_step(flat, wrong, mean, square, **HOW, steps=1)
    with pytest.raises(TypeError, match="four vectors"):
        adam_step(*(one.astype(np.int64) for one in (flat, grad, mean, square)), **HOW, steps=1)
