"""LPGNN trains a graph network on propagated feature reports with smoothed label reports; all of it is post-processing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sfumato._validate import AT_LEAST_1, STEP_SIZE, check_choice, check_fields, fail, flag, integer, real, setting
from sfumato.errors import DataError
from sfumato.local._controls import BESIDE_NETWORK, PUBLISHED, REPORTED
from sfumato.local._drop import LOSSES, SELECTIONS, Agreement, Epoch, Objective, Selection, forward_loss
from sfumato.local._method import LocalMethod
from sfumato.local._presets import preset
from sfumato.local._propagation import noise_scale
from sfumato.method.card import Card

if TYPE_CHECKING:
    from torch import Tensor

    from sfumato.local._collection import Collection
    from sfumato.method.contract import Arrays, Session
    from sfumato.nn._gnn import GNN
    from sfumato.nn._topology import PropagatedRows, Topology

FEATURES_IN = ("reports", "random", "ones", "degree")
_CHOICES = {
    "backbone": ("sage", "gcn", "gat", "mlp"),
    "loss": LOSSES,
    "select": SELECTIONS,
    "activation": ("selu", "relu"),
    "aggregator": ("gcn", "mean"),
}
_LEAST_EPOCHS = 10  # before patience may end training
_COLUMNS = 256  # of made-up features where the graph has none
_PREFIX = "network."


@dataclass(frozen=True)
class LPGNN(LocalMethod):
    r"""LPGNN propagates feature reports ``steps_x`` hops and trains a two-layer network by Drop with ``steps_y`` hops of labels.

    The network reads :math:`S^{K_x} \hat X` with :math:`S = D^{-1/2} A D^{-1/2}` and :math:`\hat X` the unbiased estimate of
    the features; the losses are in :mod:`~sfumato.local._drop`.

    **Formal guarantee.** That of its :class:`~sfumato.randomizers._questions.Questions`; training, choosing an epoch and
    predicting read reports, roles and links alone.

    Args:
        steps_x: hops K_x of features.
        steps_y: hops K_y of labels, for ``loss="drop"``.
        backbone: "sage", "gcn", "gat" or "mlp".
        loss: "drop", "forward" or "cross-entropy" (:mod:`~sfumato.local._drop`).
        select: which epoch is kept: "debiased", "published", "algorithm-4" or "last".
        learning_rate: step size of Adam, full batch.
        weight_decay: L2, added to the gradient.
        dropout: after the first layer's activation.
        epochs: at most so many.
        patience: after 10 epochs, stop once the validation loss has not fallen for so many; 0 never does.
        hidden: width, of each head for "gat".
        activation: "selu" or "relu".
        scale: divide propagated columns by the standard deviation that the reports' noise has there, which is public:
            ``feature_noise`` times :func:`~sfumato.local._propagation.noise_scale`. Columns in the clear are left as they are.
        features_in: "reports", or made-up features that ask users for nothing (``epsilon_x`` becomes 0): "random",
            uniform in [0, 1] from a public seed (the no-information control; with ``scale``, standardized), "ones", or
            "degree", one-hot, the last column for that degree and above. They have as many columns as the features.
        aggregator: what each hop of features and of labels does: "gcn", or "mean", the mean over neighbors. Either reads
            the graph and the reports alone.

    Weights: ``network.*``, and ``selection``: the kept epoch, its debiased validation accuracy and 95 % interval.

    Raises:
        InputError: a setting is out of range, reports are used but not asked for, or plain cross-entropy meets reports
            that are sets of classes.

    >>> LPGNN(features_in="random").epsilon_x
    0.0
    >>> from sfumato.graph._graph import PublicFacts
    >>> facts = PublicFacts(num_nodes=1000, num_train=500, num_features=10, num_classes=3, directed=False)
    >>> method = LPGNN(epsilon_x=1.0, epsilon_y=2.0)
    >>> method.calibrate(None, method.unit, facts).epsilon
    3.0

    Source: Sajadmanesh and Gatica-Perez (2021), Locally Private Graph Neural Networks, CCS.
    """

    steps_x: int = 4
    steps_y: int = setting(2, {"loss": ("drop",)})
    backbone: str = "sage"
    loss: str = "drop"
    select: str = "debiased"
    learning_rate: float = 0.01
    weight_decay: float = 0.001
    dropout: float = 0.5
    epochs: int = 500
    patience: int = 0
    hidden: int = 16
    activation: str = "selu"
    scale: bool = setting(True, {"features_in": ("reports", "random")}, unless={"epsilon_x": (None,)})
    features_in: str = "reports"
    aggregator: str = "gcn"
    card: ClassVar[Card] = Card(
        name="lpgnn",
        summary="features randomized by each user, labels in the clear unless --epsilon-y says otherwise",
        words=("pgc",),
        options={
            "epsilon_x": "epsilon_x",
            "epsilon_y": "epsilon_y",
            "mechanism": "mechanism",
            "delta": "delta",
        },
        units=("local",),
        citations=("sajadmanesh2021locally",),
        audience=REPORTED,
        controls=BESIDE_NETWORK,
        notes=(PUBLISHED,),
    )

    def __post_init__(self) -> None:
        check_choice(FEATURES_IN, features_in=self.features_in)
        if self.features_in != "reports":
            object.__setattr__(self, "epsilon_x", 0.0)
        elif self.epsilon_x == 0:
            remedy = "To ask for no features take lpgnn without --preset, or make them up: features_in random, ones or degree."
            raise fail("epsilon_x", self.epsilon_x, "to be above 0 with features_in reports", remedy)
        super().__post_init__()
        check_fields(self, scale=flag(), steps_x=integer(0), steps_y=integer(0), patience=integer(0), epochs=AT_LEAST_1)
        check_fields(self, hidden=AT_LEAST_1)
        for name, choices in _CHOICES.items():
            check_choice(choices, **{name: getattr(self, name)})
        check_fields(self, learning_rate=STEP_SIZE, weight_decay=real(0), dropout=real(0, 1, below=True))
        if self.loss == "cross-entropy" and self.epsilon_y is not None and self.label_mechanism == "subset":
            raise fail("loss", self.loss, "to be drop or forward where reports are sets of classes",
                       'Or ask with label_mechanism="randomized-response".')  # fmt: skip

    @property
    def settings(self) -> dict[str, Any]:
        """Every setting; of how hops are taken, only what is not usual, so that runs of before stay what they are."""
        return {name: value for name, value in super().settings.items() if (name, value) != ("aggregator", "gcn")}

    @classmethod
    def from_options(cls, options: Mapping[str, Any], dataset: str = "") -> LPGNN:
        """Build the published form that a command line names; budgets and mechanism go before those of the preset.

        "pgc-2020" with an ``epsilon_y`` asks for labels too, by randomized response, though published with labels in the
        clear.
        """
        asked = cls._asked(options)
        budgets = [asked.get(name, 1.0) for name in ("epsilon_x", "epsilon_y")]
        if budgets[0] == 0:  # of made-up features, which have the hops of a budget of 1
            budgets[0] = 1.0
        values = preset(options.get("preset") or "pgc-2020", dataset, *budgets)
        if values["loss"] == "cross-entropy":  # labels were published in the clear; this loss takes classes, not sets
            values["label_mechanism"] = "randomized-response"
        return cls(**{**values, **cls._spent(asked)})

    def learn(self, collection: Collection, num_classes: int, session: Session) -> Arrays:
        """Train, and keep the epoch that ``select`` names; arguments as in :meth:`LocalMethod.learn`.

        Raises:
            DataError: no training or no validation user reported a label.
        """
        import torch

        for mask, role in ((collection.train_mask, "training"), (collection.val_mask, "validation")):
            if not mask.any():
                raise DataError(
                    f"Expected label reports of {role} nodes, got none. Split with with_split(.5, .25, .25)."
                )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(session.seed)
            topology, rows = self._inputs(collection, session.seed)
            network = self._network(rows, collection)
            selection = _train(self, network, rows, topology, collection, session)
        weights = {_PREFIX + name: value.detach().numpy() for name, value in network.state_dict().items()}
        seed = np.array([session.seed], np.int64)
        return {**weights, "selection": selection, **({"feature_seed": seed} if self.features_in == "random" else {})}

    def predict(self, weights: Arrays, collection: Collection) -> NDArray[np.float32]:
        """Apply the network to the same reports; returns log-probabilities, float32 [n, C]."""
        import torch

        topology, rows = self._inputs(collection, int(weights.get("feature_seed", [0])[0]))
        with torch.random.fork_rng(devices=[]):
            network = self._network(rows, collection)
        state = {name.removeprefix(_PREFIX): w for name, w in weights.items() if name.startswith(_PREFIX)}
        network.load_state_dict({name: torch.tensor(value) for name, value in state.items()})
        with torch.no_grad():
            return network.eval()(rows, topology).log_softmax(1).numpy()

    @property
    def _mean(self) -> bool:
        return self.aggregator == "mean"

    def _network(self, rows: PropagatedRows, collection: Collection) -> GNN:
        from sfumato.nn._gnn import GNN

        widths = rows.shape[1], self.hidden, collection.num_classes
        return GNN(self.backbone, *widths, dropout=self.dropout, activation=self.activation)

    def _inputs(self, collection: Collection, seed: int) -> tuple[Topology, PropagatedRows]:
        """What the first layer takes: unpropagated rows, their offset, and how many hops they are moved."""
        from sfumato.nn._topology import PropagatedRows, Topology

        topology, missing, shift = Topology(collection.adjacency), None, None
        if self.features_in == "reports":
            estimate, noise = collection.features, collection.feature_noise
            assert estimate is not None
            assert noise is not None
            rows, offset, missing, shift = estimate.sparse, estimate.offset, estimate.missing, estimate.shift
        else:
            rows, offset, noise = _made_up(self.features_in, collection, seed, centered=self.scale)
        if self.scale and noise.any():
            left = noise_scale(collection.adjacency, self.steps_x, mean=self._mean)[-1]
            by = np.where(noise > 0, 1 / np.maximum(noise * left, 1e-12), 1)
            rows = rows @ sp.diags(by) if sp.issparse(rows) else np.multiply(rows, by, out=rows, casting="same_kind")
            offset, shift = offset * by, None if shift is None else shift * by
        return topology, PropagatedRows(rows, offset, topology, self.steps_x, missing, shift, mean=self._mean)


def _made_up(kind: str, collection: Collection, seed: int, *, centered: bool) -> tuple[Any, NDArray[Any], NDArray[Any]]:
    """Rows, offset and noise [d] of features that no user was asked for."""
    n, d = collection.adjacency.shape[0], collection.num_features or _COLUMNS
    quiet = np.zeros(d)
    if kind == "random":
        rows = np.random.default_rng(seed).random((n, d), np.float32)
        rows -= np.float32(0.5)
        return rows, np.full(d, 0.0 if centered else 0.5), np.full(d, 12**-0.5)
    if kind == "ones":
        return sp.csr_matrix((n, d)), np.ones(d), quiet
    degree = np.minimum(np.diff(collection.adjacency.indptr), d - 1)
    return sp.csr_matrix((np.ones(n), degree, np.arange(n + 1)), (n, d)), quiet, quiet


class _Judge:
    """What noisy reports say of each epoch, and which is the one to keep."""

    def __init__(self, method: LPGNN, collection: Collection) -> None:
        self.agreement = Agreement(collection.transition)
        self.selection = Selection(method.select, self.agreement.ceiling)
        self.reports = collection.labels
        self.train, self.val = np.flatnonzero(collection.train_mask), np.flatnonzero(collection.val_mask)
        self.patience, self.fell, self.kept = method.patience, 0, Epoch(0, float("inf"), 0.0, 0.0)
        self.curves: dict[str, list[float]] = {"network": [], "validation": [], "validation accuracy": []}

    def share(self, scores: Tensor, ids: NDArray[np.int64]) -> float:
        """Of these nodes' predictions that agree with their reports."""
        return self.agreement.share(scores.detach()[ids].argmax(1).numpy(), self.reports[ids])

    def keeps(self, number: int, loss: float, scores: Tensor, train_share: float) -> bool:
        """Judge an epoch; True if it replaces the one kept so far."""
        epoch = Epoch(number, loss, self.share(scores, self.val), train_share)
        if loss < min(self.curves["validation"], default=float("inf")):
            self.fell = number
        self.curves["validation"].append(loss)
        self.curves["validation accuracy"].append(self.agreement.accuracy(epoch.val, len(self.val))[0])
        replaces = self.selection.replaces(self.kept if self.kept.number else None, epoch)
        self.kept = epoch if replaces else self.kept
        return replaces

    def stops(self, number: int) -> bool:
        """Whether patience has run out."""
        return self.patience > 0 and number >= max(self.fell + self.patience, _LEAST_EPOCHS)

    @property
    def verdict(self) -> NDArray[np.float32]:
        """The kept epoch, its debiased validation accuracy, and the ends of its interval."""
        return np.array([self.kept.number, *self.agreement.accuracy(self.kept.val, len(self.val))], np.float32)


