"""Teachers that are networks of one shape are trained together: every step serves all of them, every number belongs to one.

**Formal guarantee.** As for teachers trained one by one (:mod:`sfumato.pate._teachers`): one record reaches one teacher,
and moves one vote on each query. *Proof.* Teacher t's initial weights, the order of its rows, their shifts and mirror
images come from a generator seeded by (seed, t), which advances by amounts that its own rows alone decide; layers of
:mod:`sfumato.nn._stacked` compute member t from member t's rows and weights; the loss is a sum of one mean for each
teacher, so that its gradient for t's weights is that of t's mean; Adam works number by number, at a rate that the
step's public number decides; all tensors have the same public shape whatever the records are. There is no batch norm,
no norm of a gradient, no early stopping and no schedule that reads a loss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from sfumato._validate import AT_LEAST_1, check_choice, check_fields, check_int, check_real, fail, integer, one_of
from sfumato.bounded._engine import LOCAL, engine, training_threads
from sfumato.nn._stacked import Generators, StackedCNN, StackedMLP, generators, take_member
from sfumato.nn._training import Adam, Steps
from sfumato.pate._teachers import Ids, Teachers, check_records, parts

NETWORKS = ("cnn", "mlp")
Stack = StackedCNN | StackedMLP
IMAGE_SETTINGS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {"mnist": MappingProxyType({"max_shift": 2}), "fashion_mnist": MappingProxyType({"max_shift": 1, "mirror": True})}
)
"""Augmentation for the named images: digits have no mirror image, clothes are centered."""

_SIDE = 28
_AT_ONCE = 16  # teachers in one stack on a CPU: more fall out of its caches, fewer are slower too
_QUERIES_AT_ONCE = 32
_WARM_UP = 0.05  # share of the steps


@dataclass(frozen=True)
class Ensemble:
    """An ensemble holds the public settings of teachers that are trained together.

    Args:
        num_teachers: number of teachers; each takes a disjoint part of the records by a hash of the id.
        num_classes: number of classes; public, not read off the labels.
        network: "cnn" for images of 28 x 28, "mlp" for rows of any shape.
        widths: channels after each of the two convolutions, or the widths of hidden layers.
        steps: minibatches of each teacher, whatever it holds.
        batch_size: rows of a minibatch; a teacher goes through its own rows in random order, again and again.
        learning_rate: step size of Adam at its peak: it rises over the first twentieth of the steps and falls to 0 in a line.
        label_smoothing: mass that the target gives to all classes alike.
        max_shift: images move by up to so many pixels in each direction, drawn for each image each time.
        mirror: images are mirrored left to right, half of the time.
        seed: decides the partition and each teacher's generator. Public.
        device: "cpu" or "cuda"; weights are bit-identical only on one device with one number of threads.

    Raises:
        InputError: a setting out of range.

    >>> Ensemble(250, 10, **IMAGE_SETTINGS["mnist"]).max_shift
    2
    """

    num_teachers: int
    num_classes: int
    network: str = "cnn"
    widths: tuple[int, ...] = (16, 32)
    steps: int = 600
    batch_size: int = 24
    learning_rate: float = 5e-3
    label_smoothing: float = 0.2
    max_shift: int = 0
    mirror: bool = False
    seed: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        check_fields(self, network=one_of(*NETWORKS), num_teachers=AT_LEAST_1, num_classes=integer(2))
        check_fields(self, steps=AT_LEAST_1, batch_size=AT_LEAST_1, seed=integer(0))
        for i, width in enumerate(self.widths):
            check_int("", low=1, high=None, **{f"widths[{i}]": width})
        if self.network == "cnn" and len(self.widths) != 2:
            raise fail(
                "widths", self.widths, "to be two for network='cnn'", "They are the channels of two convolutions."
            )
        check_real(low=0, open_low=True, learning_rate=self.learning_rate)
        check_real(low=0, high=1, open_high=True, label_smoothing=self.label_smoothing)
        check_int("It is a number of pixels.", low=0, high=_SIDE // 2, max_shift=self.max_shift)
        check_choice(("cpu", "cuda"), device=self.device)
        if self.device == "cuda" and not torch.cuda.is_available():
            raise fail("device", self.device, "to be there", "This machine has no CUDA device: pass device='cpu'.")

    def fit(
        self, x: NDArray[np.floating], y: NDArray[np.integer], ids: Ids, progress: Steps | None = None
    ) -> StackedTeachers:
        """Train every teacher on its own records: the only call that touches private data.

        Args:
            x: records, float32: images [n, channels, 28, 28] in 0 to 1, or rows [n, ...] for network="mlp".
            y: classes [n], integers.
            ids: public ids [n], see :func:`sfumato.pate._teachers.assign`.
            progress: a function, called with (steps done, steps), of all stacks together.

        Raises:
            InputError: wrong shapes, values that are not finite, classes out of range, ids that repeat.
        """
        y = check_records(x, y, ids, self.num_classes)
        x = self._checked(x)
        rows = parts(ids, self.num_teachers, self.seed)
        draw = generators(self.num_teachers, self.seed)
        size = _AT_ONCE if self.device == "cpu" else self.num_teachers
        starts = range(0, self.num_teachers, size)
        blocks = [slice(start, start + size) for start in starts]
        stacks: dict[int, Stack] = {}

        def told(step: int) -> None:
            if progress is not None:
                progress(len(stacks) * self.steps + step, len(blocks) * self.steps)

        here = engine() is LOCAL  # steps elsewhere are told when their stack is there
        tasks = ((rows[block], draw[block], told if here else None) for block in blocks)
        for number, stack in engine().run(self._trained, (x, y), tasks, threads=training_threads()):
            stacks[number] = stack
            if not here:
                told(0)
        ordered = tuple(stacks[number] for number in range(len(blocks)))
        return StackedTeachers(ordered, self.num_classes, np.array([len(part) > 0 for part in rows]), self.device)

    def _trained(
        self,
        x: NDArray[np.float32],
        y: NDArray[np.int64],
        rows: list[NDArray[np.int64]],
        draw: Generators,
        told: Callable[[int], None] | None,
    ) -> Stack:
        stack = self._stack(x.shape[1:], draw).to(self.device)
        for step in self._steps(stack, _Batches(self, x, y, rows, draw)):
            if told is not None:
                told(step)
        return stack.requires_grad_(False)

    def _steps(self, stack: Stack, batches: _Batches) -> Iterator[int]:
        """Train in place; yield the number of steps done."""
        optimizer = Adam(stack.parameters(), self.learning_rate)
        for step in range(self.steps):
            optimizer.learning_rate = self.learning_rate * _rate(step, self.steps)
            rows, targets = batches.next()
            scores = stack(rows).flatten(0, 1)
            losses = functional.cross_entropy(
                scores, targets.flatten(), reduction="none", label_smoothing=self.label_smoothing
            )
            (losses.view_as(targets).mean(1) * batches.present).sum().backward()
            optimizer.step()
            yield step + 1

    def _stack(self, shape: tuple[int, ...], draw: Generators) -> Stack:
        if self.network == "cnn":
            return StackedCNN(shape[0], (self.widths[0], self.widths[1]), self.num_classes, draw)
        return StackedMLP((int(np.prod(shape)), *self.widths, self.num_classes), draw)

    def _checked(self, x: Any) -> NDArray[np.float32]:
        x = np.asarray(x, np.float32)
        is_image = x.ndim == 4 and x.shape[2:] == (_SIDE, _SIDE)
        if not is_image and (self.network == "cnn" or self.max_shift or self.mirror):
            raise fail(
                "x",
                x.shape,
                f"to have the shape [n, channels, {_SIDE}, {_SIDE}]",
                "For other rows pass network='mlp', without max_shift and mirror.",
            )
        if x.ndim < 2 or not np.isfinite(x).all():
            raise fail("x", x.shape, "to hold one row of finite numbers a record", "Fill missing values in.")
        return x


@dataclass(frozen=True, eq=False)
class StackedTeachers(Teachers):
    """Teachers that :meth:`Ensemble.fit` trained together; one without records votes for a class that its number decides."""

    stacks: tuple[Stack, ...]
    num_classes: int
    present: NDArray[np.bool_]
    device: str = "cpu"

    def predict(self, queries: NDArray[np.floating]) -> NDArray[np.int64]:
        rows = torch.from_numpy(np.ascontiguousarray(queries, np.float32)).split(_QUERIES_AT_ONCE)
        with torch.no_grad():
            found = [
                torch.cat([stack.forward_shared(part.to(self.device)).argmax(2).cpu() for part in rows], 1)
                for stack in self.stacks
            ]
        default = np.arange(len(self.present)) % self.num_classes
        return np.where(self.present[:, None], torch.cat(found).numpy(), default[:, None])

    def weights(self, teacher: int) -> dict[str, NDArray[np.float32]]:
        """Return the parameters of one teacher by name. They are private, like everything that is not a noisy answer."""
        size = self.stacks[0].members
        if not 0 <= teacher < len(self.present):
            raise fail("teacher", teacher, f"to be one of 0 to {len(self.present) - 1}", "Teachers count from 0.")
        return take_member(self.stacks[teacher // size], teacher % size)


class TorchTeacher:
    """Any torch module becomes a teacher of :func:`sfumato.pate._teachers.train_each`: minibatches, Adam, cross-entropy.

    Args:
        module: from rows [batch, ...] to scores [batch, classes]. Batch norm is its own: it sees one teacher's rows.
        steps: number of minibatches.
        batch_size: rows of a minibatch.
        learning_rate: step size of Adam at its peak, as in :class:`Ensemble`.
        seed: decides the order of rows; give each teacher its own number.

    Raises:
        InputError: a setting is out of range.

    >>> teacher = TorchTeacher(nn.Linear(1, 2), steps=50, learning_rate=0.1)
    >>> teacher.fit(np.array([[-1.0], [1.0]]), np.array([0, 1])).predict(np.array([[-2.0], [2.0]])).tolist()
    [0, 1]
    """

    def __init__(
        self, module: nn.Module, *, steps: int = 600, batch_size: int = 24, learning_rate: float = 5e-3, seed: int = 0
    ) -> None:
        self.module, self.learning_rate = module, check_real(low=0, open_low=True, learning_rate=learning_rate)
        self.steps, self.batch_size = check_int(low=1, steps=steps), check_int(low=1, batch_size=batch_size)
        self.seed = check_int(low=0, seed=seed)

    def fit(self, x: NDArray[np.floating], y: NDArray[np.integer]) -> TorchTeacher:
        """Train the module in place on rows ``x`` [n, ...] and classes ``y`` [n]."""
        rows, targets = torch.from_numpy(np.asarray(x, np.float32)), torch.from_numpy(np.asarray(y, np.int64))
        order = _Rows(np.arange(len(targets)), np.random.default_rng(self.seed))
        optimizer = Adam(self.module.parameters(), self.learning_rate)
        self.module.train()
        for step in range(self.steps):
            optimizer.learning_rate = self.learning_rate * _rate(step, self.steps)
            chosen = torch.from_numpy(order.take(self.batch_size))
            functional.cross_entropy(self.module(rows[chosen]), targets[chosen]).backward()
            optimizer.step()
        self.module.eval()
        return self

    def predict(self, x: NDArray[np.floating]) -> NDArray[np.int64]:
        """Predict the classes [rows] of rows ``x``."""
        with torch.no_grad():
            return np.asarray(self.module(torch.from_numpy(np.asarray(x, np.float32))).argmax(1).numpy())


class _Rows:
    """One teacher's rows in random order, again and again."""

    def __init__(self, rows: NDArray[np.int64], generator: np.random.Generator) -> None:
        self.rows, self.generator, self.ahead = rows, generator, rows[:0]

    def take(self, count: int) -> NDArray[np.int64]:
        while len(self.ahead) < count:
            self.ahead = np.concatenate([self.ahead, self.generator.permutation(self.rows)])
        taken, self.ahead = self.ahead[:count], self.ahead[count:]
        return taken


