"""A transform of PyTorch Geometric that puts noisy sums over neighbors in place of edges.

**Formal guarantee** of :class:`PrivateHops`: that of GAP at edge level (:mod:`~sfumato.central._gap`), K Gaussian releases with
the sensitivity of an edge or an arc, or that of label messages (:mod:`~sfumato.central._labels`), one release of counts.
Features, labels and masks are public. What comes out is post-processing of these releases and of what is public, as long as
``keep_edges`` and ``keep`` add nothing. So is whatever reads it: training any network on it, choosing settings by its validation
nodes, and predicting spend nothing more.

Nothing else of the ``Data`` comes out, unless ``keep`` names it: attributes that earlier transforms made of edges, such as
degrees or random walks, would tell of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import nullcontext
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato._optional import require
from sfumato._validate import check_choice, check_int, check_kind, fail
from sfumato.bounded._routing import public_order
from sfumato.central._gap import GAP
from sfumato.central._labels import LabelMessages
from sfumato.errors import DataError, InputError, UnsupportedUnitError
from sfumato.evaluation._kept import leaving
from sfumato.graph._dropped import tell_dropped
from sfumato.graph._facts import labeled_mask
from sfumato.method._opening import warn_of_repeated
from sfumato.privacy.budget import Budget
from sfumato.privacy.units import Declared, Unit, unit_named
from sfumato.record._certificate import Certificate, round_up
from sfumato.record._dataset_ledger import DatasetLedger
from sfumato.record._release_folder import LEDGER
from sfumato.record._shown import delta_up
from sfumato.tables._convert import from_pyg
from sfumato.tables._tensors import MASKS

if TYPE_CHECKING:
    from torch_geometric.data import Data
    from torch_geometric.transforms import BaseTransform

    from sfumato.graph._graph import Graph
    from sfumato.method._plan import Fitted
else:
    BaseTransform = require("torch_geometric.transforms").BaseTransform

_GIVEN = ("x", "y", *MASKS, "num_nodes", "edge_index")
_OF_EDGES = ("edge", "adj")
"""Parts of names that stand for edges."""
_MESSAGES = ("encodings", "features", "labels")
_ONCE = (
    "Every call is a release of its own and costs again. Keep the Data that the first call returned (for a data set, pass "
    "pre_transform and not transform), or pass ledger=, which adds calls up."
)
_TRAIN = "Training on noisy rows beside the own features and labels of nodes is not free there."


class Attached(Certificate):
    """The certificate of a ``Data``: that of the run, with one line as its text, since a ``Data`` prints its attributes.

    >>> print(Attached({"claim": {"epsilon": 1.0, "delta": 1e-06}, "unit": {"name": "edge"}}))
    epsilon 1, delta 1e-06 (edge)
    """

    def __str__(self) -> str:
        claim = self.values["claim"]
        return f"epsilon {round_up(claim['epsilon'])}, delta {delta_up(claim['delta'])} ({self.values['unit']['name']})"


require("torch").serialization.add_safe_globals([Attached])  # data sets are read with weights_only


class PrivateHops(BaseTransform):  # type: ignore[misc]
    r"""This transform replaces the edges of a ``Data`` by noisy sums over neighbors, of which a certificate says what they tell.

    With :math:`h^{(0)}_v` the row of an encoder that GAP trains on features and labels, or the features themselves, each of
    norm 1, hop k = 1, ..., K releases

    .. math:: s^{(k)}_v = \sum_{u \to v} h^{(k-1)}_u + N(0, \sigma^2 I), \qquad h^{(k)}_v = s^{(k)}_v / \|s^{(k)}_v\|.

    The result is a new ``Data``:

    * ``x``: float32 [num_nodes, (K + 1) width], the columns of :math:`h^{(0)}`, then those of :math:`h^{(1)}`, up to
      :math:`h^{(K)}`;
    * ``y`` and the three masks, as they were; without masks, those of the split 75/10/15 that the encoder learned by;
      With ``messages="labels"``, ``x`` is [num_nodes, 4 num_classes + 1]: what the head of label messages reads, noisy counts and
      the node's own prediction without neighbors. ``train_mask`` then marks the training nodes that received messages as other
      nodes do; rows of the others, which sent theirs, follow another law.
    * ``certificate``: an :class:`Attached`, which loaders and ``torch.save`` keep; a batch has a list of them;
    * no edge, and nothing else but what ``keep`` names.

    **Formal guarantee.** The module states it. Under ``keep_edges`` the result holds private edges: the certificate is that of
    ``x`` alone.

    A transform is called once. A second call would draw and spend again, so it is refused, unless a ledger of the data set adds
    up what all calls cost; calls in the workers of a loader, or in one of several processes that train together, are refused.
    A second transform of the same edges warns.

    Args:
        epsilon: the most that one call may spend.
        delta: the same for delta; a public number far below 1 / (number of edges).
        unit: ``edge``, ``arc``, or such a unit.
        hops: K, from 1 to 1000.
        directed: whether arcs have a direction, which is declared and never read off the data.
        messages: ``encodings`` as above; ``features``, the features themselves, of which wide ones are lost in noise; or
            ``labels``, those of training nodes (:mod:`~sfumato.central._labels`), with one or two hops.
        keep_edges: whether ``edge_index``, ``adj_t`` and attributes of edges stay, for what need not be private.
        keep: names of further attributes that are public and made of no edge.
        out: a new run folder, which ``sfumato verify`` checks.
        ledger: the file of the data set's ledger, which every call is charged to.
        total_epsilon: the most that all calls together may cost; a new ledger needs it.
        name: the name of the data set in certificate and ledger.
        seed: public seed of the encoder; noise always comes from the operating system.

    After a call there are ``fitted_`` (:class:`~sfumato.method._plan.Fitted`: GAP's own predictions) and ``certificate_``.

    Raises:
        InputError: a setting is out of range. A call also raises it if it is the second one, in a worker of a loader, or in one
            of several processes.
        UnsupportedUnitError: the unit protects features or labels.
        DataError: a call is given several graphs, several types of nodes or edges, or a sampled part of a graph.
        BudgetExceededError: the ledger has less left than a call costs.

    >>> from sfumato.graph import campus, to_pyg
    >>> private = PrivateHops(epsilon=4.0, hops=1)(to_pyg(campus(100)))
    >>> private.x.shape, private.num_edges, round(private.certificate.epsilon, 6)
    (torch.Size([100, 32]), 0, 4.0)

    Source: Sajadmanesh et al. (2023), GAP: Differentially Private Graph Neural Networks with Aggregation Perturbation,
    algorithm 5.
    """

    fitted_: Fitted
    certificate_: Certificate

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        unit: str | Unit = "edge",
        hops: int = 2,
        *,
        directed: bool = False,
        messages: str = "encodings",
        keep_edges: bool = False,
        keep: Iterable[str] = (),
        out: str | Path | None = None,
        ledger: str | Path | None = None,
        total_epsilon: float | None = None,
        name: str = "graph",
        seed: int = 0,
    ) -> None:
        for flag, value in (("directed", directed), ("keep_edges", keep_edges)):
            if not isinstance(value, bool):
                raise fail(flag, value, "to be True or False")
        check_choice(_MESSAGES, messages=messages)
        self.unit = unit_named(unit, Declared(directed)) if isinstance(unit, str) else unit
        check_kind(Unit, "Pass edge, arc, or a unit such as sf.EdgeLevel(directed=False).", unit=self.unit)
        if not {"features", "labels"} <= set(self.unit.public) or not self.unit.private:
            raise UnsupportedUnitError(
                f"PrivateHops makes rows that any training may read, under units edge and arc alone, got {self.unit.name!r}. "
                f"{_TRAIN} Use sf.PrivateTrainer(module) or sf.GAP, which train by DP-SGD."
            )
        self.unit.check_fit(directed)
        self.messages = messages
        self.budget, self.directed = Budget(epsilon, delta), directed
        hops = check_int(low=1, high=2 if messages == "labels" else 1000, hops=hops)
        self.method = (
            LabelMessages(hops) if messages == "labels" else GAP(num_hops=hops, encoder=messages == "encodings")
        )
        self.keep_edges, self.keep = keep_edges, (keep,) if isinstance(keep, str) else tuple(keep)
        self.out, self.name = None if out is None else Path(out), name
        self.seed = check_int(low=0, high=2**32 - 1, seed=seed)
        self.ledger = None if ledger is None else Path(ledger)
        self.total_epsilon, self._called = total_epsilon, False

    def forward(self, data: Data) -> Data:
        """Release the hops of one graph, and return a new ``Data`` that holds them. This spends (epsilon, delta).

        ``data`` has ``edge_index`` [2, num_arcs], ``x``, and ``y`` with classes or labels; it is not changed.
        """
        self._check(data)
        graph = from_pyg(_read(data), self.directed, name=self.name)
        if graph.x is None or (graph.y is None and graph.targets is None):
            raise DataError(
                "Expected data with x and y, got one of them missing. The encoder learns labels from features."
            )
        if graph.roles is None:
            graph = graph.with_split(labeled=True)
        ledger = None if self.ledger is None else DatasetLedger(self.ledger, self.total_epsilon)
        plan = self.method.calibrate(self.budget, self.unit, graph.public_facts(self.unit))
        plan.check(graph)
        self._called = True
        if ledger is None:
            arcs: Any = SimpleNamespace(
                indices=data.edge_index
            )  # what another transform of the same data has in common
            warn_of_repeated(arcs, type(self).__name__, plan.epsilon or 0.0, _ONCE)
        shared = None if ledger is None else ledger.path
        finished = "It is whole: released_to_pyg reads it."
        with nullcontext() if self.out is None else leaving(self.out, shared, finished):
            path = None if self.out is None else self.out / "release" / LEDGER
            fitted = plan.fit(graph, seed=self.seed, ledger=path, dataset_ledger=ledger)
            if self.out is not None:
                fitted.save(self.out)
        self.fitted_, self.certificate_ = fitted, fitted.certificate
        return self._result(data, graph)

    def _check(self, data: Data) -> None:
        """Refuse what a call has no proof for, or would spend by accident."""
        pyg, torch = require("torch_geometric.data"), require("torch")
        if not isinstance(data, pyg.Data) or isinstance(data, pyg.Batch):
            raise DataError(
                f"Expected one homogeneous Data, got {type(data).__name__}. Of a batch transform each graph before, with a "
                "PrivateHops of its own; a HeteroData has to_homogeneous(), where every type of edge counts the same."
            )
        if "n_id" in data:
            raise DataError(
                "Expected a whole graph, got a sampled part of one. Transform the whole Data once, before the loader: rows of "
                "the result may be drawn freely."
            )
        if torch.utils.data.get_worker_info() is not None:
            raise InputError(f"Expected to be called by the process that owns the data, got a loader's worker. {_ONCE}")
        if _is_one_of_several():
            raise InputError(
                "Expected to be called by one process, got one of several that train together (torchrun, Lightning with ddp): "
                "each would draw noise of its own, and spend. Transform the Data before, save it, and let each process read it."
            )
        if self._called and self.ledger is None:
            raise InputError(f"Expected PrivateHops to be called once, got a second call. {_ONCE}")
        if self.ledger is None and "certificate" in data:
            raise InputError(
                "Expected a Data whose edges no transform has read, got one with a certificate: what both tell adds up, and the "
                "second certificate would not say so. Start from the raw Data, or name a ledger, which adds them up."
            )
        taken = (*_GIVEN, "certificate", *data.edge_attrs())
        edges = [name for name in self.keep if name in taken or any(word in name for word in _OF_EDGES)]
        if edges:
            raise fail(
                "keep",
                edges[0],
                "to name further attributes that are public",
                "keep_edges=True keeps edges, on purpose.",
            )
        absent = [name for name in self.keep if name not in data]
        if absent:
            raise fail("keep", absent[0], "to name attributes of data", "Correct the name.")

    def _result(self, data: Data, graph: Graph) -> Data:
        """A new ``Data`` with the released rows, what is public, and what was asked for."""
        torch, pyg = require("torch"), require("torch_geometric.data")
        rows = self.method.rows(self.fitted_.ran, self.fitted_.weights, self.fitted_.released, graph)
        made: Data = pyg.Data(x=torch.as_tensor(rows).flatten(1), y=_alone(data.y), num_nodes=graph.num_nodes)
        for mask in MASKS:
            made[mask] = torch.tensor(getattr(graph, mask))
        if isinstance(self.method, LabelMessages):
            sends = graph.train_mask & labeled_mask(graph)
            made.train_mask = torch.tensor(self.method.learners(self.unit, sends, public_order(sends, self.seed)))
        edges = [*data.edge_attrs(), *(name for name in ("adj_t", "adj") if name in data)]
        for name in (*self.keep, *(edges if self.keep_edges else ())):
            made[name] = _alone(data[name])
        made.certificate = Attached(deepcopy(self.certificate_.values))
        tell_dropped(
            (name for name in data.to_dict() if name not in (*_GIVEN, *made.to_dict())),
            "data",
            weighted="edge_weight" not in data,
        )
        return made

    def __repr__(self) -> str:
        shown = f"epsilon={self.budget.epsilon:g}, delta={self.budget.delta:g}, unit={self.unit!r}"
        return f"{type(self).__name__}({shown}, hops={self.method.num_hops}, messages={self.messages!r})"


def _is_one_of_several() -> bool:
    """Whether other processes run the same lines at the same time, as launchers of distributed training make them do."""
    distributed = require("torch").distributed
    joined = distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1
    return joined or os.environ.get("WORLD_SIZE", "1") not in ("", "0", "1")


def _alone(value: Any) -> Any:
    """A tensor with memory of its own: that of a view may hold more than it shows, such as a column of degrees beside labels."""
    torch = require("torch")
    if isinstance(value, torch.Tensor) and value.layout is torch.strided:
        return value.detach().as_subclass(torch.Tensor).clone(memory_format=torch.contiguous_format)
    if isinstance(value, np.ndarray):
        return np.array(value)
    if type(value) in (list, tuple):
        return type(value)(map(_alone, value))
    return {key: _alone(one) for key, one in value.items()} if type(value) is dict else value


def _read(data: Data) -> Data:
    """What is read of ``data``: everything else of it is none of the transform's business."""
    pyg = require("torch_geometric.data")
    read: Data = pyg.Data(num_nodes=data.num_nodes)
    for name in _GIVEN:
        if name != "num_nodes" and name in data:
            read[name] = data[name]
    return read
