"""Clipped gradients of single examples in convolutional networks: one record's share, and that no other record moves it."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from soundness_examples import clipped, per_example
from torch import nn

from sfumato.bounded import _clip_kernel as clip_kernel
from sfumato.bounded import _example_gradients as example_gradients
from sfumato.bounded._example_gradients import clipped_example_sum
from sfumato.errors import InputError
from sfumato.nn._models import MLP


def small():
    return nn.Sequential(
        nn.Conv2d(1, 4, 5, stride=2, padding=2), nn.ReLU(), nn.MaxPool2d(2, 1), nn.Conv2d(4, 6, 3, dilation=2, bias=False),
        nn.ReLU(), nn.Flatten(), nn.Linear(6 * 4, 5), nn.ReLU(), nn.Linear(5, 3),
    )  # fmt: skip


def wide():
    """The size of a network for digits."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, padding=3), nn.Tanh(), nn.MaxPool2d(2, 1), nn.Conv2d(16, 32, 4, 2), nn.Tanh(),
        nn.MaxPool2d(2, 1), nn.Flatten(), nn.Linear(512, 33), nn.Tanh(), nn.Linear(33, 10),
    )  # fmt: skip


MODELS = {"small": (small, (1, 13, 13)), "wide": (wide, (1, 28, 28)), "linear": (lambda: MLP((7, 3)), (7,))}


def build(name, batch=12, scale=1.0, dtype=torch.float32):
    torch.manual_seed(0)
    make, shape = MODELS[name]
    return make().to(dtype), (torch.randn(batch, *shape) * scale).to(dtype), torch.arange(batch) % 3


@pytest.mark.parametrize("clip", [0.01, 0.5, 100.0])
@pytest.mark.parametrize("name", MODELS)
def test_sum_equals_per_example_clipping(name, clip):
    model, x, y = build(name, batch=70, dtype=torch.float64)
    expected = clipped(per_example(model, x, y), clip)
    found = clip * torch.from_numpy(clipped_example_sum(model, x, y, clip)).double() / 2.0**24
    assert torch.allclose(found, expected, rtol=1e-4, atol=1e-5 * float(expected.abs().max()))


def assert_clipped(example_sum):
    """No single record adds more than the clip, however extreme; large ones reach it."""
    for name in ("small", "linear"):
        reached = 0.0
        for scale in (0.0, 1e-30, 1.0, 1e3, 1e10, 3e38, np.inf, np.nan):
            model, x, y = build(name, batch=4, scale=scale)
            for i in range(4):
                norm = sum(step * step for step in example_sum(model, x[i : i + 1], y[i : i + 1], 0.01).tolist())
                assert norm <= 4**24, f"{name}: one record adds {(norm / 4**24) ** 0.5:g} clips"
                reached = max(reached, norm / 4**24)
        assert reached >= 0.99


def test_one_record_never_exceeds_the_clip():
    assert_clipped(clipped_example_sum)


def test_a_clip_by_layer_is_caught(monkeypatch):
    """Planted: each half of the parameters has a clip of its own."""
    real = example_gradients.add_clipped

    def by_half(rows, counted, clip, total):
        half = rows.shape[1] // 2
        real(np.ascontiguousarray(rows[:, :half]), counted, clip, total[:half])
        real(np.ascontiguousarray(rows[:, half:]), counted, clip, total[half:])

    monkeypatch.setattr(example_gradients, "add_clipped", by_half)
    with pytest.raises(AssertionError, match="one record adds"):
        assert_clipped(clipped_example_sum)


def moved(model, x, y):
    """How often other records move what a record adds: whatever they hold, and wherever among them it stands."""
    found = 0
    for i in range(4):
        alone = clipped_example_sum(model, x[i : i + 1], y[i : i + 1], 0.5)
        for batch in (1, 2, 7):
            others = torch.randn(batch, *x.shape[1:]) * 10.0 ** (4 * i)
            others[::4] = [np.nan, np.inf, 0.0, 1.0][i]
            labels = torch.full((batch,), -1)
            others[i % batch], labels[i % batch] = x[i], y[i]
            found += not np.array_equal(clipped_example_sum(model, others, labels, 0.5), alone)
            drawn = torch.arange(batch) % 3
            drawn[i % batch] = -1
            without = clipped_example_sum(model, others, drawn, 0.5)
            drawn[i % batch] = y[i]
            found += not np.array_equal(clipped_example_sum(model, others, drawn, 0.5) - without, alone)
    return found


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", MODELS)
def test_no_other_record_moves_what_a_record_adds(name, threads):
    """Bit for bit: the assumption."""
    torch.set_num_threads(threads)
    try:
        model, x, y = build(name, batch=4)
        assert moved(model, x, y) == 0
    finally:
        torch.set_num_threads(1)


def test_a_network_with_a_memory_is_caught():
    """Planted: it adds what it saw before, so that one record moves the next."""

    class Remembers(nn.Sequential):
        seen = 0.0

        def forward(self, x):
            self.seen = self.seen + 0.1 * x.nan_to_num().clamp(-1, 1).mean()
            return super().forward(x + self.seen)

    _, x, y = build("small", batch=4)
    assert moved(Remembers(*small()), x, y) > 0


def test_empty_records_and_empty_batches_add_nothing():
    model, x, y = build("small")
    kept = y != 1
    assert np.array_equal(
        clipped_example_sum(model, x, torch.where(kept, y, -1), 0.5), clipped_example_sum(model, x[kept], y[kept], 0.5)
    )
    for batch in (0, 12):
        assert not clipped_example_sum(model, x[:batch], torch.full((batch,), -1), 0.5).any()


@pytest.mark.parametrize(
    ("make", "clip", "named"),
    [(lambda: nn.Sequential(nn.Linear(7, 3), nn.BatchNorm1d(3)), 1.0, "BatchNorm1d"),
     (lambda: nn.Linear(7, 3), 0.0, "l2_clip_norm"), (lambda: nn.Linear(7, 3), 1e10, "l2_clip_norm")],
)  # fmt: skip
def test_what_breaks_the_proof_is_refused(make, clip, named):
    with pytest.raises(InputError, match=named):
        clipped_example_sum(make(), torch.zeros(2, 7), torch.tensor([0, 1]), clip)


@pytest.mark.parametrize("longer", [1.001, 1.3])
def test_a_row_that_floating_point_left_too_long_is_lost(longer, monkeypatch):
    """The check in whole numbers holds whatever was computed before: here the norm before rounding is too large."""
    room = -2 * (longer - 1) * clip_kernel.STEPS
    rows, counted, total = np.array([[3.0, 4.0], [6.0, 8.0]]), np.ones(2, bool), np.zeros(2)
    clip_kernel._add.py_func(rows, counted, clip_kernel.STEPS, total)
    assert (total / clip_kernel.STEPS).round(4).tolist() == [1.2, 1.6]
    monkeypatch.setattr(
        clip_kernel, "math", SimpleNamespace(sqrt=lambda x: room if isinstance(x, int) else float(np.sqrt(x)))
    )
    clip_kernel._add.py_func(rows, counted, clip_kernel.STEPS, total := np.zeros(2))
    assert not total.any()
