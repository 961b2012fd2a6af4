"""Node membership by likelihood ratios against several shadow models: LiRA and RMIA.

Both train shadow models of which each candidate is in half (:func:`~sfumato.attacks._shadows.shadows`). The offline forms read of
them, for each node, only those that were not trained on it: an attacker who trained before seeing the node has no others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from sfumato._validate import check_fields, check_int, fail, flag, real
from sfumato.attacks._attack import Attack
from sfumato.attacks._membership import BASELINE
from sfumato.attacks._scores import Attacked
from sfumato.attacks._shadows import (
    LEAST,
    TARGET,
    TRAIN,
    Candidates,
    Shadows,
    confidence,
    labels,
    shadows,
    without_target,
)

if TYPE_CHECKING:
    from sfumato.attacks._attack import Progress
    from sfumato.graph._graph import Graph
    from sfumato.method._plan import Fitted

_KNOWLEDGE = (
    "the whole graph with labels, which nodes are neither training nor test, the method with its settings and budget, and what "
    "the model predicts"
)


@dataclass(frozen=True)
class LiRA(Attack):
    r"""The likelihood ratio of the target's confidence between shadow models with the node and without it.

    With :math:`\phi` the logit of the true class (:func:`~sfumato.attacks._shadows.confidence`) and Gaussian fits to its values
    under shadow models, the score is

    .. math:: \log N(\phi; \mu_{in}, \sigma_{in}^2) - \log N(\phi; \mu_{out}, \sigma_{out}^2)

    online, and offline :math:`(\phi - \mu_{out}) / \sigma_{out}`, which ranks as the one-sided p-value of the paper and does not
    round to 1. Means are those of each node. With ``fixed_variance`` the two variances are pooled over all nodes about the
    nodes' own means, each from its own side. (A published implementation takes the variance of out-scores from the in-scores,
    and both about a common mean.)

    The paper advises ``fixed_variance`` for fewer than 64 shadow models.

    Source: Carlini, Chien, Nasr, Song, Terzis and Tramer (2022), algorithm 1.
    """

    num_shadows: int = 16
    online: bool = True
    fixed_variance: bool = True
    name: ClassVar[str] = "membership-lira"
    target: ClassVar[str] = TARGET
    knowledge: ClassVar[str] = _KNOWLEDGE
    summary: ClassVar[str] = "membership: likelihood ratio of shadow models (LiRA)"
    citations: ClassVar[tuple[str, ...]] = ("carlini2022membership",)

    def __post_init__(self) -> None:
        _check_shadows(self.num_shadows)
        check_fields(self, online=flag(), fixed_variance=flag())

    def run(self, fitted: Fitted, graph: Graph, *, seed: int, progress: Progress | None = None) -> Attacked:
        """Train the shadow models and score every candidate."""
        seed = check_int(low=0, high=2**32 - 1, seed=seed)
        return self.judged(fitted, graph, shadows(fitted, graph, self.num_shadows, seed, progress), seed)

    def judged(self, fitted: Fitted, graph: Graph, models: Shadows, seed: int) -> Attacked:
        """Score every candidate by shadow models that are trained already, which several attacks may share."""
        asked, rows = Candidates.of(graph), np.concatenate(Candidates.of(graph))
        values = np.zeros(graph.num_nodes)
        target = confidence(fitted.predict_proba(graph), labels(graph))
        values[rows] = self.ratios(target[rows], models.logits[:, rows], models.trained[:, rows])
        baselines = {BASELINE: without_target(graph, seed)}
        return Attacked(self.name, self.target, self.knowledge, asked.scores(values), baselines)

    def ratios(
        self, target: NDArray[np.float64], models: NDArray[np.float64], trained: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """Compute the scores from logits alone, float64 [n].

        ``target`` holds logits [n], and ``models`` [num_shadows, n]. Each node is in and out twice or more.
        """
        out_mean, out_deviation = self._fit(models, ~trained)
        if not self.online:
            return np.asarray((target - out_mean) / out_deviation)
        in_mean, in_deviation = self._fit(models, trained)
        above = norm.logpdf(target, in_mean, in_deviation) - norm.logpdf(target, out_mean, out_deviation)
        return np.asarray(above, np.float64)

    def _fit(
        self, models: NDArray[np.float64], side: NDArray[np.bool_]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and standard deviation of each node's values on one side; a deviation of 0 becomes a very small one."""
        count = side.sum(axis=0)
        mean = np.where(side, models, 0).sum(axis=0) / count
        square = np.where(side, (models - mean) ** 2, 0).sum(axis=0)
        freedom = count - 1
        variance = np.full(len(count), square.sum() / freedom.sum()) if self.fixed_variance else square / freedom
        return mean, np.sqrt(np.maximum(variance, 1e-12))