class _Batches:
    """Minibatches [teachers, batch, ...], each by its teacher's own generator: a row of zeros without a loss if it has none."""

    def __init__(
        self,
        settings: Ensemble,
        x: NDArray[np.float32],
        y: NDArray[np.int64],
        rows: list[NDArray[np.int64]],
        draw: Generators,
    ) -> None:
        self.settings, self.draw, self.shift = settings, draw, settings.max_shift
        own = np.concatenate(rows)
        places = np.split(np.arange(len(own)), np.cumsum([len(part) for part in rows])[:-1])
        blank = np.array([len(own)])
        self.orders = [_Rows(part if len(part) else blank, one) for part, one in zip(places, draw, strict=True)]
        present = torch.tensor([len(part) > 0 for part in rows], dtype=torch.float32)
        self.present = present.to(settings.device)
        margins = [(0, 1), *[(0, 0)] * (x.ndim - 1)]
        if self.shift:
            margins[2:] = [(self.shift, self.shift)] * 2
        self.x = torch.from_numpy(np.pad(x[own], margins)).to(settings.device)
        self.y = torch.from_numpy(np.append(y[own], 0)).to(settings.device)

    def next(self) -> tuple[Tensor, Tensor]:
        size = self.settings.batch_size
        chosen = self._to_device(np.stack([order.take(size) for order in self.orders]))
        batch = self._windows(chosen, size) if self.shift else self.x[chosen]
        if self.settings.mirror:
            mirrored = self._to_device(np.stack([one.random(size) < 0.5 for one in self.draw]))
            batch = torch.where(mirrored[:, :, None, None, None], batch.flip(-1), batch)
        return batch, self.y[chosen]

    def _windows(self, chosen: Tensor, size: int) -> Tensor:
        """The chosen images, each seen through a window of its own."""
        moves = [one.integers(0, 2 * self.shift + 1, (2, size)) for one in self.draw]
        down, right = self._to_device(np.stack(moves, axis=1))
        return self.x.unfold(2, _SIDE, 1).unfold(3, _SIDE, 1)[chosen, :, down, right]

    def _to_device(self, values: NDArray[Any]) -> Tensor:
        return torch.from_numpy(values).to(self.settings.device)


def _rate(step: int, steps: int) -> float:
    """Share of the peak learning rate: decided by the number of the step."""
    return min(1.0, (step + 1) / max(_WARM_UP * steps, 1)) * (1 - step / steps)
