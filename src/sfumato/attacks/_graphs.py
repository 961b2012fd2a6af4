"""Reconstruction of the whole graph: the most similar pairs of nodes, as many as there are links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sfumato._validate import check_fields, check_int, fail, integer, one_of
from sfumato.attacks._attack import Attack, Progress
from sfumato.attacks._node_rows import SIGHTS, WORDS, node_rows
from sfumato.attacks._pairs import DISTANCES, link_numbers, similarities
from sfumato.attacks._scores import Attacked, Scores
from sfumato.central._perturbed import EDGES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.graph._graph import Graph
    from sfumato.method._plan import Fitted


@dataclass(frozen=True)
class WholeGraph(Attack):
    """Graph reconstruction takes the pairs of nodes whose rows are the most alike, as many as there are links.

    Every pair of different nodes is a candidate, and its score is minus the distance of the two rows. The attacker knows the
    number m of links; ``precision`` is the share of links among the m best pairs (ties broken at random), which is also the
    recall. Beside it stand the same on features, and the share of links among all pairs, which is what guessing reaches.
    Where edges were released, ``sees`` = ``releases`` puts them before all other pairs.

    **Edge-level privacy does not stop a reconstruction from what is public under it**: features of linked nodes are alike. And
    an AUC over all pairs flatters: at one link in 1,000 pairs, an AUC of 0.95 still leaves most of the m best pairs wrong.

    Of more than ``most`` nodes, a random part is taken, with the links between them.

    >>> WholeGraph().distance, WholeGraph.name
    ('correlation', 'graph')

    Source: Zhang, Liu, Huang, Wang, Lu and Liu (2021), GraphMI, the baseline "attribute similarity" and the decoding of
    embeddings at a known number of links. The threshold is theirs; nothing is optimized here.
    """

    sees: str = "posteriors"
    distance: str = "correlation"
    most: int = 500
    name: ClassVar[str] = "graph"
    target: ClassVar[str] = "which pairs of all nodes are linked"
    knowledge: ClassVar[str] = "the number of links"
    summary: ClassVar[str] = "all links, as the most similar pairs"
    citations: ClassVar[tuple[str, ...]] = ("zhang2021graphmi",)

    def __post_init__(self) -> None:
        check_fields(self, sees=one_of(*SIGHTS), distance=one_of(*DISTANCES), most=integer(3))

    def run(self, fitted: Fitted, graph: Graph, *, seed: int, progress: Progress | None = None) -> Attacked:
        """Score all pairs by their similarity."""
        coins = np.random.default_rng(check_int(low=0, high=2**32 - 1, seed=seed))
        nodes = np.sort(coins.permutation(graph.num_nodes)[: self.most])
        pairs = nodes[np.stack(np.triu_indices(len(nodes), 1), axis=1)]
        linked = np.isin(pairs[:, 0] * graph.num_nodes + pairs[:, 1], link_numbers(graph))
        if not linked.any() or linked.all():
            raise fail("graph", graph.name, "to have pairs with and without a link", "Ask for more nodes.")
        tables: dict[str, Any] = {} if graph.x is None else {"features_": graph.x}
        edges = fitted.released.get(EDGES) if self.sees == "releases" else None
        if edges is None:
            found = similarities(node_rows(fitted, graph, self.sees), pairs, self.distance)
        else:
            numbers = np.sort(edges, axis=1) @ np.array([graph.num_nodes, 1])
            found = np.isin(pairs[:, 0] * graph.num_nodes + pairs[:, 1], numbers).astype(np.float64)
        answers = {"": found} | {name: similarities(rows, pairs, self.distance) for name, rows in tables.items()}
        measures = {f"{name}precision": _precision(answer, linked, coins) for name, answer in answers.items()}
        measures |= {"guessing_precision": float(linked.mean()), "links": float(linked.sum())}
        both = {name: Scores(answer[linked], answer[~linked]) for name, answer in answers.items()}
        beside = {"features only": both["features_"]} if "features_" in both else {}
        if progress is not None:
            progress("pairs", len(pairs), len(pairs))
        return Attacked(self.name, self.target, f"{WORDS[self.sees]}, {self.knowledge}", both[""], beside, measures)


def _precision(answer: NDArray[np.float64], linked: NDArray[np.bool_], coins: np.random.Generator) -> float:
    top = np.lexsort([coins.random(len(answer)), -answer])[: linked.sum()]
    return float(linked[top].mean())