@dataclass(frozen=True)
class RMIA(Attack):
    r"""How many nodes of the population a node beats in how much the target likes it more than shadow models do.

    With :math:`r(x) = p_\theta(x) / p(x)`, where :math:`p_\theta(x)` is the target's probability of the true class, the score is
    the share of population nodes z with :math:`r(x) \geq \gamma \, r(z)`. Online p(x) is the mean of two means, over shadow
    models with x and without it. Offline :math:`a \, \bar p_{out}(x) + 1 - a` stands for the mean with x; the published
    a = 0.3 was tuned on images by the authors, not here. Population nodes are labeled ones of the validation role or of none:
    no model is trained on them, so all shadow models are out for them, and online too p(z) is the mean over these.

    Source: Zarifzadeh, Liu and Shokri (2024), Low-Cost High-Power Membership Inference Attacks.
    """

    num_shadows: int = 4
    online: bool = False
    offline_a: float = 0.3
    gamma: float = 2.0
    name: ClassVar[str] = "membership-rmia"
    target: ClassVar[str] = TARGET
    knowledge: ClassVar[str] = _KNOWLEDGE + ", and some nodes that were not in training"
    summary: ClassVar[str] = "membership: pairwise likelihood ratios (RMIA)"
    citations: ClassVar[tuple[str, ...]] = ("zarifzadeh2024low",)

    def __post_init__(self) -> None:
        _check_shadows(self.num_shadows, low=2)
        check_fields(self, online=flag(), offline_a=real(0, 1), gamma=real(1))

    def run(self, fitted: Fitted, graph: Graph, *, seed: int, progress: Progress | None = None) -> Attacked:
        """Train the shadow models and score every candidate."""
        seed = check_int(low=0, high=2**32 - 1, seed=seed)
        population(graph)
        return self.judged(fitted, graph, shadows(fitted, graph, self.num_shadows, seed, progress), seed)

    def judged(self, fitted: Fitted, graph: Graph, models: Shadows, seed: int) -> Attacked:
        """Score every candidate by shadow models that are trained already."""
        asked, y = Candidates.of(graph), labels(graph)
        rows, others = np.concatenate(asked), population(graph)
        target = fitted.predict_proba(graph)[np.arange(len(y)), np.maximum(y, 0)].astype(np.float64)
        liked = [
            self.liking(target[part], models.probabilities[:, part], models.trained[:, part]) for part in (rows, others)
        ]
        values = np.zeros(graph.num_nodes)
        values[rows] = self.beaten(*liked)
        baselines = {BASELINE: without_target(graph, seed)}
        return Attacked(self.name, self.target, self.knowledge, asked.scores(values), baselines)

    def liking(
        self, target: NDArray[np.float64], models: NDArray[np.float64], trained: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """Compute r of each node, float64 [n].

        ``target`` [n] and ``models`` [num_shadows, n] hold probabilities of the true class.
        """
        out = np.where(trained, 0, models).sum(axis=0) / (~trained).sum(axis=0)
        inside = trained.sum(axis=0)
        within = np.where(trained, models, 0).sum(axis=0) / np.maximum(inside, 1)
        both = np.where(inside > 0, (within + out) / 2, out)
        expected = both if self.online else ((1 + self.offline_a) * out + 1 - self.offline_a) / 2
        return np.asarray((target + LEAST) / (expected + LEAST))

    def beaten(self, liked: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute the share of population nodes that each node beats, float64 [n].

        ``liked`` and ``others`` hold r of the candidates and of the population.
        """
        return np.searchsorted(np.sort(others), liked / self.gamma, side="right") / len(others)


def population(graph: Graph) -> NDArray[np.int64]:
    """Return the labeled nodes that are neither in the training role nor candidates, int64 [k]."""
    outside = labels(graph) >= 0
    outside[np.concatenate(Candidates.of(graph))] = False
    rows = np.flatnonzero(outside & (np.asarray(graph.roles) != TRAIN))
    if not len(rows):
        raise fail("number of nodes outside training and test", 0, "to be 1 or more", "Split off validation nodes.")
    return rows


def _check_shadows(count: int, low: int = 4) -> None:
    check_int(low=low, num_shadows=count)
    if count % 2:
        raise fail("num_shadows", count, "to be even", "Shadow models come in pairs that share out the candidates.")
