r"""DP-SGD: Poisson samples, per-example clipping by the norm trick, exact sums, noise on a grid.

For a linear layer :math:`z = W a + b` that each example meets once, the example's gradient is the outer product
:math:`g \tilde a^\top` of the gradient g in z and :math:`\tilde a = (a, 1)` (the 1 is the bias), so its norm is
:math:`\|g\| \|\tilde a\|`: no per-example gradient is stored, and one product a layer gives the clipped sum.

**Formal guarantee** of :func:`private_steps`: a :class:`~sfumato.privacy.events.PoissonGaussianEvent` under
add/remove, where removing a record makes its contribution zero. Each public id in the training role is drawn with
probability q by a secret coin of its own; an example's clipped gradient, over all parameters jointly, has norm at
most C; the divisor is the public ``q * num_ids``; empty samples are noised and counted.

**Proof of the sum.** In layer l, :math:`\tilde a_l` is kept as integers :math:`p_l`, :math:`\|p_l\| \le 2^s`, and
:math:`g_l`, clipped, as integers :math:`q_l` with :math:`\sum_l \|q_l\|^2 \le 2^{2t}`
(:mod:`~sfumato.bounded._exact`: s = t = 14). Both inequalities are checked on the integers, exactly. If an
inequality fails (a number overflows), :math:`p_l` or all :math:`q_l` become zero. An example thus adds the integers
:math:`q_l p_l^\top`, in units of :math:`C / 2^{s + t}`, of joint norm
:math:`\left(\sum_l \|q_l\|^2 \|p_l\|^2\right)^{1/2} \le 2^{s + t}`: at most C, whatever floating point did before.
Sums are made in integers that cannot overflow, as are the sums of blocks into which a sample is cut: of at most ``MOST_ROWS``
examples in all. So two samples that differ in one example have sums that differ by *exactly* what this example adds. An
empty record adds zero, so it makes no difference whether it is drawn.

**Grid.** The sum is rounded to multiples of :math:`C / 2^{24}`, in integers. Rounding changes the difference of two
sums by less than one step a coordinate, so the rounded sums differ by at most :math:`C (1 + \eta)`,
:math:`\eta = 2^{-24} \sqrt P` for P parameters. Noise has standard deviation z C (1 + eta).

**What is assumed.** What an example adds has to be a function of its own row and of the weights. All products of layers
are exact, norms and functions of single numbers (SELU, softmax) are computed row by row in one order of correctly rounded
operations (:mod:`sfumato.loops`), so they are. Between them stages of ProGAP have means and deviations along one row by Torch.
Torch is assumed to compute these to the same bits wherever in a batch the row stands and whatever
the other rows hold. Tests check this on every network that is trained so.

Source: Abadi et al. (2016), algorithm 1; norm trick: Goodfellow (2015).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sfumato._validate import ABOVE_0, AT_LEAST_1, check_fields, fail, real
from sfumato.bounded._chains import Plan
from sfumato.bounded._exact import GRADIENT_BITS, MOST_ROWS, ROW_BITS, ExactLinear, WholeRows, check_rows
from sfumato.bounded._example_gradients import clipped_example_sum
from sfumato.bounded._owners import Persons
from sfumato.bounded._shards import Shards, ranges
from sfumato.errors import UnsupportedUnitError
from sfumato.loops._products import products
from sfumato.nn._losses import Slope, class_slope
from sfumato.nn._training import Adam
from sfumato.noise._witness import witnessed
from sfumato.noise.coins import coins
from sfumato.noise.gaussian import rounded_gaussian
from sfumato.noise.keys import Key, derive_key, operand_mac
from sfumato.privacy._splitting import MOST_SGD_NOISE
from sfumato.privacy.units import NodeLevel, PersonNodesLevel, RecordLevel, Unit

_GRID_BITS = 24
SUM_BITS = ROW_BITS + GRADIENT_BITS
"""A clipped sum holds integers, in steps of C / 2^SUM_BITS."""
Batch = Callable[[NDArray[np.int64]], Sequence[Tensor | WholeRows]]


@dataclass(frozen=True)
class PrivateSGD:
    """The settings of a DP-SGD run. All of them are public.

    ``sampling_prob`` is q, ``l2_clip_norm`` C, and ``noise_multiplier`` z, the noise's standard deviation over C (1 + eta).

    >>> PrivateSGD(sampling_prob=0.1, steps=10, l2_clip_norm=1.0, noise_multiplier=1.0, learning_rate=0.01).steps
    10
    """

    sampling_prob: float
    steps: int
    l2_clip_norm: float
    noise_multiplier: float
    learning_rate: float

    def __post_init__(self) -> None:
        check_fields(self, sampling_prob=real(0, 1, above=True), steps=AT_LEAST_1, l2_clip_norm=ABOVE_0)
        check_fields(self, noise_multiplier=real(0, MOST_SGD_NOISE, above=True), learning_rate=ABOVE_0)


def check_examples(unit: Unit, *, by_person: bool = False) -> None:
    """Refuse a unit whose record is not a single example.

    Only where a record is one example does it change the clipped sum by at most C. A node's record is one example if the
    network reads nothing but the node's own features and earlier releases. With ``by_person`` the caller counts all examples of
    one person as one, and draws them together (:mod:`~sfumato.bounded._owners`): then a person of many nodes may be the record.

    >>> check_examples(RecordLevel())
    """
    if by_person and type(unit) is PersonNodesLevel:
        return
    if type(unit) not in (NodeLevel, RecordLevel):  # a subclass may hold more than one example
        raise UnsupportedUnitError(
            f"DP-SGD has no bounded sensitivity when the unit is {unit.describe()}: a record may be more than one example. "
            "Use NodeLevel or RecordLevel, or for classes method class-dp or subclass-dp."
        )


def rounding_margin(num_parameters: int) -> float:
    """Return eta, the largest part of C by which rounding to the grid may carry a clipped sum beyond C.

    >>> rounding_margin(10000) < 1e-5
    True
    """
    return 2.0**-_GRID_BITS * math.sqrt(num_parameters)


def to_grid(sums: NDArray[np.int64], parts: int = 1) -> NDArray[np.int64]:
    """Round sums over ``parts`` from steps of C / 2^SUM_BITS to the grid of steps of C / 2^24, halves upward.

    >>> to_grid(np.array([2**28, 7, 8])).tolist(), to_grid(np.array([2**28, 23, 24]), 3).tolist()
    ([16777216, 0, 1], [5592405, 0, 1])
    """
    size = parts << (SUM_BITS - _GRID_BITS)
    return (sums + size // 2) // size if parts > 1 else (sums + (size >> 1)) >> (SUM_BITS - _GRID_BITS)


def clipped_gradient_sum(
    model: nn.Module,
    inputs: Sequence[Tensor | WholeRows],
    targets: Tensor,
    l2_clip_norm: float,
    slope: Slope = class_slope,
    plan: Plan | None = None,
) -> NDArray[np.int64]:
    """Sum the gradients of the losses of all examples, each clipped to ``l2_clip_norm`` over all parameters jointly.

    **Formal guarantee.** The result is exact: integers, in steps of ``l2_clip_norm`` / 2^28, of which an example adds a
    vector of norm at most 2^28, whatever its loss and however many targets it has. An example whose targets are missing (an
    empty record) has zero loss and adds zero, and so does an example whose gradient overflows.

    Every parameter of ``model`` must belong to an ``nn.Linear`` that an example meets once: batch norm and shared weights are
    refused. A ``forward`` that mixes rows in other ways cannot be detected here: pass networks of `nn/`. ``targets`` are
    classes, or what ``slope`` reads, the gradient of the loss in the scores, row by row (:mod:`~sfumato.nn._losses`).

    >>> model = nn.Linear(2, 2, bias=False).double()
    >>> _ = nn.init.zeros_(model.weight)
    >>> steps = clipped_gradient_sum(model, [torch.tensor([[3.0, 4.0]]).double()], torch.tensor([0]), l2_clip_norm=1.0)
    >>> (steps / 2**28).round(3).tolist()
    [-0.424, -0.566, 0.424, 0.566]
    """
    plan = plan or Plan(model, linear_layers(model))
    layers = plan.layers
    check_rows(len(targets))
    room = 2.0**GRADIENT_BITS - math.sqrt(sum(layer.out_features for layer in layers)) / 2 - 1  # norm before rounding
    most, total = 2.0**GRADIENT_BITS / l2_clip_norm, torch.zeros(plan.size, dtype=torch.int64)
    chained = plan.chain(inputs, total)
    if chained is not None:
        chain, scores = chained
        chain.backward(slope(scores, targets), room, most)
        return total.numpy()
    with _exact(layers) as met:
        scores = model(*inputs)
    missed = slope(scores.detach(), targets)
    grads = torch.autograd.grad(scores, [met[layer][1] for layer in layers], missed)
    entered = [met[layer][0].summed for layer in layers]
    products().clipped_sums([grad.contiguous() for grad in grads], entered, room, most, plan.sums(total))
    return total.numpy()


@contextmanager
def _exact(layers: Sequence[nn.Linear]) -> Iterator[dict[nn.Linear, tuple[WholeRows, Tensor]]]:
    """Let layers compute by exact products, and keep what entered and left each."""
    met: dict[nn.Linear, tuple[WholeRows, Tensor]] = {}

    def forward(layer: nn.Linear, entering: Tensor | WholeRows) -> Tensor:
        if layer in met:
            raise fail("model", type(layer).__name__, "to use each Linear layer once an example")
        if isinstance(entering, WholeRows):
            rows, dense = entering, None
        else:
            rows, dense = WholeRows.of(entering.detach(), bias=layer.bias is not None), entering
        out: Tensor = ExactLinear.apply(dense, layer.weight, layer.bias, rows)
        met[layer] = rows, out
        return out

    for layer in layers:
        layer.forward = partial(forward, layer)  # type: ignore[method-assign]
    try:
        yield met
    finally:
        for layer in layers:
            del layer.forward


def linear_layers(model: nn.Module) -> list[nn.Linear]:
    """Return the layers of a network, which has nothing else that holds parameters; refuse others.

    >>> linear_layers(nn.Linear(2, 1))
    [Linear(in_features=2, out_features=1, bias=True)]
    """
    layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
    owned = {id(parameter) for layer in layers for parameter in layer.parameters()}
    foreign = [name for name, parameter in model.named_parameters() if id(parameter) not in owned]
    mixing = [type(m).__name__ for m in model.modules() if isinstance(m, nn.modules.batchnorm._NormBase)]
    shared = sum(len(list(layer.parameters())) for layer in layers) > len(owned)
    if foreign or mixing or shared:
        raise fail(
            "model",
            ", ".join(foreign + mixing) or "shared weights",
            "to hold only Linear layers used once an example",
            "Remove batch norm and parameters outside Linear layers.",
        )
    return layers


def private_steps(
    model: nn.Module,
    batch: Batch,
    ids: NDArray[np.integer],
    settings: PrivateSGD,
    key: Key,
    progress: Callable[[int, int], None] | None = None,
    block: int = MOST_ROWS,
    slope: Slope = class_slope,
    *,
    alone: bool = False,
    bias_pace: float = 1.0,
    owners: NDArray[np.int64] | None = None,
) -> bytes:
    """Train ``model`` in place with DP-Adam. The result is the last iterate. Return a secret MAC of all sums that were read.

    ``ids`` are the public ids in the training role: position and divisor use nothing else. ``block`` examples are read at a
    time, which changes no bit of the sums, but few wide rows stay in fast memory. Where a step is large, the workers of an
    engine share it, which changes no bit either (:mod:`~sfumato.bounded._shards`). With ``alone`` each example is computed by
    itself (:func:`~sfumato.bounded._example_gradients.clipped_example_sum`), so layers may be convolutions. Its sums are on the
    grid as they are, and eta is 0; targets are classes. Biases learn at ``bias_pace`` times the learning rate. ``owners`` are the
    public persons who own the ids: then a person is the record, all of whose examples are drawn together and count as their mean
    (:mod:`~sfumato.bounded._owners`).

    >>> model, x, y = nn.Linear(2, 2).double(), torch.eye(2).double(), torch.tensor([0, 1])
    >>> settings = PrivateSGD(0.5, steps=3, l2_clip_norm=1.0, noise_multiplier=1.0, learning_rate=0.1)
    >>> len(private_steps(model, lambda chosen: (x[chosen], y[chosen]), np.arange(2), settings, bytes(32)))
    32
    """
    parameters = list(model.parameters())
    if any(parameter.dtype != torch.float64 for parameter in parameters):
        raise fail("model", "parameters below float64", "to be computed in float64", "Call model.double() first.")
    if len(ids) == 0:
        raise fail("ids", "no id", "to hold the ids of the training role", "Give at least one node the train role.")

    size, kept = sum(p.numel() for p in parameters), None if alone else Plan(model, linear_layers(model))
    paces = [bias_pace if name.endswith("bias") else 1.0 for name, _ in model.named_parameters()]
    optimizer = Adam(parameters, settings.learning_rate, paces=paces if bias_pace != 1 else ())
    cuts = ranges(len(ids), 3.0 * size * settings.sampling_prob * len(ids))  # forward, backward and the sums
    shards = None
    if kept is not None and kept.known and len(cuts) > 1:
        shards = Shards(clipped_gradient_sum, model, (settings.l2_clip_norm, slope), batch, cuts, block)

    def summed(chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        check_rows(len(chosen))
        if shards is not None:
            return shards.sum(optimizer.flat.numpy(), chosen)
        total = np.zeros(size, np.int64)
        for at in range(0, max(len(chosen), 1), block):
            *inputs, targets = batch(chosen[at : at + block])
            assert isinstance(targets, Tensor)
            if alone:
                assert isinstance(inputs[0], Tensor)
                total += clipped_example_sum(model, inputs[0], targets, settings.l2_clip_norm)
            else:
                total += clipped_gradient_sum(model, inputs, targets, settings.l2_clip_norm, slope, kept)
        return total

    margin = 0.0 if alone else rounding_margin(size)
    if owners is None:
        return noisy_steps(
            optimizer,
            lambda chosen, _: summed(chosen) if alone else to_grid(summed(chosen)),
            ids,
            settings,
            key,
            margin,
            progress,
        )
    if alone:
        raise fail("owners", "persons", "to be None where each example is computed by itself")
    persons = Persons.of(owners)

    def of_persons(drawn: NDArray[np.int64], _: int) -> NDArray[np.int64]:
        total = np.zeros(size, np.int64)
        for count, rows in persons.drawn(drawn):
            total += to_grid(summed(rows), count)
        return total

    return noisy_steps(optimizer, of_persons, persons.numbers, settings, key, margin, progress)


def noisy_steps(
    optimizer: Adam,
    clipped_sum: Callable[[NDArray[np.int64], int], NDArray[np.int64]],
    ids: NDArray[np.integer],
    settings: PrivateSGD,
    key: Key,
    margin: float,
    progress: Callable[[int, int], None] | None = None,
) -> bytes:
    """Draw examples, add noise to their clipped sum, and let an optimizer step, again and again. Return a secret MAC of all sums.

    **Formal guarantee.** A :class:`~sfumato.privacy.events.PoissonGaussianEvent`, if the sums of one step for two neighboring
    data sets differ by at most C (1 + margin) where the example of the one record is drawn, and are equal where it is not.

    ``clipped_sum`` maps positions in ``ids``, which are public, and a step to int64 steps of C / 2^24; ``margin`` is eta.

    >>> weight = nn.Parameter(torch.zeros(2, dtype=torch.float64))
    >>> settings = PrivateSGD(1.0, steps=1, l2_clip_norm=1.0, noise_multiplier=1e-3, learning_rate=0.1)
    >>> _ = noisy_steps(Adam([weight], 0.1), lambda ids, step: np.array([2**24, 0]), np.arange(1), settings, bytes(32), 0.0)
    >>> round(weight[0].item(), 2)
    -0.1
    """
    step_size = settings.l2_clip_norm / 2.0**_GRID_BITS
    stddev = settings.noise_multiplier * (1 + margin) * 2.0**_GRID_BITS
    divisor = settings.sampling_prob * len(ids)
    operands, everyone = key, np.arange(len(ids))
    for step in range(settings.steps):
        chosen = np.flatnonzero(coins(derive_key(key, "sample", step), settings.sampling_prob, ids))
        flat = clipped_sum(chosen, step)
        mac = operand_mac(key, flat)
        operands = derive_key(operands, mac)
        noise_key = derive_key(key, "noise", step, mac)
        noisy = flat + rounded_gaussian(noise_key, stddev, 0, len(flat))
        witnessed(noisy, stddev, partial(clipped_sum, everyone, step))
        np.multiply(noisy, step_size / divisor, out=optimizer.grad.numpy(), casting="same_kind")
        optimizer.step()
        if progress is not None:
            progress(step + 1, settings.steps)
    return operands
