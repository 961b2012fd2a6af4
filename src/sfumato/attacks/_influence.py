r"""LinkTeller: who changes whose predictions is linked (Wu et al., 2022, IEEE S&P).

The attacker sends features to a model that holds the arcs, and gets predictions. With f the probabilities, X' the features
with row v scaled by 1 + d, the influence of v on u is :math:`\|f(X')_u - f(X)_u\| / d`. Without a path of as many hops as the
network has layers from v to u it is exactly 0.

**It needs a model whose answers to new features read the arcs.** Methods here answer from cached noisy releases and the node's
own features, whatever features they are sent; then no feature of v moves the answer for u, and every influence is exactly 0.
That is so for gap even without privacy. GraphSAGE reads the true arcs, EdgeRand and LapGraph those that were released: there
the attack finds the false edges too, so it learns no more than the release says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from sfumato._validate import check_fields, check_int, integer, real
from sfumato.attacks._attack import Attack, Progress
from sfumato.attacks._pairs import candidates, dense, similarities
from sfumato.attacks._scores import Attacked, Scores
from sfumato.central._baselines import SAGE
from sfumato.central._perturbed import EDGES, PerturbedTopology
from sfumato.errors import InputError
from sfumato.nn._models import GraphSAGE, normalize
from sfumato.nn._reproducible import selu
from sfumato.nn._sage import SumSAGE
from sfumato.nn._weights import load_weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.graph._graph import Graph
    from sfumato.method._plan import Fitted

_BLOCK, _ROWS = 64, 1024  # the most sources whose changed rows, and nodes whose features, are held at once
_ENTRIES = 1 << 22  # arcs that are followed at once
Rowwise = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Influence(Attack):
    """LinkTeller scales the features of a node by 1 + ``step``, and takes those whose predictions move for its neighbors.

    The score of a pair is the larger of its two influences. Influences are computed in float64, and only for rows that can
    change: a fraction of a pass over the graph for each node. (Published code takes a float32 pass for each, which at
    this step is mostly rounding where an influence is weak.) A model that is no network over arcs is first asked 2 log2(n)
    times, each pair of nodes being on different sides at least once; if no answer on the unchanged side moves by a bit, all
    influences are 0.

    Source: Wu, Long, Zhang and Li (2022), LinkTeller, algorithm 1 and equation 2.
    """

    step: float = 1e-4
    most: int = 10_000
    name: ClassVar[str] = "links-influence"
    target: ClassVar[str] = "whether two nodes are linked"
    knowledge: ClassVar[str] = "all features, and answers of the model to features of the attacker's choice"
    summary: ClassVar[str] = "nodes that change each other's predictions are taken for linked"
    citations: ClassVar[tuple[str, ...]] = ("wu2022linkteller",)

    def __post_init__(self) -> None:
        check_fields(self, step=real(0, 1, above=True), most=integer(2))

    def run(self, fitted: Fitted, graph: Graph, *, seed: int, progress: Progress | None = None) -> Attacked:
        """Score pairs by influence."""
        coins = np.random.default_rng(check_int(low=0, high=2**32 - 1, seed=seed))
        if graph.x is None:
            raise InputError(
                f"Expected a graph with features to scale, got {graph.name!r} without. Use the attack links."
            )
        drawn, network = candidates(graph, coins, self.most), network_of(fitted, graph)
        if network is None and not answers_alone(fitted, graph, progress):
            raise InputError(
                f"Expected a network over arcs or answers from cached releases, got {fitted.ran.method.name!r}, whose "
                "predictions read other nodes' features in another way. Use the attack links."
            )
        score, pairs = np.zeros(len(drawn.pairs)), drawn.pairs
        if network is not None:
            both = [network.influences(graph.x, one, self.step, progress) for one in (pairs, pairs[:, ::-1])]
            score = np.maximum(*both)
        links = drawn.is_link
        top = np.lexsort([coins.random(len(score)), -score])[: links.sum()]
        measures = {
            "share_of_links_that_influence": float((score[links] > 0).mean()),
            "share_of_others_that_influence": float((score[~links] > 0).mean()),
            "precision_at_number_of_links": float(links[top].mean()),
        }
        found = Scores(score[links], score[~links])
        alike = similarities(graph.x, pairs, "cosine")
        beside = {"features only": Scores(alike[links], alike[~links])}
        return Attacked(self.name, self.target, self.knowledge, found, beside, measures)


@dataclass(frozen=True)
class ArcNetwork:
    """A trained network over arcs in float64: each layer adds a map of the own row and one of the neighbors' rows.

    ``before`` maps features before any arc is read. A layer is the map of the own row, that of a neighbor's, and what follows
    their sum; ``head`` maps the rows of all layers to scores. ``adjacency`` has the weight of sender w at receiver u in row u,
    column w.
    """

    before: Rowwise
    layers: tuple[tuple[Rowwise, Rowwise, Rowwise], ...]
    head: Callable[[list[Tensor]], Tensor]
    adjacency: sp.csr_matrix

    def influences(
        self, x: Any, pairs: NDArray[np.int64], step: float, progress: Progress | None = None
    ) -> NDArray[np.float64]:
        r"""Compute the influence of the first node of each pair on the second, float64 [num_pairs]."""
        found, order = np.zeros(len(pairs)), np.argsort(pairs[:, 0], kind="stable")
        sources, starts = np.unique(pairs[order, 0], return_index=True)
        ends = np.append(starts[1:], len(order))
        with torch.no_grad():
            base, block = self._base(x), max(1, min(_BLOCK, _ENTRIES // max(1, self.adjacency.nnz)))
            for at in range(0, len(sources), block):
                part = slice(at, at + block)
                asked = order[starts[part][0] : ends[part][-1]]
                found[asked] = self._block(x, base, sources[part], pairs[asked], step)
                if progress is not None:
                    progress("influences", min(at + block, len(sources)), len(sources))
        return found

    def _base(self, x: Any) -> tuple[list[Tensor], list[Tensor]]:
        """The rows before and after each layer, and what each node receives in each, of all nodes."""
        rows, received = [torch.cat([self.before(part) for part in _parts(x)])], []
        for own, neighbor, then in self.layers:
            received.append(torch.from_numpy(self.adjacency @ neighbor(rows[-1]).numpy()))
            rows.append(then(own(rows[-1]) + received[-1]))
        return rows, received

    @cached_property
    def _by_sender(self) -> sp.csc_matrix:
        return self.adjacency.tocsc()

    def _block(
        self,
        x: Any,
        base: tuple[list[Tensor], list[Tensor]],
        sources: NDArray[np.int64],
        pairs: NDArray[np.int64],
        step: float,
    ) -> NDArray[np.float64]:
        """Influences of a few sources. A changed row has the key (place of its source) * num_nodes + node; keys ascend."""
        nodes, (rows, received) = self.adjacency.shape[0], base
        keys = np.arange(len(sources)) * nodes + sources
        moved = [(keys, self.before((1 + step) * torch.from_numpy(dense(x[sources]))))]
        for (own, neighbor, then), calm, sum_before in zip(self.layers, rows[:-1], received, strict=True):
            keys, changed = moved[-1]
            sent = neighbor(changed) - neighbor(calm[keys % nodes])
            further, hop = self._hop(keys)
            here = _patched(calm[further % nodes], further, keys, changed)
            now = sum_before[further % nodes] + torch.from_numpy(hop @ sent.numpy())
            moved.append((further, then(own(here) + now)))
        keys = moved[-1][0]
        calm_rows = [one[keys % nodes] for one in rows]
        stirred_rows = [_patched(one.clone(), keys, *own) for one, own in zip(calm_rows, moved, strict=True)]
        calm_end, stirred_end = (torch.softmax(self.head(end), 1) for end in (calm_rows, stirred_rows))
        sizes = torch.linalg.vector_norm(stirred_end - calm_end, dim=1).numpy() / step
        asked = np.searchsorted(sources, pairs[:, 0]) * nodes + pairs[:, 1]
        places = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
        influence: NDArray[np.float64] = np.where(keys[places] == asked, sizes[places], 0.0)
        return influence

    def _hop(self, keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], sp.csr_matrix]:
        """Keys of all rows that change after one more layer, and the weights with which they read the rows ``keys``."""
        nodes, senders = self.adjacency.shape[0], self._by_sender
        place, sender = np.divmod(keys, nodes)
        counts = np.diff(senders.indptr)[sender]
        column = np.repeat(np.arange(len(keys)), counts)
        first = np.cumsum(counts) - counts
        entries = senders.indptr[sender][column] + np.arange(len(column)) - first[column]
        reached = place[column] * nodes + senders.indices[entries]
        further = np.unique(np.concatenate([keys, reached]))
        ends = np.searchsorted(further, reached), column
        return further, sp.csr_matrix((senders.data[entries], ends), (len(further), len(keys)))


def network_of(fitted: Fitted, graph: Graph) -> ArcNetwork | None:
    """Return the network over arcs with which a model answers, or None if it is another model.

    Sage reads true arcs; where the topology is perturbed, the network reads what was released.
    """
    method, public = fitted.ran.method, fitted.ran.public
    if isinstance(method, SAGE):
        sage, adjacency = _loaded(method.network(public), fitted), method.adjacency(graph)
        return (_sage_parts if isinstance(sage, GraphSAGE) else _sum_parts)(sage, adjacency)
    if isinstance(method, PerturbedTopology) and method.backbone == "sage":
        size = public.num_features, method.width, public.num_classes
        network = _loaded(SumSAGE(*size, num_layers=method.num_layers, jumping=method.jumping), fitted)
        return _sum_parts(network, _released(fitted, graph))
    return None


def taking_any_features(fitted: Fitted) -> Fitted:
    """Return the model as an attacker meets it: for other features, it answers without a look whether they are the graph's."""
    key = getattr(fitted, "graph_key", None)
    return fitted if key is None else replace(fitted, graph_key=replace(key, identity=None))


