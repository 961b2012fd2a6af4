"""Link stealing: nodes with similar predictions are taken for linked (He et al., 2021, USENIX Security)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sfumato._validate import check_fields, check_int, fail, integer, one_of, real
from sfumato.attacks._attack import Attack, Progress
from sfumato.attacks._pairs import DISTANCES, Candidates, candidates, pair_distances
from sfumato.attacks._regression import network_odds
from sfumato.attacks._scores import Attacked, Scores

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.graph._graph import Graph
    from sfumato.method._plan import Fitted

FEATURES = "features only"
_WIDTH, _EPOCHS, _RATE, _DECAY = 32, 200, 0.01, 1e-3


@dataclass(frozen=True)
class Links(Attack):
    """Link stealing asks of two nodes how alike their predictions are; linked nodes are often alike.

    With ``known`` = 0 nothing is learned: the score of a pair is minus one distance (the source's attack 0). Else the attacker
    knows the truth about a random share of the pairs, and trains a network on their eight distances and on mean, product,
    difference and squared difference of the two entropies (attack 3); with ``features`` also on the distances of the two
    feature rows (attack 6). The rest of the pairs is attacked. Scales are those of the known pairs.

    Beside it stands the same attack on feature rows instead of predictions: alike nodes are often linked, whatever a model
    says. What a model gives away is only what exceeds this. **Edge-level privacy does not stop the attack where the graph is
    homophilous**: it may and should say which nodes are of one class, and such nodes are linked more often. The measure
    ``auc_true_classes`` is what the true classes alone would give, so what a perfect model without an edge gives away.

    Candidates are all links, and as many random pairs without one; if more than ``most`` links are there, a random part.

    The source's best distance without training is correlation.

    >>> Links().distance, Links.name
    ('correlation', 'links')

    Source: He, Jia, Backes, Gong and Zhang (2021), Stealing Links from Graph Neural Networks, section 4.
    """

    distance: str = "correlation"
    known: float = 0.0
    features: bool = False
    most: int = 10_000
    name: ClassVar[str] = "links"
    target: ClassVar[str] = "whether two nodes are linked"
    knowledge: ClassVar[str] = "predictions for all nodes"
    summary: ClassVar[str] = "pairs with similar predictions are taken for links"
    citations: ClassVar[tuple[str, ...]] = ("he2021stealing",)

    def __post_init__(self) -> None:
        check_fields(self, distance=one_of(*DISTANCES), known=real(0, 1, below=True), most=integer(2))
        if self.features and not self.known:
            raise fail("features", True, "to be False where no pair is known", "Give known, such as 0.5.")

    def run(self, fitted: Fitted, graph: Graph, *, seed: int, progress: Progress | None = None) -> Attacked:
        """Score pairs by predictions, and by features alone."""
        coins = np.random.default_rng(check_int(low=0, high=2**32 - 1, seed=seed))
        drawn, posteriors = candidates(graph, coins, self.most), fitted.predict_proba(graph)
        if self.features and graph.x is None:
            raise fail("graph", graph.name, "to have features", "Attack it without them.")
        found = (
            self._learned(graph, posteriors, drawn, coins, seed)
            if self.known
            else self._alike(graph, posteriors, drawn)
        )
        if progress is not None:
            progress("pairs", len(drawn.pairs), len(drawn.pairs))
        return found

    def _alike(self, graph: Graph, posteriors: NDArray[np.float32], drawn: Candidates) -> Attacked:
        tables = {"": posteriors} | ({} if graph.x is None else {"features_": graph.x})
        found: dict[str, Scores] = {}
        measures: dict[str, float] = {}
        for prefix, rows in tables.items():
            columns = -pair_distances(rows, drawn.pairs).T
            every = {name: _scores(column, drawn) for name, column in zip(DISTANCES, columns, strict=True)}
            found[prefix] = every[self.distance]
            measures |= {f"{prefix}auc_{name}": one.auc().value for name, one in every.items()}
        if graph.y is not None:
            ends = graph.y[drawn.pairs]
            same = (ends[:, 0] == ends[:, 1]) & (ends[:, 0] >= 0)
            measures["auc_true_classes"] = _scores(same.astype(np.float64), drawn).auc().value
        beside = {FEATURES: found["features_"]} if "features_" in found else {}
        return Attacked(self.name, self.target, self.knowledge, found[""], beside, measures)

    def _learned(
        self, graph: Graph, posteriors: NDArray[np.float32], drawn: Candidates, coins: np.random.Generator, seed: int
    ) -> Attacked:
        known, asked = drawn.split(self.known, coins)
        words = f"{self.knowledge}, and whether {len(known.pairs)} of the candidates are links"

        def learned(*columns: Callable[[NDArray[np.int64]], NDArray[np.float64]]) -> Scores:
            near, far = (np.hstack([of(part.pairs) for of in columns]) for part in (known, asked))
            return _scores(learned_scores(near, known.is_link, far, seed), asked)

        said, alike = partial(_columns, posteriors), partial(pair_distances, graph.x)
        beside = {} if graph.x is None else {FEATURES: learned(alike)}
        if self.features:
            return Attacked(self.name, self.target, f"{words}, and all features", learned(said, alike), beside)
        return Attacked(self.name, self.target, words, learned(said), beside)


def learned_scores(
    known: NDArray[np.float64], is_link: NDArray[np.bool_], asked: NDArray[np.float64], seed: int
) -> NDArray[np.float64]:
    """Train a network of two hidden layers on known pairs, and compute its log-odds for others.

    Mean and deviation of each column are those of the known pairs: the others are never looked at before they are scored.
    """
    mean, scale = known.mean(0), known.std(0)
    scale = np.where(scale > 0, scale, 1.0)
    near, far = (((rows - mean) / scale).astype(np.float32) for rows in (known, asked))
    settings = {"epochs": _EPOCHS, "learning_rate": _RATE, "weight_decay": _DECAY}
    return network_odds(near, is_link, far, _WIDTH, seed, **settings)


def _scores(values: NDArray[np.float64], drawn: Candidates) -> Scores:
    return Scores(values[drawn.is_link], values[~drawn.is_link])


def _columns(posteriors: NDArray[np.float32], pairs: NDArray[np.int64]) -> NDArray[np.float64]:
    """Eight distances, and what the two entropies say."""
    p = posteriors.astype(np.float64)
    a, b = (-(p * np.log(np.maximum(p, 1e-30))).sum(1))[pairs].T
    return np.column_stack([pair_distances(p, pairs), (a + b) / 2, a * b, abs(a - b), (a - b) ** 2])
