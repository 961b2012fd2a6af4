"""Membership attacks share this: candidates, shadow models that are trained like the target, and the attacker without a target.

Splits here are uniform over nodes. Khosla (2026) shows that bounds which link differential privacy to membership advantage do not
apply to other splits of a graph, such as snowball samples: members and others then differ before any model is trained.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import fail
from sfumato.attacks._scores import Scores
from sfumato.catalog import method_named
from sfumato.privacy.units import NoPrivacy

if TYPE_CHECKING:
    from sfumato.attacks._attack import Progress
    from sfumato.graph._graph import Graph
    from sfumato.method._plan import Fitted

TRAIN, TEST, NONE = 0, 2, 3
TARGET = "whether a node's features and label were in training"
LEAST = float(np.finfo(np.float32).tiny)
"""Added to probabilities before a logarithm: the smallest that is told apart from 0 in what a model answers."""


class Candidates(NamedTuple):
    """Candidates are the nodes whose membership is asked: labeled ones that trained, and labeled ones that were held out.

    Validation nodes are neither: they may have chosen when training ends.
    """

    members: NDArray[np.int64]
    others: NDArray[np.int64]

    @classmethod
    def of(cls, graph: Graph) -> Candidates:
        """Read the candidates off the roles and labels of a graph."""
        y = labels(graph)
        found = [np.flatnonzero(mask & (y >= 0)) for mask in (graph.train_mask, graph.test_mask)]
        for role, rows in zip(("train", "test"), found, strict=True):
            if not len(rows):
                raise fail(f"number of labeled {role} nodes", 0, "to be 1 or more", "Attack the graph of the fit.")
        return cls(*found)

    def scores(self, values: NDArray[np.floating]) -> Scores:
        """Return the scores of the candidates among those of all nodes; ``values`` is [num_nodes]."""
        exact = np.asarray(values, np.float64)
        return Scores(exact[self.members], exact[self.others])


def labels(graph: Graph) -> NDArray[np.int64]:
    """Return the labels of a graph, int64 [num_nodes]."""
    if graph.y is None:
        raise fail("labels of the graph", None, "to be there", "Attack the labeled graph of the fit.")
    y: NDArray[np.int64] = graph.y
    return y


def shadow_model(fitted: Fitted, graph: Graph, seed: int) -> Fitted:
    """Train a model like the target: same method, settings, unit and budget, on other roles.

    It spends nothing of anybody's budget, because an attack is an experiment of those who hold the data.
    """
    plan = fitted.plan
    if plan.method.origin is not None:
        raise fail("fitted", plan.method.name, "to have learned from its graph", "Attack the run that was trained.")
    facts = graph.public_facts(plan.unit, assume_public=True)
    shadow: Fitted = plan.method.calibrate(plan.budget, plan.unit, facts).fit(graph, seed=seed)
    return shadow


def confidence(probabilities: NDArray[np.floating], y: NDArray[np.int64]) -> NDArray[np.float64]:
    r"""Compute the logit :math:`\log p_y - \log \sum_{c \neq y} p_c` of the true class; 0 for a node without label.

    The sum over other classes is exact where :math:`1 - p_y` rounds to 0.

    Source: Carlini et al. (2022), Membership Inference Attacks From First Principles.
    """
    probabilities = probabilities.astype(np.float64)
    at = (np.arange(len(y)), np.maximum(y, 0))
    right = probabilities[at]
    probabilities[at] = 0
    logit: NDArray[np.float64] = np.log(right + LEAST) - np.log(probabilities.sum(axis=1) + LEAST)
    return np.where(y >= 0, logit, 0.0)


def without_target(graph: Graph, seed: int) -> Scores:
    """Score the candidates by a network of the attacker's own, which reads features and labels and no graph.

    It is trained on as many nodes, drawn uniformly by the attacker from all that have a role, and says how easily a label
    follows from the features. The target is not asked. Where roles are uniform the AUC is 0.5 but for chance.
    """
    draw = np.random.default_rng([seed, 1])
    taken = np.flatnonzero(graph.roles != NONE)
    roles = np.full(graph.num_nodes, NONE, np.uint8)
    roles[taken] = draw.permutation(np.asarray(graph.roles)[taken])
    own, unit = graph.with_roles(roles), NoPrivacy()
    network = method_named("mlp").calibrate(None, unit, own.public_facts(unit, assume_public=True)).fit(own, seed=seed)
    return Candidates.of(graph).scores(confidence(network.predict_proba(own), labels(graph)))


class Shadows(NamedTuple):
    """Shadows are what several shadow models say of all nodes, with which of them each was trained on.

    Probabilities and logits (:func:`confidence`) are those of the true class, [num_shadows, num_nodes].
    """

    probabilities: NDArray[np.float64]
    logits: NDArray[np.float64]
    trained: NDArray[np.bool_]


def shadows(fitted: Fitted, graph: Graph, count: int, seed: int, progress: Progress | None) -> Shadows:
    """Train shadow models in pairs, each pair on the two halves of a uniform draw of the candidates.

    So every candidate is in the training set of half of the models, whatever it is in the target. Other nodes keep their role.
    The number of training nodes is half of the candidates, which may be another number than the target's.
    """
    y, rows = labels(graph), np.concatenate(Candidates.of(graph))
    draw, known = np.random.default_rng([seed, 0]), np.maximum(y, 0)
    probabilities, logits = np.empty((count, len(y))), np.empty((count, len(y)))
    trained = np.zeros((count, len(y)), bool)
    for model in range(count):
        if model % 2 == 0:
            inside, outside = np.split(draw.permutation(rows), [len(rows) // 2])
        else:
            inside, outside = outside, inside
        roles = np.array(graph.roles)
        roles[inside], roles[outside] = TRAIN, TEST
        other = graph.with_roles(roles)
        said = shadow_model(fitted, other, int(draw.integers(2**32))).predict_proba(other)
        probabilities[model] = said[np.arange(len(y)), known]
        logits[model] = confidence(said, y)
        trained[model, inside] = True
        if progress is not None:
            progress("shadow models", model + 1, count)
    return Shadows(probabilities, logits, trained)
