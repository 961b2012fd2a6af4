"""Neighboring data sets that differ in all records of one cell, by brute force, and what one cell adds to a released step.

Records are few numbers with a label; the gradient of a record is x (1/3 - onehot(y)): softmax regression at zero weights. So x
and -x have opposite gradients, and the bound 2 S can be reached.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from soundness_neighbors import Measured
from soundness_steps import Still

from sfumato.bounded import _gradients as gradients
from sfumato.bounded._classes import class_steps, members
from sfumato.bounded._clip_kernel import add_clipped
from sfumato.bounded._gradients import PrivateSGD
from sfumato.bounded._partitions import centroid_cells, direction_cells
from sfumato.noise.coins import coins
from sfumato.noise.keys import derive_key, operand_mac

IDS, CLASSES, WIDTH, CLIP, GRID, KEY = 8, 3, 4, 0.05, 2.0**24, bytes(32)
SIZE = CLASSES * WIDTH
SETTINGS = PrivateSGD(sampling_prob=0.7, steps=3, l2_clip_norm=CLIP, noise_multiplier=1.5, learning_rate=0.1)
COLUMN = np.array([0, 0, 1, 1, 1, 2, 3, 3])
_SIDE = np.eye(WIDTH)[0]
DIRECTIONS = np.random.default_rng(2).normal(size=(2, WIDTH))  # opposite records share a cell
CENTROIDS = np.stack([np.stack([0.3 * _SIDE, -0.3 * _SIDE])] * CLASSES)


def whole_gradient(gradient, clip):
    """One gradient as a step adds it: whole numbers."""
    total = np.zeros(gradient.numel())
    add_clipped(gradient.reshape(1, -1).numpy(), np.ones(1, bool), clip, total)
    return total.astype(np.int64)


@dataclass(frozen=True)
class Data:
    """Records by id: label -1 is an empty one."""

    x: np.ndarray
    y: np.ndarray


@dataclass(frozen=True)
class Partition:
    """Cells of records, -1 for none, and how many there are; ``column`` is there if it says the cell of each id."""

    cells: Callable[[Data], np.ndarray]
    count: int
    column: np.ndarray | None = None


def of_k_means(data: Data) -> np.ndarray:
    """The fault: centroids are fitted on the records that they divide."""
    centroids = CENTROIDS.copy()
    for label in range(CLASSES):
        rows = np.clip(np.nan_to_num(data.x[data.y == label]), -8, 8)
        for _ in range(3 if len(rows) else 0):
            near = np.square(rows[:, None] - centroids[label]).sum(2).argmin(1)
            centroids[label] = [rows[near == j].mean(0) if (near == j).any() else centroids[label, j] for j in (0, 1)]
    return centroid_cells(data.x, data.y, centroids)


PARTITIONS = {
    "class": Partition(lambda data: data.y, CLASSES),
    "directions": Partition(lambda data: direction_cells(data.x, data.y, DIRECTIONS, 2), 2 * CLASSES),
    "centroids": Partition(lambda data: centroid_cells(data.x, data.y, CENTROIDS), 2 * CLASSES),
    "declared": Partition(lambda data: np.where(data.y < 0, -1, COLUMN), 4, COLUMN),
}


def pool() -> Data:
    """Records of every label on both sides: pairs of opposites, huge, tiny, zero and without a number."""
    rng = np.random.default_rng(5)
    rows = [sign * 5 * v + 0.05 * side * _SIDE for v in np.eye(WIDTH)[1:] for sign in (1, -1) for side in (1, -1)]
    rows += [*rng.normal(size=(6, WIDTH)), 1e30 * rows[0], 1e-30 * rows[1], 0 * rows[0], np.full(WIDTH, np.nan)]
    x = np.repeat(np.stack(rows), CLASSES, axis=0)
    return Data(x, np.tile(np.arange(CLASSES), len(rows)))


POOL = pool()


def data_sets(count: int, seed: int = 0) -> Iterator[Data]:
    """Random records, records all alike, and a full class, with some empty ids."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        chosen = rng.integers(0, len(POOL.y), IDS)
        if number % 3 == 1:
            chosen[:] = chosen[0]
        y = np.where(rng.random(IDS) < 0.2 * (number % 2), -1, POOL.y[chosen])
        yield Data(np.where(y[:, None] < 0, 0.0, POOL.x[chosen]), y)


