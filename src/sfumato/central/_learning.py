"""The central methods share this: feature rows, training on public or private labels, and weights as arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sfumato._blocks import let_go, room, rows_of
from sfumato._validate import ABOVE_0, AT_LEAST_1, PRIVATE_LABELS, STEP_SIZE, check_fields, optional, setting
from sfumato.bounded._exact import MOST_ROWS, WholeRows
from sfumato.bounded._gradients import PrivateSGD, check_examples, private_steps
from sfumato.bounded._owners import owners_of
from sfumato.central._rows import features_of
from sfumato.graph._facts import labeled_mask
from sfumato.method.curator import CuratorMethod
from sfumato.nn._losses import LOSSES, Loss, class_slope
from sfumato.nn._models import MLP, Encoder, SparseRows
from sfumato.nn._stored import StoredRows
from sfumato.nn._training import Steps, train_full_batch
from sfumato.privacy.events import PoissonGaussianEvent, SampledEvent

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph, PublicFacts
    from sfumato.method.contract import Planned, Session
    from sfumato.noise.keys import Key
    from sfumato.privacy.units import Unit

_PUBLIC_EPOCHS, _PRIVATE_EPOCHS = 100, 10
MOST_AT_ONCE = 1 << 18
"""Most nodes whose scores are computed at a time."""
_MOST_KEPT, _MOST_COPIED = 1 << 28, 1 << 22
"""Most numbers of rows that DP-SGD keeps as integers of 16 bits, and most that are copied for it at a time."""
MOST_IN_STEP = 1 << 15
"""Most nodes that one step reads where labels are public, and most that an epoch is chosen by."""

Input = Tensor | SparseRows | StoredRows | WholeRows
Rows = Callable[[NDArray[np.integer]], Input | tuple[Input, ...]]
"""What a network takes of these nodes: one input, or several."""


class TrainSettings(Protocol):
    """These public settings are what training reads; ``epochs`` None means 100 passes full-batch and 10 by DP-SGD."""

    @property
    def epochs(self) -> int | None: ...
    @property
    def learning_rate(self) -> float: ...
    @property
    def l2_clip_norm(self) -> float: ...


@dataclass(frozen=True)
class NetworkMethod(CuratorMethod):
    """A network method trains networks: full-batch where labels are public, by DP-SGD where they are not.

    Args:
        width: number of units in each hidden layer.
        epochs: passes of each network over the training nodes; None takes the default of the method and unit. Where labels are
            public, a pass reads at most :data:`MOST_IN_STEP` nodes: of more, it takes the next part of a random division.
        learning_rate: step size of Adam, in (0, 10].
        batch_size: expected number of nodes in a Poisson sample (private labels only).
        l2_clip_norm: largest L2 norm of one example's gradient (private labels only).
    """

    width: int = 16
    epochs: int | None = None
    learning_rate: float = 0.01
    batch_size: int = setting(256, PRIVATE_LABELS)
    l2_clip_norm: float = setting(1.0, PRIVATE_LABELS)

    def __post_init__(self) -> None:
        check_fields(self, width=AT_LEAST_1, batch_size=AT_LEAST_1, learning_rate=STEP_SIZE, l2_clip_norm=ABOVE_0)
        check_fields(self, epochs=optional(AT_LEAST_1))


class Features:
    """Feature rows are held as the networks take them: sparse or dense as they are stored."""

    def __init__(self, graph: Graph) -> None:
        self.x: Any = features_of(graph)

    def rows(self, ids: NDArray[np.integer] | None) -> SparseRows | StoredRows:
        """Return the feature rows of some nodes, [len(ids), num_features], or of all nodes if ``ids`` is None."""
        if not sp.issparse(self.x):
            return StoredRows(self.x, ids)
        return self._all if ids is None else SparseRows(self.x[ids])

    @cached_property
    def _all(self) -> SparseRows:
        return SparseRows(self.x)


def sgd_event(
    unit: Unit,
    public: PublicFacts,
    noise_multiplier: float,
    *,
    epochs: int | None,
    batch_size: int,
    by_person: bool = False,
) -> PoissonGaussianEvent:
    """Describe one DP-SGD run as an event: steps and sampling probability follow from public counts alone.

    With ``by_person`` the run is one of :func:`train`, which draws whole persons where they are the records.
    """
    check_examples(unit, by_person=by_person)
    rows = public.num_learned
    batch = min(batch_size, rows)
    steps = max(1, (epochs or _PRIVATE_EPOCHS) * rows // batch)
    return PoissonGaussianEvent(
        batch / rows, noise_multiplier, steps, "replace" if unit.relation == "replace" else "add-remove"
    )


def train(
    settings: TrainSettings,
    plan: Planned,
    session: Session,
    stage: str,
    network: nn.Module,
    graph: Graph,
    rows: Rows,
    *,
    block: int = MOST_ROWS,
    alone: bool = False,
    bias_pace: float = 1.0,
) -> None:
    """Train a network in place: full-batch where labels are public, by DP-SGD (charged as ``stage``) where they are not.

    With ``alone`` DP-SGD computes each example by itself, and layers may be convolutions. Biases learn at ``bias_pace`` times
    the learning rate there.
    """
    told = session.watch.stage(stage)
    if session.watch.accuracies is not None:
        told = _measuring(session.watch.accuracies.setdefault(stage, {}), network, graph, rows, told)
    if "labels" in plan.unit.public:
        _, ids, val = labeled(graph)
        epochs = settings.epochs or _PUBLIC_EPOCHS
        parts, held_out = _drawn(ids, session.seed, epochs), _drawn(val, session.seed, 1)[0]
        session.watch.curves[stage] = train_on(
            network, graph, np.concatenate(parts), _scorers(network, rows, parts), held_out,
            _scorers(network, rows, [held_out])[0] if len(held_out) else None,
            epochs=epochs, learning_rate=settings.learning_rate, progress=told,
        )  # fmt: skip
    else:
        event, key = plan.event_of(SampledEvent, stage), session.charge(stage)
        owners = owners_of(plan.unit, graph, np.flatnonzero(graph.train_mask))
        how: Any = {"alone": alone, "bias_pace": bias_pace, "owners": owners}
        operands = train_charged(settings, event, key, network, graph, rows, told, block, **how)
        session.bind(stage, np.frombuffer(operands, np.uint8))


def _measuring(
    found: dict[str, list[float]], network: nn.Module, graph: Graph, rows: Rows, told: Steps | None
) -> Steps:
    """Measure the accuracy on training and validation nodes after each step, as evaluation outside the guarantee.

    At node level it reads private labels, at iterates that are not released. Nothing of the fit may depend on it: a copy of
    the network is measured, so weights, mode and batch norms of the one that is trained stay untouched.
    """
    assert graph.y is not None
    parts = {}
    for role, mask in (("train", graph.train_mask), ("validation", graph.val_mask)):
        ids = np.flatnonzero(mask & (graph.y >= 0))
        inputs = _inputs(rows(ids))
        if len(ids) and not any(isinstance(one, WholeRows) for one in inputs):  # only exact training takes whole rows
            parts[role] = inputs, torch.from_numpy(graph.y[ids])

    def step(done: int, total: int) -> None:
        measured = deepcopy(network).float().eval()
        with torch.no_grad():
            for role, (inputs, targets) in parts.items():
                right = torch.eq(measured(*inputs).argmax(1), targets)
                found.setdefault(role, []).append(float(right.double().mean()))
        if told is not None:
            told(done, total)

    return step


def train_on(
    network: nn.Module,
    graph: Graph,
    ids: NDArray[np.integer],
    scores: Callable[[], Tensor] | list[Callable[[], Tensor]],
    val: NDArray[np.integer],
    validate: Callable[[], Tensor] | None,
    **how: Any,
) -> list[float]:
    """Train full-batch on public labels of nodes, by their scores; return the losses. Other nodes choose the epoch, if any."""
    y = torch.from_numpy(_learned(graph))
    how |= {"num_classes": graph.num_classes, "loss": loss_of(graph), "validation_targets": y[val]}
    return train_full_batch(network, scores, y[ids], validate=validate if len(val) else None, **how)


def _drawn(ids: NDArray[np.integer], seed: int, most: int) -> list[NDArray[np.integer]]:
    """Divide nodes at random into equal parts of at most :data:`MOST_IN_STEP`, and return the first ``most`` of them."""
    num_parts = -(-len(ids) // MOST_IN_STEP)
    if num_parts < 2:
        return [ids]
    return [np.sort(part) for part in np.array_split(np.random.default_rng(seed).permutation(ids), num_parts)[:most]]


def _scorers(
    network: Callable[..., Tensor], rows: Rows, parts: list[NDArray[np.integer]]
) -> list[Callable[[], Tensor]]:
    """What gives the scores of each part of the nodes.

    The inputs of a single part are kept. Those of many are read in order once, where they fit a bound, and else made anew.
    """
    if len(parts) > 1:
        read = _read_once(rows, parts)
        return [partial(lambda number: network(*_inputs(read(number))), number) for number in range(len(parts))]
    inputs = _inputs(rows(parts[0]))
    return [lambda: network(*inputs)]


def _read_once(rows: Rows, parts: list[NDArray[np.integer]]) -> Callable[[int], Input | tuple[Input, ...]]:
    """What gives the rows of each part. Dense ones are read in ascending order, however parts lie among each other."""
    first = rows(parts[0][:1])
    stored = isinstance(first, StoredRows)
    if not isinstance(first, StoredRows | Tensor) or math.prod(first.shape[1:]) * sum(map(len, parts)) > _MOST_KEPT:
        return lambda number: rows(parts[number])
    ids, ends = np.concatenate(parts), np.cumsum([0, *map(len, parts)])
    order, kept = np.argsort(ids, kind="stable"), room((len(ids), *first.shape[1:]), np.float32)
    for start in range(0, len(ids), MOST_IN_STEP):
        at = order[start : start + MOST_IN_STEP]
        found: Any = rows(ids[at])
        kept[at] = rows_of(found.matrix, ids[at]) if stored else found.numpy()
        let_go(kept)

    def read(number: int) -> Input:
        let_go(kept)
        own = kept[ends[number] : ends[number + 1]]
        return StoredRows(own) if stored else torch.from_numpy(own)

    return read


def of_all(network: Callable[..., Tensor], rows: Rows, num_nodes: int) -> NDArray[np.float32]:
    """Compute what a network gives for all nodes, float32 [num_nodes, columns], in parts of :data:`MOST_AT_ONCE`."""
    parts: list[NDArray[np.integer]] = [*np.array_split(np.arange(num_nodes), max(1, -(-num_nodes // MOST_AT_ONCE)))]
    with torch.no_grad():
        if len(parts) == 1:
            return network(*_inputs(rows(parts[0]))).numpy()
        found: NDArray[np.float32] | None = None
        for part in parts:
            scores = network(*_inputs(rows(part))).numpy()
            found = room((num_nodes, scores.shape[1]), np.float32) if found is None else found
            found[part[0] : part[-1] + 1] = scores
            let_go(found)
        assert found is not None
        return found


def train_charged(
    settings: TrainSettings,
    event: SampledEvent,
    key: Key,
    network: nn.Module,
    graph: Graph,
    rows: Rows,
    progress: Steps | None,
    block: int = MOST_ROWS,
    *,
    alone: bool = False,
    bias_pace: float = 1.0,
    owners: NDArray[np.int64] | None = None,
) -> bytes:
    """Train a network in place by DP-SGD that was charged before, as this ``event``. Return a secret MAC of what was read.

    ``owners`` are the persons who own the training nodes, where these are the records (:mod:`~sfumato.bounded._owners`).
    """
    ids, y, loss = np.flatnonzero(graph.train_mask), torch.from_numpy(_learned(graph)), loss_of(graph)
    sgd = PrivateSGD(
        event.sampling_prob, event.steps, settings.l2_clip_norm, event.noise_multiplier, settings.learning_rate
    )
    network.double()

    @cache
    def kept() -> WholeRows | None:  # read by the first step, as rows are
        return None if alone else _whole(network, rows, ids)

    def batch(chosen: NDArray[np.int64]) -> tuple[Tensor | WholeRows, ...]:
        whole = kept()
        if whole is not None:
            return whole[torch.from_numpy(chosen)], y[ids[chosen]]
        return *map(_double, _inputs(rows(ids[chosen]))), y[ids[chosen]]

    slope = class_slope if loss is None else loss.slope
    how: Any = {"alone": alone, "bias_pace": bias_pace, "owners": owners}
    operands = private_steps(network, batch, ids, sgd, key, progress, block, slope, **how)
    network.float().eval()
    return operands


def _whole(network: nn.Module, rows: Rows, ids: NDArray[np.integer]) -> WholeRows | None:
    """The integers of all rows, made once, if a first layer reads them as they are and they are few enough to be kept."""
    first = rows(ids[:1]) if len(ids) and isinstance(network, nn.Linear | MLP | Encoder) else None
    if isinstance(first, tuple | WholeRows | None):
        return None
    if isinstance(first, SparseRows):
        stored = rows(ids)
        assert isinstance(stored, SparseRows)
        return WholeRows.of_csr(stored.scipy())
    if len(first.shape) != 2 or len(ids) * first.shape[1] > _MOST_KEPT:
        return None
    parts = np.array_split(ids, -(-len(ids) * max(1, first.shape[1]) // _MOST_COPIED))
    found = (_double(*_inputs(rows(part))) for part in parts)
    return WholeRows.joined([WholeRows.of(part, bias=True) for part in found if isinstance(part, Tensor)])


def _inputs(rows: Input | tuple[Input, ...]) -> tuple[Input, ...]:
    return rows if isinstance(rows, tuple) else (rows,)


def _double(rows: Input) -> Tensor | WholeRows:
    """In float64; sparse rows that are read here are small batches."""
    match rows:
        case WholeRows():
            return rows
        case StoredRows():
            return rows.dense().double()
        case SparseRows():
            return rows.matrix.to_dense().double()
    return rows.double()


def labeled(graph: Graph) -> tuple[Tensor, NDArray[np.int64], NDArray[np.int64]]:
    """Return all labels or targets, and the labeled training and validation nodes; called only where labels are public."""
    train_ids, val = (np.flatnonzero(mask & labeled_mask(graph)) for mask in (graph.train_mask, graph.val_mask))
    return torch.from_numpy(_learned(graph)), train_ids, val


def loss_of(graph: Graph) -> Loss | None:
    """Return the loss of the targets of a graph; None for classes, which have cross-entropy."""
    return None if graph.targets is None else LOSSES[graph.targets.kind]


def _learned(graph: Graph) -> NDArray[Any]:
    """What the scores are compared with: classes int64 [num_nodes], or targets float32 [num_nodes, k]."""
    if graph.targets is not None:
        return graph.targets.scaled
    assert graph.y is not None
    return graph.y
