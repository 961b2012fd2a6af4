r"""DP-GNN: DP-SGD on sub-graphs of training nodes, of which one record reaches a bounded number.

1. *Sample.* Each owner keeps at most d of its arcs, each node reads at most m that reach it
   (:mod:`~sfumato.bounded._subgraphs`).
2. *Train.* A node's row is :math:`[\hat x, M \hat x, \dots, M^L \hat x]`: its features scaled to norm 1, and L averages over the
   node and those that send to it. A linear encoder and the average can change places, so an encoder, L layers of messages and a
   decoder are one network of two layers on this row. Terms are Poisson-sampled, and a record changes at most R of them.
3. *Predict.* A node reads its own features and, with ``inference="noised"``, one more release: the noisy sum of the encoded
   messages of its neighbors, and their noisy number. With ``inference="own"`` it is a node without neighbors. Predictions never
   read a neighbor in the clear, which the published method does: its claim covers the weights alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import nn

from sfumato._validate import AT_LEAST_1, PRIVATE, PRIVATE_LABELS, check_fields, fail, integer, one_of, setting
from sfumato.bounded._degree import by_destination, cap_out_degree
from sfumato.bounded._splits import unit_rows
from sfumato.bounded._subgraphs import arc_terms, occurrences, read_arcs, subgraph_rows
from sfumato.bounded.aggregation import (
    Arcs,
    affected_coordinates,
    hop_arc_change,
    hop_sensitivity,
    noisy_neighborhood_sum,
)
from sfumato.central._heads import apply_rows, chosen, plain
from sfumato.central._learning import NetworkMethod, Rows, train
from sfumato.loops.kernels import INT16_ONE
from sfumato.method._gaussian import multiplier_of
from sfumato.method.card import Audience, Card
from sfumato.method.contract import Arrays, Outcome, Planned, Session
from sfumato.nn._models import MLP, SparseRows
from sfumato.nn._weights import load_weights, network_arrays, num_parameters, seeded
from sfumato.noise.keys import derive_key
from sfumato.privacy.events import GaussianEvent, RepeatedGaussianEvent
from sfumato.record.ledger import Release

if TYPE_CHECKING:
    from sfumato.central._rows import Matrix
    from sfumato.graph._graph import Graph, PublicFacts
    from sfumato.privacy.units import Unit

_MOST_DENSE = 30_000_000
_HOP_SHARE = 0.3
_EPOCHS = 20
_ROOT_HALF = math.sqrt(0.5)


@dataclass(frozen=True)
class DPGNN(NetworkMethod):
    r"""DP-GNN trains a graph network by DP-SGD on sub-graphs, each of which reads few arcs.

    The scores of node v are :math:`W_2 \, \mathrm{SELU}(\sum_l W^{(l)} (M^l \hat x)_v + b_1) + b_2`, float32
    [num_nodes, num_classes]; the module says what stands for M in a prediction. Other settings are those of
    :class:`~sfumato.central._learning.NetworkMethod`. By default ``epochs`` is 20 passes over the training nodes, and 100 without
    privacy; ``batch_size`` lets all of them enter each step, with ``learning_rate`` .03.

    **Formal guarantee.** At node level with owned arcs one DP-SGD run in which a record changes at most R terms
    (:func:`~sfumato.bounded._subgraphs.occurrences`) and, with noised inference, one Gaussian release
    (:func:`~sfumato.bounded.aggregation.hop_sensitivity`). ``calibrate`` raises UnsupportedUnitError under every unit but this
    one and none.

    Args:
        num_layers: L, over how many arcs training reads, at most 8.
        max_arcs: d, how many arcs each owner keeps for training, at most those of the unit.
        max_in_arcs: m, how many arcs each node reads at most in training.
        inference: "own" features, or "noised" sums over neighbors beside them (one layer only).

    Raises:
        InputError: a setting is out of range.

    >>> from sfumato.graph._graph import PublicFacts
    >>> from sfumato.privacy.budget import Budget
    >>> from sfumato.privacy.units import NodeLevel
    >>> facts = PublicFacts(num_nodes=1000, num_train=750, num_features=10, num_classes=3, directed=False)
    >>> plan = DPGNN().calibrate(Budget(4.0, 1e-5), NodeLevel(max_out_degree=100), facts)
    >>> [release.name for release in plan.releases], round(plan.epsilon, 2)
    (['network'], 4.0)

    Source: Daigavane et al. (2021), Node-level differentially private graph neural networks, algorithms 1 and 2; noised
    inference: Sajadmanesh et al. (2023), GAP, baseline SAGE-NDP.
    """

    batch_size: int = setting(100_000, PRIVATE_LABELS)
    learning_rate: float = 0.03
    num_layers: int = 1
    max_arcs: int = setting(1, PRIVATE)
    max_in_arcs: int = setting(100, PRIVATE)
    inference: str = setting("own", PRIVATE)
    card: ClassVar[Card] = Card(
        name="dpgnn",
        summary="graph network trained on sub-graphs of few arcs",
        units=("node",),
        candidates=({"max_arcs": 1}, {"max_arcs": 3}, {"max_arcs": 10}),
        citations=("daigavane2021node",),
        audience=Audience(("noisy aggregates", "weights"), never=("sums before noise",)),
        notes=(
            "Predictions read neighbors through a noisy sum, or not at all.",
            "Constants of the method were chosen on UCSC68.",
        ),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, num_layers=integer(1, 8), max_arcs=AT_LEAST_1, max_in_arcs=AT_LEAST_1)
        check_fields(self, inference=one_of("own", "noised"))
        if self.inference == "noised" and self.num_layers > 1:
            raise fail("num_layers", self.num_layers, "to be 1 with noised inference", "Or predict by own features.")

    def releases(self, unit: Unit, public: PublicFacts, noise_multiplier: float) -> tuple[Release, ...]:
        """List one DP-SGD run on sub-graphs and, with noised inference, one noisy sum."""
        terms = occurrences(unit, self._kept(unit), self.num_layers)
        rows = max(public.num_train, 1)
        batch = min(self.batch_size, rows)
        steps = max(1, (self.epochs or _EPOCHS) * rows // batch)
        with torch.device("meta"):
            size = num_parameters(self._network(public, unit))
        relation = "replace" if unit.relation == "replace" else "leave"
        event = RepeatedGaussianEvent(batch / rows, terms, noise_multiplier, steps, relation)
        moved = arc_terms(self._kept(unit), self.num_layers) / terms
        network = Release("network", event, (size,), size, arc_change=moved)
        if self.inference == "own":
            return (network,)
        touched = affected_coordinates(unit, public.num_nodes, self.width + 1)
        noise = GaussianEvent(hop_noise(event, _HOP_SHARE))
        change = hop_arc_change(unit, released_messages=False)
        return network, Release("aggregate/1", noise, (public.num_nodes, self.width + 1), touched, arc_change=change)

    def run(self, plan: Planned, graph: Graph, session: Session) -> Outcome:
        """Sample sub-graphs and train on them; then release the noisy sum."""
        with seeded(session.seed):
            network = self._network(plan.public, plan.unit)

        @cache
        def rows() -> Rows:  # read by the first step, after the charge
            return (chosen if plan.unit.private else plain)(self._inputs(plan, graph, session))

        train(self, plan, session, "network", network, graph, lambda ids: rows()(ids))
        released: Arrays = {}
        if plan.unit.private and self.inference == "noised":
            released["aggregate/1"] = self._noisy_sum(plan, graph, session, network)
        return Outcome(network_arrays("network", network), released)

    def scores(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> NDArray[np.float32]:
        """Apply the network to the node's own features and to the noisy sum, if there is one."""
        if not plan.unit.private:
            return self.clear_scores(plan, weights, graph)
        network = self._network(plan.public, plan.unit)
        load_weights(network, weights, "network")
        own = unit_rows(graph)
        of_self, of_mean = _encoders(network, self.num_layers)
        encoded = own @ of_mean.T
        if "aggregate/1" in released:
            sums = released["aggregate/1"] / (INT16_ONE * _ROOT_HALF)
            count = 1 + np.maximum(sums[:, -1:], 0)
            encoded = (encoded + sums[:, :-1] * message_norm(of_mean)) / count
        entering = own @ of_self.T + encoded + weights["network.layers.0.bias"]
        rest = nn.Sequential(nn.SELU(), *network.layers[1:])
        return apply_rows(rest, torch.from_numpy(np.asarray(entering, np.float32)))

    def clear_scores(self, plan: Planned, weights: Arrays, graph: Graph) -> NDArray[np.float32]:
        """Apply the network to all neighbors in the clear. **Evaluation only**, where anything is private.

        Args:
            plan: the plan that the weights come from.
            weights: the trained weights.
            graph: its features and arcs are read.
        """
        network = self._network(plan.public, plan.unit)
        load_weights(network, weights, "network")
        rows = rows_of(graph, Arcs(*graph.transpose()), self.num_layers)
        return apply_rows(network, torch.from_numpy(rows) if isinstance(rows, np.ndarray) else SparseRows(rows))

    def _kept(self, unit: Unit) -> int:
        return min(self.max_arcs, unit.max_out_degree or self.max_arcs)

    def _network(self, public: PublicFacts, unit: Unit) -> MLP:
        columns = public.num_features * (self.num_layers + 1)
        return MLP((columns, self.width, public.num_classes), batch_norm=False)

    def _inputs(self, plan: Planned, graph: Graph, session: Session) -> Matrix:
        """Rows of all nodes, in the form that training takes. They hold private data."""
        if not plan.unit.private:
            return rows_of(graph, Arcs(*graph.transpose()), self.num_layers)
        arcs = read_arcs(graph, self._kept(plan.unit), self.max_in_arcs, session.key)
        return rows_of(graph, arcs, self.num_layers)

    def _noisy_sum(self, plan: Planned, graph: Graph, session: Session, network: MLP) -> NDArray[np.int64]:
        """Sum what each node's neighbors send: half of the message's square is the encoding, half says that there is one."""
        cap = plan.unit.max_out_degree
        assert cap is not None
        stddev = multiplier_of(plan, "aggregate/1") * hop_sensitivity(plan.unit, released_messages=False)
        key = session.charge("aggregate/1")
        arcs = Arcs(*by_destination(*cap_out_degree(graph.indptr, graph.indices, cap, session.key)))
        of_mean = _encoders(network, 1)[1]
        encoded = np.asarray(unit_rows(graph) @ of_mean.T) / message_norm(of_mean)
        encoded /= np.maximum(np.linalg.norm(encoded, axis=1, keepdims=True), 1)
        messages = np.hstack([encoded, np.ones((graph.num_nodes, 1))]) * _ROOT_HALF
        rows = messages.astype(np.float32)
        session.bind("aggregate/1", rows, arcs.offsets, arcs.sources)
        return noisy_neighborhood_sum(arcs, rows, stddev, derive_key(key, "sum"))


