"""Small networks of NumPy arrays, for training on public labels: they learn in less time than Torch takes to be imported."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sfumato.loops._optimizers import adam_step

Floats: TypeAlias = NDArray[np.float32]
Rows: TypeAlias = Floats | Any
"""Dense rows [n, num_inputs], or a sparse matrix of SciPy; float32. Dense ones may be anything that gives blocks of rows."""
State = dict[str, NDArray[Any]]
_MOMENTUM, _EPSILON = np.float32(0.1), np.float32(1e-5)  # of batch norm


class Model(Protocol):
    """A model has a state by name, says which part of it descends, and gives scores and gradients."""

    state: State
    trained: tuple[str, ...]

    def scores(self, rows: Rows) -> Floats: ...
    def gradient(self, rows: Rows, classes: NDArray[np.int64], coins: np.random.Generator) -> tuple[float, State]: ...


class Logistic:
    r"""Multinomial logistic regression has the scores :math:`W x + b`.

    Without ``coins`` it starts at zero.
    """

    trained: tuple[str, ...] = ("weight", "bias")

    def __init__(self, num_inputs: int, num_classes: int, coins: np.random.Generator | None = None) -> None:
        self.state: State = {
            "weight": _start((num_classes, num_inputs), num_inputs, coins),
            "bias": _start((num_classes,), num_inputs, coins),
        }

    def scores(self, rows: Rows) -> Floats:
        """Compute the scores of each of the ``rows``."""
        scores: Floats = (self.state["weight"] @ rows.T).T + self.state["bias"]
        return scores

    def gradient(self, rows: Rows, classes: NDArray[np.int64], coins: np.random.Generator) -> tuple[float, State]:
        """Compute the mean cross-entropy of ``rows`` of known ``classes`` and its gradient; none of ``coins`` is drawn."""
        loss, wrong = _cross_entropy(self.scores(rows), classes)
        return loss, {"weight": wrong @ rows, "bias": wrong.sum(axis=1)}


class Hidden:
    """A network with one hidden layer has batch norm and ReLU in it, and drops half of its weights and of its units in training.

    Without ``coins`` it starts at zero, for a state to come.
    """

    trained: tuple[str, ...] = ("maps.0.weight", "norm.weight", "norm.bias", "head.weight", "head.bias")

    def __init__(self, num_inputs: int, width: int, num_classes: int, coins: np.random.Generator | None = None) -> None:
        self.state: State = {
            "maps.0.weight": _start((width, num_inputs), num_inputs, coins),
            "norm.weight": np.ones(width, np.float32),
            "norm.bias": np.zeros(width, np.float32),
            "norm.running_mean": np.zeros(width, np.float32),
            "norm.running_var": np.ones(width, np.float32),
            "norm.num_batches_tracked": np.zeros((), np.int64),
            "head.weight": _start((num_classes, width), width, coins),
            "head.bias": _start((num_classes,), width, coins),
        }

    def scores(self, rows: Rows) -> Floats:
        """Compute the scores of each of the ``rows``."""
        state = self.state
        scale = state["norm.weight"] / np.sqrt(state["norm.running_var"] + _EPSILON)
        hidden = rows @ (state["maps.0.weight"].T * scale)
        hidden += state["norm.bias"] - state["norm.running_mean"] * scale
        return np.asarray(np.maximum(hidden, 0, out=hidden) @ state["head.weight"].T + state["head.bias"])

    def gradient(self, rows: Rows, classes: NDArray[np.int64], coins: np.random.Generator) -> tuple[float, State]:
        """Compute the mean cross-entropy of ``rows`` of known ``classes`` and its gradient; the running moments move.

        ``coins`` say what is dropped.
        """
        state, count = self.state, len(classes)
        inner, head = state["maps.0.weight"], state["head.weight"]
        kept = _half(coins, inner.shape) * np.float32(2)
        normal = rows @ (inner * kept).T
        mean = normal.mean(axis=0)
        normal -= mean
        variance = np.einsum("ij,ij->j", normal, normal) / count
        inverse = 1 / np.sqrt(variance + _EPSILON)
        normal *= inverse
        state["norm.running_mean"] += _MOMENTUM * (mean - state["norm.running_mean"])
        unbiased = variance * np.float32(count / max(count - 1, 1))
        state["norm.running_var"] += _MOMENTUM * (unbiased - state["norm.running_var"])
        state["norm.num_batches_tracked"] += 1
        hidden = normal * state["norm.weight"] + state["norm.bias"]
        passed = (_half(coins, hidden.shape) * (hidden > 0)) * np.float32(2)
        hidden *= passed
        loss, wrong = _cross_entropy(hidden @ head.T + state["head.bias"], classes)
        back = (wrong.T @ head) * passed
        shift, gain = back.sum(axis=0), np.einsum("ij,ij->j", back, normal)
        back -= shift / count
        back -= normal * (gain / count)
        back *= state["norm.weight"] * inverse
        return loss, {
            "maps.0.weight": (rows.T @ back).T * kept,
            "norm.weight": gain,
            "norm.bias": shift,
            "head.weight": wrong @ hidden,
            "head.bias": wrong.sum(axis=1),
        }


@np.errstate(over="ignore", invalid="ignore")  # where a gradient leaves the range of float32, no step is made
def train(
    model: Model,
    rows: Rows,
    classes: NDArray[np.int64],
    *,
    epochs: int,
    learning_rate: float,
    held_out: tuple[Rows, NDArray[np.int64]],
    coins: np.random.Generator,
    ids: NDArray[np.int64] | None = None,
    batch_size: int | None = None,
    weight_decay: float = 0.0,
    patience: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[float]:
    """Train by Adam on the cross-entropy, in place, and keep the pass with the least cross-entropy on rows that are held out.

    Choosing a pass reads their labels: callers have public ones.
    """
    optimizer = _Adam(model, learning_rate, weight_decay)
    steps = 1 if batch_size is None else -(-len(classes) // batch_size)
    if ids is not None and (steps == 1 or sp.issparse(rows)):
        rows, ids = rows[ids], None
    if steps == 1 and isinstance(rows, np.ndarray):
        rows, held_out = np.asfortranarray(rows), (np.asfortranarray(held_out[0]), held_out[1])
    least, best_epoch, kept, losses = np.inf, 0, None, []
    for epoch in range(epochs):
        loss = 0.0
        for batch in _batches(rows, ids, classes, steps, coins):
            found, gradient = model.gradient(*batch, coins)
            optimizer.step(gradient)
            loss += found / steps
        losses.append(loss)
        if len(held_out[1]):
            held_loss = log_loss(model.scores(held_out[0]), held_out[1])
            if held_loss < least:
                least, best_epoch = held_loss, epoch
                kept = {name: array.copy() for name, array in model.state.items()}
        if progress is not None:
            progress(epoch + 1, epochs)
        if kept is not None and patience is not None and epoch - best_epoch >= patience:
            break
    for name, array in (kept or {}).items():
        model.state[name][...] = array
    return losses


def _batches(
    rows: Rows, ids: NDArray[np.int64] | None, classes: NDArray[np.int64], steps: int, coins: np.random.Generator
) -> Iterator[tuple[Rows, NDArray[np.int64]]]:
    """What each step of a pass reads: everything, or parts of a random order."""
    if steps == 1:
        yield rows, classes
        return
    order = coins.permutation(len(classes))
    shuffled = rows[order] if sp.issparse(rows) else None  # at once: taking few sparse rows takes as long
    for part in np.array_split(np.arange(len(order)), steps):
        batch = order[part]
        taken = batch if ids is None else ids[batch]
        yield rows[taken] if shuffled is None else shuffled[part[0] : part[-1] + 1], classes[batch]


class _Adam:
    """Adam on one flat vector that the trained arrays of a model become views of."""

    def __init__(self, model: Model, learning_rate: float, weight_decay: float) -> None:
        self.names, self.rate, self.decay, self.steps = model.trained, learning_rate, weight_decay, 0
        self.flat: Floats = np.concatenate([model.state[name].ravel() for name in self.names])
        self.mean, self.square = np.zeros_like(self.flat), np.zeros_like(self.flat)
        at = 0
        for name in self.names:
            array = model.state[name]
            model.state[name] = self.flat[at : at + array.size].reshape(array.shape)
            at += array.size

    def step(self, gradient: State) -> None:
        self.steps += 1
        flat: Floats = np.concatenate([gradient[name].ravel() for name in self.names])
        vectors = self.flat, flat, self.mean, self.square
        adam_step(*vectors, decay=self.decay, momentum=0.9, rate=self.rate, steps=self.steps)


def _start(shape: tuple[int, ...], inputs: int, coins: np.random.Generator | None) -> Floats:
    """Zeros, or uniform draws up to one over the root of the number of inputs."""
    bound = 1 / np.sqrt(max(inputs, 1))
    return np.zeros(shape, np.float32) if coins is None else coins.uniform(-bound, bound, shape).astype(np.float32)


def _half(coins: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """One fair coin, 0 or 1, for each place."""
    size = int(np.prod(shape))
    return np.unpackbits(np.frombuffer(coins.bytes(-(-size // 8)), np.uint8), count=size).reshape(shape)


def log_loss(scores: NDArray[np.floating], classes: NDArray[np.int64]) -> float:
    """Compute the mean cross-entropy of scores before the softmax."""
    found = np.asarray(scores, np.float64)
    found = found - found.max(axis=1, keepdims=True)
    chosen = found[np.arange(len(classes)), classes]
    return float((np.log(np.exp(found).sum(axis=1)) - chosen).mean())


def _cross_entropy(scores: Floats, classes: NDArray[np.int64]) -> tuple[float, Floats]:
    """The mean cross-entropy, and its gradient by the scores, with a row for each class: short rows would be slow."""
    found, at = np.ascontiguousarray(scores.T), np.arange(len(classes))
    found -= found.max(axis=0)
    np.exp(found, out=found)
    found /= found.sum(axis=0)
    loss = -float(np.log(np.maximum(found[classes, at], np.float32(1e-30))).mean())
    found[classes, at] -= 1
    found /= np.float32(len(classes))
    return loss, found