def answers_alone(fitted: Fitted, graph: Graph, progress: Progress | None = None) -> bool:
    """Test whether no answer depends on another node's features, with 2 log2(n) questions.

    For each bit of the node numbers and each value of it, the nodes with that bit exchange their features in a circle, and
    every other answer must be the same to the last bit. Any two nodes differ in a bit: each stands still while the other
    moves. An influence that cancels out among many nodes would be missed.
    """
    x: Any = graph.x
    fitted = taking_any_features(fitted)
    nodes, calm = np.arange(graph.num_nodes), fitted.predict_proba(graph)
    questions = list(product(range(int(graph.num_nodes - 1).bit_length()), (0, 1)))
    for number, (bit, side) in enumerate(questions):
        moving = (nodes >> bit) & 1 == side
        order = nodes.copy()
        order[moving] = np.roll(nodes[moving], 1)
        stirred = fitted.predict_proba(replace(graph, x=x[order]))
        if not np.array_equal(stirred[~moving], calm[~moving]):
            return False
        if progress is not None:
            progress("questions", number + 1, len(questions))
    return True


def _sage_parts(network: GraphSAGE, adjacency: sp.csr_matrix) -> ArcNetwork:
    """Both maps of the features come first, so that no row stays as wide as they are."""
    (own, *owns), (neighbor, *neighbors), width = network.own, network.neighbor, network.own[0].out_features

    def then(norm: nn.Module) -> Rowwise:
        return lambda rows: selu(norm(rows))

    first: tuple[Rowwise, Rowwise] = (lambda rows: rows[:, :width], lambda rows: rows[:, width:])
    maps: tuple[tuple[Rowwise, Rowwise], ...] = (first, *zip(owns, neighbors, strict=True))
    ends = (*map(then, network.norms), lambda rows: rows)
    layers = tuple((*two, end) for two, end in zip(maps, ends, strict=True))
    return ArcNetwork(lambda x: torch.cat([own(x), neighbor(x)], 1), layers, lambda rows: rows[-1], adjacency)