def hop_noise(event: RepeatedGaussianEvent, share: float) -> float:
    r"""Return the noise multiplier of a Gaussian release that takes about this share of :math:`\mu^2` beside a DP-SGD run.

    By the central limit T steps with k ~ Bin(R, q) replaced terms have :math:`\mu^2 = 4 T E[k^2] / z^2`; a term that vanishes
    counts half. This only chooses the noise: what it costs is accounted exactly.
    """
    q, most = event.sampling_prob, event.apart
    squares = most * 2 - (event.relation == "leave")  # sum of the squares of what each term moves
    square = squares * q * (1 - q) + (most * q) ** 2
    return event.noise_multiplier / math.sqrt(event.steps * square * share / (1 - share))


def rows_of(graph: Graph, arcs: Arcs, num_layers: int) -> Matrix:
    """Return the rows of all nodes, dense if a public count says that they may be. Not private."""
    rows = subgraph_rows(unit_rows(graph), arcs, num_layers)
    rows = sp.csr_matrix(rows, dtype=np.float32)
    return rows.toarray() if np.prod(rows.shape) <= _MOST_DENSE else rows


def _encoders(network: MLP, num_layers: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The first layer's weights of the node's own features, and of all its averages together, [width, num_features]."""
    first: Any = network.layers[0]
    own, *means = np.split(first.weight.detach().numpy().astype(np.float64), num_layers + 1, axis=1)
    return own, np.sum(means, axis=0)


def message_norm(of_mean: NDArray[np.float64]) -> float:
    """Return the norm that encodings are clipped to before they are sent: 1.25 times what is usual, from released weights.

    A random direction of norm 1 has an encoding of root mean square ``|W| / sqrt(num_features)``, a small part of the longest.
    """
    return 1.25 * float(np.linalg.norm(of_mean)) / math.sqrt(max(of_mean.shape[1], 1)) or 1.0
