"""Node membership by the confidence of the model, and by an attack network trained on one shadow model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import AT_LEAST_1, STEP_SIZE, check_fields, check_int, integer
from sfumato.attacks._attack import Attack
from sfumato.attacks._regression import network_odds
from sfumato.attacks._scores import Attacked
from sfumato.attacks._shadows import NONE, TARGET, Candidates, confidence, labels, shadow_model, without_target

if TYPE_CHECKING:
    from sfumato.attacks._attack import Progress
    from sfumato.graph._graph import Graph
    from sfumato.method._plan import Fitted

BASELINE = "features and label, without the model"


@dataclass(frozen=True)
class Confidence(Attack):
    r"""The plain control: a node's score is the logit of its true class, :math:`\log p_y - \log \sum_{c \neq y} p_c`.

    The attacker asks the model once and trains nothing. An easy node that was held out looks like a member.

    Source: Yeom, Giacomelli, Fredrikson and Jha (2018), adversary 2, with the logit instead of the loss, which ranks alike.
    """

    name: ClassVar[str] = "membership-confidence"
    target: ClassVar[str] = TARGET
    knowledge: ClassVar[str] = "what the model predicts for a node, and the node's true label"
    summary: ClassVar[str] = "membership: how sure the model is of the true label"
    citations: ClassVar[tuple[str, ...]] = ("yeom2018privacy",)

    def run(self, fitted: Fitted, graph: Graph, *, seed: int, progress: Progress | None = None) -> Attacked:
        """Score every candidate by the confidence of the model."""
        check_int(low=0, high=2**32 - 1, seed=seed)
        scores = Candidates.of(graph).scores(confidence(fitted.predict_proba(graph), labels(graph)))
        baselines = {BASELINE: without_target(graph, seed)}
        if progress is not None:
            progress("queries", 1, 1)
        return Attacked(self.name, self.target, self.knowledge, scores, baselines)


@dataclass(frozen=True)
class ShadowMembership(Attack):
    """An attack network learns from one shadow model which answers members get, and is asked about the target's answers.

    1. *Shadow*: ``num_per_class`` labeled nodes of each class, drawn uniformly from the whole graph (all nodes of a class that
       has fewer), get roles at random in the shares of the target's training, validation and test nodes. A shadow model of
       the same method, settings, unit and budget is trained on them. It reads the whole graph, as the target does.
    2. *Attack network*: a multilayer perceptron of three layers learns from the shadow's predictions, beside the true label,
       which of them are for its training nodes and which for its test nodes, equally many of each.
    3. *Query*: the target's predictions for its training and test nodes, made on the full graph. Features of the attack network
       are probabilities, and are not scaled: nothing is fitted on what is queried.

    The score of a node is the attack network's log-odds. The paper trains the attack network on predictions alone; the published
    code behind table 4.3 of the thesis adds the true label, as is done here, which makes the attack stronger.

    Source: Olatunji, Nejdl and Khosla (2021), train on subgraph, test on full graph (TSTF).
    """

    num_per_class: int = 1000
    width: int = 64
    epochs: int = 100
    learning_rate: float = 0.01
    name: ClassVar[str] = "membership"
    target: ClassVar[str] = TARGET
    knowledge: ClassVar[str] = (
        "the whole graph with labels, the method with its settings and budget, and what the model predicts"
    )
    summary: ClassVar[str] = "membership: a network trained on one shadow model (TSTF)"
    citations: ClassVar[tuple[str, ...]] = ("olatunji2021membership",)

    def __post_init__(self) -> None:
        check_fields(self, num_per_class=integer(2), width=AT_LEAST_1, epochs=AT_LEAST_1, learning_rate=STEP_SIZE)

    def run(self, fitted: Fitted, graph: Graph, *, seed: int, progress: Progress | None = None) -> Attacked:
        """Train the shadow model and the attack network, and score every candidate.

        ``measures`` holds the number of nodes that the shadow model was drawn from.
        """
        seed = check_int(low=0, high=2**32 - 1, seed=seed)
        asked = Candidates.of(graph)
        shadow_graph = self.shadow_graph(graph, seed)
        shadow = shadow_model(fitted, shadow_graph, seed)
        if progress is not None:
            progress("shadow models", 1, 1)
        answers = attack_rows(shadow.predict_proba(shadow_graph), labels(graph))
        queries = attack_rows(fitted.predict_proba(graph), labels(graph))
        scores = self.log_odds(answers, Candidates.of(shadow_graph), queries, seed, progress)
        drawn = float(np.count_nonzero(shadow_graph.roles != NONE))
        return Attacked(
            self.name,
            self.target,
            self.knowledge,
            asked.scores(scores),
            {BASELINE: without_target(graph, seed)},
            {"shadow_nodes": drawn},
        )

    def shadow_graph(self, graph: Graph, seed: int) -> Graph:
        """Draw the shadow model's nodes and give them roles; all other nodes have none."""
        draw, y = np.random.default_rng([seed, 0]), labels(graph)
        drawn = np.concatenate(
            [draw.permutation(np.flatnonzero(y == one))[: self.num_per_class] for one in range(graph.num_classes)]
        )
        counts = np.bincount(np.asarray(graph.roles), minlength=4)[:NONE]
        ends = np.round(np.cumsum(counts) / counts.sum() * len(drawn)).astype(np.int64)
        roles = np.full(graph.num_nodes, NONE, np.uint8)
        roles[draw.permutation(drawn)] = np.repeat(np.arange(NONE), np.diff(ends, prepend=0))
        return graph.with_roles(roles)

    def log_odds(
        self,
        answers: NDArray[np.float32],
        known: Candidates,
        queries: NDArray[np.float32],
        seed: int,
        progress: Progress | None = None,
    ) -> NDArray[np.float64]:
        """Train the attack network on answers of the shadow model and return its log-odds for the queries, float64 [n]."""
        draw, size = np.random.default_rng([seed, 2]), min(map(len, known))
        rows = np.concatenate([draw.permutation(side)[:size] for side in known])
        told = None if progress is None else partial(progress, "attack network")
        settings = {"epochs": self.epochs, "learning_rate": self.learning_rate, "progress": told}
        return network_odds(answers[rows], np.repeat([True, False], size), queries, self.width, seed, **settings)


def attack_rows(probabilities: NDArray[np.float32], y: NDArray[np.int64]) -> NDArray[np.float32]:
    """Put each node's true class beside what a model predicts for it, float32 [num_nodes, 2 num_classes].

    A node without label (-1) gets zeros.
    """
    truth = y[:, None] == np.arange(probabilities.shape[1])
    return np.hstack([probabilities, truth.astype(np.float32)])