def _sum_parts(network: SumSAGE, adjacency: sp.csr_matrix) -> ArcNetwork:
    def then(norm: nn.Module) -> Rowwise:
        return lambda rows: selu(norm(normalize(rows)))

    maps = zip(network.own, network.neighbor, network.norms, strict=True)
    layers = tuple((own, neighbor, then(norm)) for own, neighbor, norm in maps)
    return ArcNetwork(
        network.before,
        layers,
        lambda rows: network.head(torch.cat(rows[1:], 1) if network.jumping else rows[-1]),
        adjacency,
    )


def _loaded(network: Any, fitted: Fitted) -> Any:
    load_weights(network, fitted.weights, "network")
    return network.double()


def _released(fitted: Fitted, graph: Graph) -> sp.csr_matrix:
    sources, targets = fitted.released[EDGES].T
    if not graph.directed:
        sources, targets = np.concatenate([sources, targets]), np.concatenate([targets, sources])
    return sp.csr_matrix((np.ones(len(sources)), (targets, sources)), shape=(graph.num_nodes, graph.num_nodes))


def _patched(rows: Tensor, keys: NDArray[np.int64], some: NDArray[np.int64], theirs: Tensor) -> Tensor:
    rows[torch.from_numpy(np.searchsorted(keys, some))] = theirs
    return rows


def _parts(x: Any) -> Iterator[Tensor]:
    for start in range(0, x.shape[0], _ROWS):
        yield torch.from_numpy(dense(x[start : start + _ROWS]))