def neighbors(left: Data, partition: Partition, cell: int, relation: str, seed: int) -> Iterator[Data]:
    """The records of one cell emptied, or exchanged for others of this cell: all alike, or mixed, at any eligible id."""
    rng, own = np.random.default_rng(seed), partition.cells(left)
    eligible = np.flatnonzero((own == cell) | (own < 0) if partition.column is None else partition.column == cell)
    if partition.column is None:
        inside = [
            i for i, y in enumerate(POOL.y) if partition.cells(Data(POOL.x[i : i + 1], POOL.y[i : i + 1]))[0] == cell
        ]
    else:
        inside = list(range(len(POOL.y)))
    fills = [np.full(IDS, -1)]
    if relation == "replace":
        fills += [np.full(IDS, i) for i in inside[:16]]
        fills += [np.where(rng.random(IDS) < 0.4, -1, rng.choice(inside, IDS)) for _ in range(3)]
    for fill in fills:
        x, y, at = left.x.copy(), left.y.copy(), eligible
        x[at], y[at] = np.where(fill[at, None] < 0, 0.0, POOL.x[fill[at]]), np.where(fill[at] < 0, -1, POOL.y[fill[at]])
        if relation == "add-remove":
            kept = own[at] != cell
            x[at[kept]], y[at[kept]] = left.x[at[kept]], left.y[at[kept]]
        if not (np.array_equal(y, left.y) and np.array_equal(x, left.x, equal_nan=True)):
            yield Data(x, y)


def record_gradients(data: Data, rows: np.ndarray) -> np.ndarray:
    """One row for each record."""
    slopes = 1 / CLASSES - np.eye(CLASSES)[data.y[rows]]
    with np.errstate(all="ignore"):
        return (slopes[:, :, None] * data.x[rows][:, None]).reshape(len(rows), SIZE)


@dataclass
class Trace:
    """The released steps in clips over the stated divisor, without noise, and the draws of noise."""

    released: list[np.ndarray]
    draws: list[tuple[bytes, float, int, int]]


Steps = Callable[..., Any]


def run(steps: Steps, data: Data, partition: Partition, settings: PrivateSGD, most: int) -> Trace:
    """What is released, in units of S / (q K)."""
    optimizer, trace, cells = Still([torch.zeros(SIZE)], 0), Trace([], []), partition.cells(data)

    def draw(key, stddev, start, stop):
        trace.draws.append((key, stddev, start, stop))
        return np.zeros(stop - start, np.int64)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gradients, "rounded_gaussian", draw)
        steps(optimizer, data, cells, partition.count, settings, most)
    scale = settings.sampling_prob * partition.count / settings.l2_clip_norm
    trace.released = [step * scale for step in optimizer.released]
    return trace


def real_steps(optimizer: Still, data: Data, cells: np.ndarray, count: int, settings: PrivateSGD, most: int) -> None:
    """The library's, with the mean gradient of at most ``most`` records."""

    def mean_gradient(cell, step):
        rows = members(KEY, step, cell, np.flatnonzero(cells == cell), most)
        with np.errstate(all="ignore"):
            return torch.from_numpy(record_gradients(data, rows).mean(0)) if len(rows) else None

    class_steps(optimizer, mean_gradient, count, settings, KEY)


