r"""The last stage of the default at node level: a few numbers weigh what features and messages say of a node's class.

.. math:: s_c = t_1 l_c + t_2 r_c + t_3 d_c + b_c

l are the log probabilities of a trained head, r the node's released row over the root mean square of all such rows, and d the
direction of this row. Each has mean 0 over classes; l has norm at most 6, r at most 2. The 3 + C numbers start at (1, 1/4, 1/4)
and, seen from the shares of the classes, at the head's own probabilities: so rows that say nothing never give large odds.
They then make 50 steps of Adam on noisy sums of gradients of the log-loss, and are pulled to their start, more where noise is
large. A matrix for each input would need C times as many numbers, and as much more noise.

**Formal guarantee.** A step is a :func:`~sfumato.bounded._grouping.noisy_group_sums` of one group. The row of a node is its
gradient, clipped to norm c and divided by c. It reads the node's own features and label, and earlier releases (the head, the
node's row, the numbers so far), and a node without a label has a zero row. So a step has sensitivity 1 (2 if records are
replaced), and 50 steps with noise :math:`z \sqrt{50}` are one Gaussian event with noise multiplier z, by composition.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.bounded._grouping import noisy_group_sums
from sfumato.bounded._owners import count_of
from sfumato.central._counts import directions
from sfumato.graph._targets import softmax
from sfumato.loops.kernels import INT16_ONE
from sfumato.noise.keys import derive_key, operand_mac

if TYPE_CHECKING:
    from sfumato.method.contract import Arrays
    from sfumato.noise.keys import Key

Floats = NDArray[np.float64]
STEPS, NUM_WEIGHTS = 50, 3
_MOST_LOG, _MOST_ROW, _RATE, _SPREAD = 6.0, 2.0, 0.1, 0.5
_CLIP = float(np.sqrt(2 * (1 + 9 + 4 + 1))) / 2  # half of the norm of a gradient where l has norm 3
_START = (1.0, 0.25, 0.25)
_SLACK = 1 - 2.0**-20


def evidence(
    scores: NDArray[np.float32], rows: Floats, noise_stddev: float, receives: NDArray[np.bool_]
) -> Iterator[Floats]:
    """Give the three things that the numbers weigh, one after the other, each float64 [num_nodes, C].

    ``rows`` are released and of mean 0; zero where nothing was released.
    """
    yield _log_probabilities(scores)
    square = np.square(rows[receives]).sum(axis=1).mean() if receives.any() else 0.0
    yield _capped(rows / np.sqrt(square) if square > 0 else np.zeros_like(rows), _MOST_ROW)
    yield directions(rows, noise_stddev)


def weigh(weights: Arrays, seen: Iterator[Floats]) -> NDArray[np.float32]:
    """Return scores [num_nodes, C]; ``weights`` hold ``last.weight`` and ``last.bias``, ``seen`` is the evidence."""
    scores = weights["last.bias"].astype(np.float64)
    for number, part in zip(weights["last.weight"].tolist(), seen, strict=True):
        scores = scores + number * part
    return scores.astype(np.float32)


def learn_weights(
    seen: Floats, y: NDArray[np.int64], shares: Floats, noise_stddev: float, key: Key
) -> tuple[Arrays, bytes]:
    """Train the numbers by noisy steps that were charged; return them, and a secret MAC of what was read.

    ``seen`` [n, C, 3] is evidence of nodes whose roles are public; the noise is that of one step, in units of a full row.
    """
    logs = np.log(shares) - np.log(shares).mean()
    around = seen - logs[:, None] * np.array([1.0, 0.0, 0.0])
    bend = max(float((shares * (1 - shares)).mean()), 1e-6)
    found, read = _learn(around, y, np.concatenate([_START, logs]), bend, noise_stddev, key)
    weight, bias = found[:NUM_WEIGHTS], found[NUM_WEIGHTS:] - found[0] * logs
    return {"last.weight": weight.astype(np.float32), "last.bias": bias.astype(np.float32)}, read


def learn_scale(
    scores: NDArray[np.float32],
    y: NDArray[np.int64],
    noise_stddev: float,
    key: Key,
    owners: NDArray[np.int64] | None = None,
) -> tuple[NDArray[np.float32], bytes]:
    """Train one number that scores are multiplied by in the same way: the order of a node's classes stays.

    ``owners`` are the persons who own the nodes, where these are the records; each counts once.
    """
    seen, classes = _log_probabilities(scores)[:, :, None], scores.shape[1]
    found, read = _learn(seen, y, np.ones(1), (1 - 1 / classes) / classes, noise_stddev, key, owners)
    return found.astype(np.float32), read


def _learn(
    seen: Floats,
    y: NDArray[np.int64],
    start: Floats,
    bend: float,
    noise_stddev: float,
    key: Key,
    owners: NDArray[np.int64] | None = None,
) -> tuple[Floats, bytes]:
    """Make the noisy steps from a start; ``bend`` is about how much the log-loss curves."""
    learned = count_of(owners, len(y))
    error = noise_stddev / np.sqrt(STEPS) * _CLIP / learned  # of the mean gradient of all steps
    pull, numbers = error**2 / (_SPREAD**2 * bend), start
    mean, square, read = np.zeros_like(start), np.zeros_like(start), b""
    for step in range(1, STEPS + 1):
        rows = gradient_rows(seen, y, numbers)
        own = derive_key(key, f"step/{step}")
        read = operand_mac(own, np.frombuffer(read, np.uint8), rows)
        total = noisy_group_sums(rows, np.zeros(len(rows), np.int64), 1, noise_stddev, own, owners)[0] / INT16_ONE
        slope = total * (_CLIP / learned) + pull * (numbers - start)
        mean, square = 0.9 * mean + 0.1 * slope, 0.999 * square + 0.001 * slope**2
        size = _RATE * (1 - (step - 1) / STEPS)
        numbers = numbers - size * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
    return numbers if len(y) else start, read


def gradient_rows(seen: Floats, y: NDArray[np.int64], numbers: Floats) -> NDArray[np.float32]:
    """Return each node's gradient of its log-loss, clipped and scaled to norm at most 1; zero without a label.

    ``seen`` is evidence [n, C, K], and the result [n, K], or [n, K + C] with biases.
    """
    weights, biases = np.split(numbers, [seen.shape[2]])
    slopes = softmax(seen @ weights + (biases if len(biases) else 0.0))
    slopes -= np.arange(slopes.shape[1]) == y[:, None]
    rows = np.hstack([(slopes[:, :, None] * seen).sum(axis=1), slopes if len(biases) else slopes[:, :0]])
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    rows *= np.where(y >= 0, _SLACK / np.maximum(norms[:, 0], _CLIP), 0.0)[:, None]
    return rows.astype(np.float32)


def _log_probabilities(scores: NDArray[np.float32]) -> Floats:
    """Log probabilities of mean 0 over classes, of norm at most 6."""
    logs = np.log(np.maximum(softmax(scores.astype(np.float64)), 1e-9))
    return _capped(logs - logs.mean(axis=1, keepdims=True), _MOST_LOG)


def _capped(rows: Floats, most: float) -> Floats:
    """Shorten rows to a norm."""
    return rows * np.minimum(1, most / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12))
