"""Degree inference: how many neighbors a node has, from what leaves of the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.stats import spearmanr

from sfumato._validate import SHARE, check_fields, check_int, fail, integer, one_of
from sfumato.attacks._attack import Attack, Progress
from sfumato.attacks._node_rows import SIGHTS, WORDS, node_rows
from sfumato.attacks._pairs import dense, link_numbers
from sfumato.attacks._regression import REGRESSIONS, regress
from sfumato.attacks._scores import Attacked, Scores

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.graph._graph import Graph
    from sfumato.method._plan import Fitted

ROLES = ("train", "all")


@dataclass(frozen=True)
class Degree(Attack):
    """Degree inference trains a regression on nodes whose degree the attacker knows, and predicts that of the others.

    Measures are the root-mean-square error, the mean absolute error and Spearman's rank correlation (0 where all answers are
    equal), each beside those of the mean of the known degrees, and those of the same regression on features. **A larger error
    means that less was learned**, and an error near that of the mean means that nothing was. (Zhang, chapter 5, writes that a
    lower error makes inference harder, and then reads its figures the other way round.) A large error protects nobody alone:
    rows of pure noise have the largest, and are of no use. Scores are predicted degrees; in are nodes above the median.

    ``role`` says which nodes are asked for; with ``within`` only arcs between these count, as a method that trains on them
    alone reads them. Of more than ``most`` nodes, a random part is taken.

    Source: Zhang, Differentially Private Deep Learning, section 5.4.2, figures 5.4 and 5.5.
    """

    sees: str = "posteriors"
    regression: str = "ridge"
    known: float = 0.5
    role: str = "train"
    within: bool = False
    most: int = 3000
    name: ClassVar[str] = "degree"
    target: ClassVar[str] = "whether a node's degree is above the median"
    knowledge: ClassVar[str] = "the degrees of some nodes"
    summary: ClassVar[str] = "a regression from what leaves to degrees"
    citations: ClassVar[tuple[str, ...]] = ("zhang2024dpar",)

    def __post_init__(self) -> None:
        check_fields(self, sees=one_of(*SIGHTS), regression=one_of(*REGRESSIONS), role=one_of(*ROLES), known=SHARE)
        check_fields(self, most=integer(10))

    def run(self, fitted: Fitted, graph: Graph, *, seed: int, progress: Progress | None = None) -> Attacked:
        """Score nodes by their predicted degrees."""
        coins = np.random.default_rng(check_int(low=0, high=2**32 - 1, seed=seed))
        nodes = np.flatnonzero(graph.train_mask) if self.role == "train" else np.arange(graph.num_nodes)
        degrees = degrees_of(graph, nodes if self.within else None)
        nodes = coins.permutation(nodes)[: self.most]
        cut = round(self.known * len(nodes))
        known, asked = nodes[:cut], nodes[cut:]
        median = np.median(degrees[asked]) if len(asked) else 0.0
        above = degrees[asked] > median
        if len(known) < 5 or not above.any() or above.all():
            raise fail("graph", graph.name, "to have nodes of different degrees in this role", "Ask for role all.")

        def predicted(rows: Any) -> NDArray[np.float64]:
            return regress(self.regression, dense(rows[known]), degrees[known], dense(rows[asked]))

        found = predicted(node_rows(fitted, graph, self.sees))
        answers = {"": found, "mean_": np.full(len(asked), degrees[known].mean())}
        if graph.x is not None:
            answers["features_"] = predicted(graph.x)
        measures = {
            f"{prefix}{measure}": value
            for prefix, answer in answers.items()
            for measure, value in errors(degrees[asked], answer).items()
        }
        beside = {
            {"mean_": "mean of known degrees", "features_": "features only"}[prefix]: Scores(
                answer[above], answer[~above]
            )
            for prefix, answer in answers.items()
            if prefix
        }
        if progress is not None:
            progress("nodes", len(asked), len(asked))
        knowledge = f"{WORDS[self.sees]}, and the degrees of {len(known)} nodes"
        return Attacked(self.name, self.target, knowledge, Scores(found[above], found[~above]), beside, measures)


def errors(true: NDArray[np.float64], answers: NDArray[np.float64]) -> dict[str, float]:
    """Compute root-mean-square error, mean absolute error and Spearman's rank correlation, 0 where all answers are equal."""
    equal = np.ptp(answers) == 0 or np.ptp(true) == 0
    return {
        "rmse": float(np.sqrt(np.mean((true - answers) ** 2))),
        "mae": float(np.mean(np.abs(true - answers))),
        "spearman": 0.0 if equal else float(spearmanr(true, answers).statistic),
    }


def degrees_of(graph: Graph, within: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
    """Count the neighbors of each node by arcs of either direction, float64 [num_nodes].

    ``graph`` has the arcs; with ``within`` only arcs between these nodes count.
    """
    ends = np.stack(np.divmod(link_numbers(graph), graph.num_nodes))
    if within is not None:
        ends = ends[:, np.isin(ends, within).all(0)]
    return np.bincount(ends.ravel(), minlength=graph.num_nodes).astype(np.float64)
