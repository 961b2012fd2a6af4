"""A network of the user's own, trained by DP-SGD on the features of single nodes or records."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sfumato._validate import AT_LEAST_1, STEP_SIZE, check_fields, check_kind, fail, real
from sfumato.bounded._clip_kernel import LEAST_CLIP, MOST_CLIP
from sfumato.bounded._example_gradients import clipped_example_sum
from sfumato.bounded._gradients import PrivateSGD, noisy_steps, private_steps
from sfumato.bounded._modules import is_dense, loss_function, row_function
from sfumato.central._learning import Features, of_all, sgd_event
from sfumato.errors import InputError
from sfumato.method.card import Audience, Card
from sfumato.method.contract import Arrays, Outcome, Planned, Session
from sfumato.method.curator import CuratorMethod
from sfumato.nn._training import Adam
from sfumato.privacy.events import SampledEvent
from sfumato.record.ledger import Release

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph, PublicFacts
    from sfumato.method._plan import Fitted, Plan
    from sfumato.privacy.budget import Budget
    from sfumato.privacy.units import Unit

Rows = Callable[[NDArray[np.integer]], Tensor]
"""What the network reads of some nodes, [len(ids), width]."""
_FLAT, _MOST_NAME = "network.flat", 180
OWN_NETWORK = (
    "Network, first weights and loss are of the user's own making. The claim takes for granted that they were made without "
    "looking at protected data."
)
"""What certificates say of a network that this package did not build."""


@dataclass(frozen=True)
class DPSGD(CuratorMethod):
    r"""DP-SGD trains a network of your own on rows of features, and refuses a network for which there is no proof.

    Each of T steps draws every training row with probability q by a secret coin of its own, and moves the weights by

    .. math:: \frac{1}{q n} \Bigl( \sum_{i} g_i \min(1, C / \|g_i\|) + N(0, z^2 C^2 I) \Bigr)

    (in Adam's form), with :math:`g_i` the gradient of the loss of row i over all weights together. The sum is exact, in whole
    numbers. Nothing draws rows, counts steps or adds noise but :meth:`~sfumato.method._plan.Plan.fit`, so no loader can get
    around the sampling that is accounted for.

    Stacks of ``Linear`` and ``ReLU`` with cross-entropy are computed in whole batches; any other network row by row, as the fixed
    sequence of operations that ``torch.export`` makes of it; predictions too. A network that raises an error on some row stops
    the run, and whoever sees that learns of the row. Weights that are used
    several times, and several passes over a row, are proved in this form. Batch norm, dropout, operations over several rows,
    buffers that change, and branches on values are refused.

    **Formal guarantee.** One Poisson-sampled Gaussian run, at node and record level, for any number of arcs: they are never read.
    The proofs are in :mod:`~sfumato.bounded._gradients`, :mod:`~sfumato.bounded._example_gradients` and
    :mod:`~sfumato.bounded._modules`. Frozen parameters, first weights and loss must not come from protected data, which the
    certificate says. At edge level features and labels are public, and training needs no method.

    Shapes: the network maps float [n, num_features] to scores [n, num_classes]; the release is one float32 for each trained
    parameter.

    Args:
        module: the network; it is copied. Parameters with ``requires_grad`` are trained, from the values that they have.
        loss: maps scores [1, num_classes] and a class [1] to one number; None is cross-entropy.
        epochs: expected passes over the training rows.
        batch_size: expected number of rows in a Poisson sample.
        learning_rate: step size of Adam, in (0, 10].
        l2_clip_norm: C, largest L2 norm of one row's gradient.

    Raises:
        InputError: a setting is out of range. ``calibrate`` also raises it for a network or loss without a proof, and
            UnsupportedUnitError under a unit whose record is not one row.

    >>> from sfumato.graph._graph import PublicFacts
    >>> from sfumato.privacy.budget import Budget
    >>> from sfumato.privacy.units import RecordLevel
    >>> facts = PublicFacts(num_nodes=1000, num_train=750, num_features=10, num_classes=3, directed=False)
    >>> network = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 3))
    >>> plan = DPSGD(network).calibrate(Budget(4.0, 1e-5), RecordLevel(), facts)
    >>> plan.releases[0].shape, round(plan.epsilon, 2)
    ((227,), 4.0)

    Source: Abadi et al. (2016), Deep Learning with Differential Privacy, algorithm 1.
    """

    module: nn.Module
    loss: Callable[[Tensor, Tensor], Tensor] | None = None
    epochs: int = 10
    batch_size: int = 256
    learning_rate: float = 0.01
    l2_clip_norm: float = 1.0
    card: ClassVar[Card] = Card(
        name="dpsgd",
        summary="network of the user's own",
        units=("node", "record"),
        audience=Audience(("weights",), predictions="predictions"),
        controls=(),
        reads_links=False,
    )

    def __post_init__(self) -> None:
        check_kind(nn.Module, "Pass a network of Torch.", module=self.module)
        if self.loss is not None and not callable(self.loss):
            raise fail("loss", type(self.loss).__name__, "to be a function of scores and classes, or None")
        check_fields(self, epochs=AT_LEAST_1, batch_size=AT_LEAST_1, learning_rate=STEP_SIZE)
        check_fields(self, l2_clip_norm=real(LEAST_CLIP, MOST_CLIP))
        object.__setattr__(self, "module", deepcopy(self.module))

    @property
    def settings(self) -> dict[str, Any]:
        """Return the public settings: of the network its class, a digest of what is not trained, and how many parameters are."""
        numbers = {name: getattr(self, name) for name in ("epochs", "batch_size", "learning_rate", "l2_clip_norm")}
        name = "".join(letter if letter.isprintable() else "?" for letter in type(self.module).__name__[:_MOST_NAME])
        return {"module": f"{name} {_digest(self.module)}", "num_parameters": self.size, **numbers}

    @property
    def limits(self) -> tuple[str, ...]:
        """Return what the claim takes for granted about the network."""
        return (OWN_NETWORK,)

    @property
    def size(self) -> int:
        """Return the number of parameters that are trained."""
        return sum(one.numel() for one in self.module.parameters() if one.requires_grad)

    @property
    def _dense(self) -> bool:
        return self.loss is None and is_dense(self.module)

    def calibrate(self, budget: Budget | None, unit: Unit, public: PublicFacts) -> Plan:
        """Refuse a network without a proof, and find the noise for a budget before any data is seen.

        ``budget``, ``unit`` and ``public`` are those of :meth:`~sfumato.method.curator.CuratorMethod.calibrate`.
        """
        if unit.private:
            with torch.inference_mode(False), torch.enable_grad():
                self._check(public)
        return super().calibrate(budget, unit, public)

    def releases(self, unit: Unit, public: PublicFacts, noise_multiplier: float) -> tuple[Release, ...]:
        """List one DP-SGD run."""
        event = sgd_event(unit, public, noise_multiplier, epochs=self.epochs, batch_size=self.batch_size)
        return (Release("network", event, (self.size,), self.size, arc_change=unit.no_arc_change),)

    def run(self, plan: Planned, graph: Graph, session: Session) -> Outcome:
        """Train on the rows of training nodes; rows without a label count as empty records."""
        if not plan.unit.private:
            raise InputError("Expected a unit of privacy, got none. Without privacy train the network itself.")
        with torch.inference_mode(False), torch.enable_grad():
            return self._run(plan, graph, session)

    def _run(self, plan: Planned, graph: Graph, session: Session) -> Outcome:
        planned = next(release.shape for release in plan.releases if release.name == "network")
        if planned != (self.size,):
            raise fail("module", f"{self.size} parameters", f"to have {planned[0]}, as in the plan", "Calibrate again.")
        ids, classes = np.flatnonzero(graph.train_mask), torch.from_numpy(graph.y)
        dense = self._dense
        network = deepcopy(self.module).double() if dense else row_function(self.module, self.width(plan.public))
        loss = nn.functional.cross_entropy if dense else self._loss(plan.public.num_classes)
        rows, released = self.inputs(plan, graph, session)
        told = session.watch.stage("network")
        event, key = plan.event_of(SampledEvent, "network"), session.charge("network")
        sgd = PrivateSGD(
            event.sampling_prob, event.steps, self.l2_clip_norm, event.noise_multiplier, self.learning_rate
        )

        def batch(chosen: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
            return rows(ids[chosen]).double(), classes[ids[chosen]]

        def clipped_sum(chosen: NDArray[np.int64], _: int) -> NDArray[np.int64]:
            return clipped_example_sum(network, *batch(chosen), self.l2_clip_norm, loss)

        if dense:
            operands = private_steps(network, batch, ids, sgd, key, told)
        else:
            operands = noisy_steps(Adam(network.parameters(), sgd.learning_rate), clipped_sum, ids, sgd, key, 0.0, told)
        session.bind("network", np.frombuffer(operands, np.uint8))
        flat = torch.cat([one.detach().reshape(-1) for one in network.parameters()])
        return Outcome({_FLAT: flat.float().numpy()}, released)

    def scores(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> NDArray[np.float32]:
        """Apply the network to the nodes' own features, and to what was released: as it was proved, row by row but for stacks."""
        network, reading = self.trained(weights), self.reading(released, graph)
        if is_dense(network):
            return of_all(network, reading, graph.num_nodes)
        function = row_function(network, self.width(plan.public))

        def each(rows: Tensor) -> Tensor:
            return torch.cat([function(row[None]) for row in rows.double()]).float()

        return of_all(each, reading, graph.num_nodes)

    def width(self, public: PublicFacts) -> int:
        """Return how many numbers the network reads of a node."""
        return public.num_features

    def inputs(self, plan: Planned, graph: Graph, session: Session) -> tuple[Rows, Arrays]:
        """Return what the network reads of nodes, and what is released for it: here nothing.

        ``plan``, ``graph`` and ``session`` are those of :meth:`~sfumato.method.contract.Method.run`.
        """
        return self.reading({}, graph), {}

    def reading(self, released: Arrays, graph: Graph) -> Rows:
        """Return what the network reads of nodes of a finished run: here their features."""
        return partial(_rows, Features(graph))

    def trained(self, weights: Arrays) -> nn.Module:
        """Return the network with released weights (``fitted.weights``), in float32, for use anywhere.

        It is the code that was passed, in evaluation mode: that it reads one row at a time was proved as it was trained, and
        ``predict`` runs that form.

        Raises:
            InputError: the weights are those of another network.
        """
        network = deepcopy(self.module).float().eval()
        parameters = [one for one in network.parameters() if one.requires_grad]
        flat = torch.tensor(weights[_FLAT]) if _FLAT in weights else torch.zeros(0)
        if len(flat) != self.size:
            raise fail("weights", f"{len(flat)} numbers", f"to be {self.size}, as the network has", "Pass its own.")
        with torch.no_grad():
            for one, values in zip(parameters, flat.split([one.numel() for one in parameters]), strict=True):
                one.copy_(values.view_as(one))
        return network

    def load(self, run: str | Path) -> Fitted:
        """Load a run folder of this network, for which ``sfumato.load`` has no network.

        Raises:
            DataError: ``run`` is not a finished run, or was altered.
            InputError: it is the run of another method, or of another network or setting.
        """
        from sfumato.method._plan import Fitted
        from sfumato.record._release_folder import read_release

        stored = read_release(Path(run))
        if (stored.spec["method"], stored.spec["settings"]) != (self.name, self.settings):
            raise fail("run", str(run), "to be a run of this network with these settings", "Build DPSGD as it was.")
        return Fitted.from_stored(stored, self)

    def _loss(self, num_classes: int) -> Callable[[Tensor, Tensor], Tensor]:
        return loss_function(nn.functional.cross_entropy if self.loss is None else self.loss, num_classes)

    def _check(self, public: PublicFacts) -> None:
        """Refuse a network or a loss without a proof, on made-up rows."""
        width = self.width(public)
        if not all(bool(one.detach().isfinite().all()) for one in self.module.parameters() if not one.is_meta):
            raise fail("module", "weights that are not finite", "to have finite first weights", "Initialize them.")
        made_up = torch.zeros(2, width)
        if self._dense:
            try:
                found = tuple(deepcopy(self.module).float()(made_up).shape)
            except (RuntimeError, ValueError) as error:
                raise InputError(f"Expected module to read {width} features, but it raised: {error}") from None
        else:
            self._loss(public.num_classes)
            found = tuple(row_function(self.module, width)(made_up[:1].double()).shape)
        if found[1:] != (public.num_classes,):
            wanted = f"to give {public.num_classes} scores a row, one for each class"
            raise fail("module", found[1:], wanted, "Change its last layer.")


def _digest(module: nn.Module) -> str:
    """Eight signs of what a network is beside its trained weights: classes of layers, names and shapes, and what stays frozen."""
    found = hashlib.sha256(repr([(name, type(one).__name__) for name, one in module.named_modules()]).encode())
    for name, one in (*module.named_parameters(), *module.named_buffers()):
        found.update(repr((name, tuple(one.shape), one.requires_grad)).encode())
        if not one.requires_grad and not one.is_meta:
            found.update(repr(one.detach().cpu().double().numpy().tobytes()).encode())
    return found.hexdigest()[:8]


def _rows(features: Features, ids: NDArray[np.integer]) -> Tensor:
    rows: Any = features.rows(ids)
    return rows.dense() if hasattr(rows, "dense") else rows.matrix.to_dense()