def _train(
    method: LPGNN, network: GNN, rows: PropagatedRows, topology: Topology, collection: Collection, session: Session
) -> NDArray[np.float32]:
    """Train in place and restore the kept epoch; the first layer of a step also serves to judge the step before."""
    import torch

    from sfumato.nn._training import Adam

    objective = Objective(method.loss, collection, topology, method.steps_y, mean=method._mean)
    optimizer = Adam(network.parameters(), method.learning_rate, method.weight_decay)
    judge, report = _Judge(method, collection), session.watch.stage("network")
    val_reports = torch.from_numpy(collection.labels[judge.val])
    state, train_share = optimizer.flat.clone(), 0.0
    for number in range(method.epochs + 1):
        hidden = network.hidden(rows, topology)
        if number:
            network.eval()
            with torch.no_grad():
                scores = network.head(hidden, topology)
                loss = forward_loss(scores[judge.val], objective.transition, val_reports).item()
            if judge.keeps(number, loss, scores, train_share):
                state = optimizer.flat.clone()
            if report is not None:
                report(number, method.epochs)
            if number == method.epochs or judge.stops(number):
                break
        network.train()
        scores = network.head(hidden, topology)
        train_share = judge.share(scores, judge.train)
        train_loss = objective(scores)
        train_loss.backward()
        optimizer.step()
        judge.curves["network"].append(train_loss.item())
    optimizer.flat.copy_(state)
    session.watch.curves.update(judge.curves)
    return judge.verdict
