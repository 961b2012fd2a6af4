"""Neighboring training sets by brute force: what one record adds to a clipped sum and to a released DP-SGD step."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from soundness_neighbors import Case, Measured
from torch import Tensor, nn

from sfumato.bounded import _gradients as gradients
from sfumato.bounded._gradients import SUM_BITS, PrivateSGD, rounding_margin, to_grid
from sfumato.nn._models import MLP, Encoder, MultiHopClassifier
from sfumato.noise.coins import coins
from sfumato.noise.keys import derive_key, operand_mac

KEY, CLIP, RECORDS, GRID = bytes(32), 0.05, 6, 2.0**24
ONE_CLIP = 2.0**SUM_BITS  # in steps of a clipped sum
IDS = np.array([0, 2, 3, 7, 11, 40])
SETTINGS = PrivateSGD(sampling_prob=0.7, steps=3, l2_clip_norm=CLIP, noise_multiplier=1.5, learning_rate=0.1)
MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mlp": (lambda: MLP((5, 4, 2)), (5,)),
    "linear, no bias": (lambda: nn.Sequential(nn.Linear(5, 2, bias=False)), (5,)),
    "encoder": (lambda: Encoder(5, 4, 2, batch_norm=False), (5,)),
    "classifier": (lambda: MultiHopClassifier(2, 4, 2, batch_norm=False), (3, 4)),
    "sum": (lambda: MultiHopClassifier(2, 4, 2, batch_norm=False, combine="sum"), (3, 4)),
    "attention": (lambda: MultiHopClassifier(2, 4, 2, batch_norm=False, combine="attention"), (3, 4)),
}


@dataclass(frozen=True)
class Data:
    """A training set: label -1 is an empty record."""

    x: Tensor
    y: Tensor


def training_pairs(shape: tuple[int, ...], relation: str, num_sets: int, seed: int = 0) -> Iterator[tuple]:
    """(left, right, position): every record emptied, or replaced: other label, opposite, huge, tiny, fresh, empty.

    Sets in turn: random, all records alike (so that they add up), huge, tiny, some of them empty.
    """
    generator = torch.Generator().manual_seed(seed)
    for number in range(num_sets):
        x = torch.randn(RECORDS, *shape, dtype=torch.float64, generator=generator) * 3
        y = torch.randint(0, 2, (RECORDS,), generator=generator)
        if number % 5 == 1:
            x, y = x[:1].expand_as(x).clone(), torch.zeros_like(y)
        x *= {2: 1e30, 3: 1e-30}.get(number % 5, 1.0)
        y[:2] = -1 if number % 5 == 4 else y[:2]
        x[y < 0] = 0
        left = Data(x, y)
        for v in range(RECORDS):
            fresh = torch.randn(shape, dtype=torch.float64, generator=generator)
            flipped = 1 - y[v].clamp_min(0)
            others = [(x[v], flipped), (-x[v], flipped), (1e30 * fresh, flipped), (1e-30 * fresh, y[v].clamp_min(0)),
                      (fresh, y[v].clamp_min(0))]  # fmt: skip
            for row, label in [(torch.zeros(shape), -1), *(others if relation == "replace" else [])]:
                right = Data(x.clone(), y.clone())
                right.x[v], right.y[v] = row, label
                if not (torch.equal(right.x, x) and torch.equal(right.y, y)):
                    yield left, right, v


def ran(name: str, relation: str, num_sets: int, run: Callable[[Data], Any]) -> Iterator[tuple]:
    """(left, right, position, pair) of all pairs: what ``run`` gives on both sides, and the pair as bytes.

    A set is run once for all its neighbors.
    """
    last: Data | None = None
    for left, right, v in training_pairs(MODELS[name][1], relation, num_sets):
        if left is not last:
            last, known = left, run(left)
        yield known, run(right), v, b"".join(part.numpy().tobytes() for d in (left, right) for part in (d.x, d.y))


def build(name: str) -> nn.Module:
    """The same weights each time."""
    torch.manual_seed(0)
    return MODELS[name][0]().double()


class Still:
    """Stands in for the optimizer: keeps the released gradients, never moves."""

    last: "Still"

    def __init__(self, parameters, learning_rate, paces=()):
        size = sum(p.numel() for p in parameters)
        self.flat, self.grad = torch.zeros(size, dtype=torch.float64), torch.zeros(size, dtype=torch.float64)
        self.released: list[np.ndarray] = []
        Still.last = self

    def step(self):
        self.released.append(self.grad.numpy().copy())


@dataclass
class Trace:
    """What one run of DP-SGD did: sums released (before noise), draws of noise, positions asked for."""

    released: list[np.ndarray] = field(default_factory=list)
    draws: list[tuple[bytes, float, int, int]] = field(default_factory=list)
    chosen: list[tuple[int, ...]] = field(default_factory=list)


@contextmanager
def silenced(trace: Trace) -> Iterator[None]:
    """Record every draw of noise and return zeros instead; keep the model where it is."""

    def draw(key, stddev, start, stop):
        trace.draws.append((key, stddev, start, stop))
        return np.zeros(stop - start, np.int64)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gradients, "rounded_gaussian", draw)
        patch.setattr(gradients, "Adam", Still)
        yield


def run_steps(steps: Callable, model: nn.Module, data: Data, settings: PrivateSGD = SETTINGS) -> Trace:
    """Run DP-SGD without noise; ``released`` is in units of the stated clip over the stated divisor q N."""
    trace = Trace()

    def batch(chosen):
        trace.chosen.append(tuple(np.asarray(chosen).tolist()))
        return data.x[chosen], data.y[chosen]

    with silenced(trace):
        steps(model, batch, IDS, settings, KEY)
    scale = settings.sampling_prob * len(IDS) / settings.l2_clip_norm
    trace.released = [step * scale for step in Still.last.released]
    return trace


def size_of(name: str) -> int:
    """Number of parameters."""
    return sum(p.numel() for p in build(name).parameters())


def measure_clip(name: str, relation: str, num_sets: int = 10) -> Measured:
    """How far one record moves the clipped sum, in clips."""
    model, pairs, worst, touched, heard = build(name), set(), 0.0, 0, set()

    def run(data: Data) -> np.ndarray:
        return gradients.clipped_gradient_sum(model, [data.x], data.y, CLIP)

    for left, right, v, pair in ran(name, relation, num_sets, run):
        worst = max(worst, float(np.linalg.norm(left - right)) / ONE_CLIP)
        touched = max(touched, int((left != right).sum()))
        heard |= {v} if (left != right).any() else set()
        pairs.add(pair)
    return Measured(len(pairs), worst, touched, tuple(sorted(set(range(RECORDS)) - heard)))


def measure_steps(steps: Callable, name: str, relation: str, num_sets: int) -> Measured:
    """How far one record moves a released gradient, in units of stated clip / (q N); sampled alike in both worlds."""
    model, pairs, worst, touched, heard = build(name), set(), 0.0, 0, set()
    for a, b, v, pair in ran(name, relation, num_sets, lambda data: run_steps(steps, model, data)):
        assert a.chosen == b.chosen, "sampling depends on the data"
        assert len(a.released) == len(b.released) == SETTINGS.steps, "steps depend on the data"
        moved = [p - q for p, q in zip(a.released, b.released, strict=True)]
        worst = max(worst, *(float(np.linalg.norm(m)) for m in moved))
        touched = max(touched, *(int((m != 0).sum()) for m in moved))
        heard |= {v} if any((m != 0).any() for m in moved) else set()
        pairs.add(pair)
    return Measured(len(pairs), worst, touched, tuple(sorted(set(range(RECORDS)) - heard)))


def assert_noised(steps: Callable, name: str, multiplier: float, sampling_prob: float) -> None:
    """Every step draws noise of its own for every parameter, ``multiplier`` times the bound of a released sum."""
    size, settings = size_of(name), PrivateSGD(sampling_prob, 4, CLIP, SETTINGS.noise_multiplier, 0.1)
    data = next(training_pairs(MODELS[name][1], "remove", 1))[0]
    trace = run_steps(steps, build(name), data, settings)
    assert len(trace.draws) == settings.steps, f"{len(trace.draws)} draws for {settings.steps} steps"
    assert all(draw[2:] == (0, size) for draw in trace.draws), "coordinates without noise"
    assert len({key for key, *_ in trace.draws}) == settings.steps, "the same noise for two steps"
    for _, stddev, *_ in trace.draws:
        ratio = stddev / (GRID * (1 + rounding_margin(size)))
        assert multiplier * (1 - 1e-9) <= ratio <= multiplier * 1.01, f"noise of {ratio:.6g} clips, not {multiplier}"


def rebuilt_steps(
    *,
    private_divisor=False,
    skip_empty=False,
    noise_scale=1.0,
    one_key=False,
    drop_last=False,
    bare_last=False,
    drawn_by_label=False,
) -> Callable:
    """DP-SGD written again with switches for faults; with none it is the real one, bit for bit (a test says so)."""

    def steps(model, batch, ids, settings, key):
        parameters = list(model.parameters())
        size = sum(p.numel() for p in parameters)
        grid = settings.l2_clip_norm / GRID
        stddev = settings.noise_multiplier * (1 + rounding_margin(size)) * GRID * noise_scale
        optimizer = gradients.Adam(parameters, settings.learning_rate)
        labeled = int((batch(np.arange(len(ids)))[-1] >= 0).sum()) if private_divisor else len(ids)
        for step in range(settings.steps):
            drawn = coins(derive_key(key, "sample", step), settings.sampling_prob, ids)
            chosen = np.flatnonzero(drawn[: len(ids) - drop_last])
            if drawn_by_label:
                chosen = chosen[batch(chosen)[-1].numpy() >= 0]
            if skip_empty and not len(chosen):
                continue
            *inputs, targets = batch(chosen)
            sums = gradients.clipped_gradient_sum(model, inputs, targets, settings.l2_clip_norm)
            steps_ = to_grid(sums)
            noise_key = key if one_key else derive_key(key, "noise", step, operand_mac(key, steps_))
            noise = gradients.rounded_gaussian(noise_key, stddev, 0, size - bare_last)
            noisy = steps_ + np.resize(noise, size)
            optimizer.grad.copy_(torch.from_numpy(noisy * (grid / (settings.sampling_prob * max(labeled, 1)))))
            optimizer.step()

    return steps


def clip_case(name: str, relation: str) -> Case:
    """The clipped sum: C, or 2 C."""
    return Case(
        "clipped_gradient_sum",
        f"{name}, record {relation}",
        {"remove": 1.0, "replace": 2.0}[relation],
        size_of(name),
        lambda: measure_clip(name, relation),
    )


def steps_case(name: str, relation: str) -> Case:
    """A released step: C (1 + eta), or 2 C (1 + eta)."""
    size = size_of(name)
    return Case(
        "private_steps",
        f"{name}, record {relation}",
        {"remove": 1.0, "replace": 2.0}[relation] * (1 + rounding_margin(size)),
        size,
        lambda: measure_steps(gradients.private_steps, name, relation, {"remove": 10, "replace": 5}[relation]),
    )


CASES = (
    *(clip_case(name, relation) for name in MODELS for relation in ("remove", "replace")),
    *(steps_case(name, relation) for name in ("mlp", "classifier") for relation in ("remove", "replace")),
)


@cache
def result(case: Case) -> Measured:
    """The measurement of one case on the real code, taken once a process."""
    return case.measure()