def rebuilt_steps(
    *,
    realised_cells=False,
    realised_size=False,
    summed=False,
    clipped_records=False,
    empty_adds=False,
    by_record=False,
    shared_coins=False,
    skip_empty=False,
    one_key=False,
    noise_scale=1.0,
) -> Steps:
    """Algorithm 5 written again with switches for faults; with none it is the real one, bit for bit (a test says so)."""

    def value(data, rows):
        each = record_gradients(data, rows)
        if clipped_records:  # and their sum is not clipped again
            return sum(whole_gradient(torch.from_numpy(one), CLIP) for one in each)
        if summed:  # and not clipped
            return (
                np.nan_to_num(np.rint(each.sum(0) / CLIP * GRID), posinf=0, neginf=0)
                .clip(-(2**40), 2**40)
                .astype(np.int64)
            )
        with np.errstate(all="ignore"):
            return whole_gradient(torch.from_numpy(each.mean(0)), CLIP)

    def steps(optimizer, data, cells, count, settings, most):
        divisor = settings.sampling_prob * count
        for step in range(settings.steps):
            sample = derive_key(KEY, "sample", step)
            drawn = np.flatnonzero(coins(sample, settings.sampling_prob, np.arange(count)))
            taken = coins(sample, settings.sampling_prob, np.arange(IDS))
            total, used, place = np.zeros(SIZE, np.int64), 0, 0
            for cell in range(count) if by_record else drawn.tolist():
                rows = np.flatnonzero((cells == cell) & taken) if by_record else np.flatnonzero(cells == cell)
                if shared_coins:  # by the place among all records that were met so far
                    rows, place = rows[(np.arange(place, place + len(rows)) % 3) < most], place + len(rows)
                rows = members(KEY, step, cell, rows, most)
                used += len(rows) > 0
                if len(rows):
                    total += value(data, rows)
                elif empty_adds:
                    total += np.rint(np.full(SIZE, GRID / np.sqrt(SIZE))).astype(np.int64) - 1
            if skip_empty and not used:
                continue
            key = KEY if one_key else derive_key(KEY, "noise", step, operand_mac(KEY, total))
            noisy = total + gradients.rounded_gaussian(key, settings.noise_multiplier * GRID * noise_scale, 0, SIZE)
            divided = max(used, 1) if realised_cells else divisor
            divided = divisor * max(int((cells >= 0).sum()), 1) / IDS if realised_size else divided
            optimizer.grad.copy_(torch.from_numpy(noisy * (CLIP / GRID / divided)))
            optimizer.step()

    return steps


def measure(steps: Steps, name: str, relation: str, *, most: int = 99, sets: int = 3, cells: Any = None) -> Measured:
    """How far one cell moves a released step, in clips; ``cells`` is a partition that takes the place of the stated one."""
    stated = PARTITIONS[name]
    partition = Partition(cells, stated.count) if cells else stated
    pairs, worst, touched, heard = 0, 0.0, 0, set()
    for number, left in enumerate(data_sets(sets)):
        known = run(steps, left, partition, SETTINGS, most).released
        for cell in range(partition.count):
            for right in neighbors(left, partition, cell, relation, number):
                other = run(steps, right, partition, SETTINGS, most).released
                assert len(other) == len(known), "steps depend on the data"
                moved = [a - b for a, b in zip(known, other, strict=True)]
                worst = max(worst, *(float(np.linalg.norm(m)) for m in moved))
                touched = max(touched, *(int((m != 0).sum()) for m in moved))
                heard |= {cell} if any(m.any() for m in moved) else set()
                pairs += 1
    return Measured(pairs, worst, touched, tuple(sorted(set(range(partition.count)) - heard)))


def moved_share(steps: Steps, sampling_prob: float = 0.1, number: int = 400) -> float:
    """In which share of steps one cell of eight records moves what is released: the probability that it is drawn."""
    settings = PrivateSGD(sampling_prob, number, CLIP, 1.5, 0.1)
    left = Data(np.tile(POOL.x[:1], (IDS, 1)), np.zeros(IDS, np.int64))
    right = Data(-left.x, left.y)
    a, b = (run(steps, data, PARTITIONS["class"], settings, 99).released for data in (left, right))
    return float(np.mean([(p != q).any() for p, q in zip(a, b, strict=True)]))


def assert_noised(steps: Steps) -> None:
    """Every step draws noise of its own for every parameter, exactly ``noise_multiplier`` times S, and charges std / S."""
    for sampling_prob in (0.7, 1.0, 1e-9):
        settings = PrivateSGD(sampling_prob, 4, CLIP, 1.5, 0.1)
        draws = run(steps, next(data_sets(1)), PARTITIONS["class"], settings, 99).draws
        assert len(draws) == 4, f"{len(draws)} draws for 4 steps"
        assert all(draw[1:] == (1.5 * GRID, 0, SIZE) for draw in draws), (
            f"noise of {draws[0][1] / GRID:g} clips, not 1.5"
        )
        assert len({key for key, *_ in draws}) == 4, "the same noise for two steps"
