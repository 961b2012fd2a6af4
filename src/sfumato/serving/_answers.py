"""The forms of a server's answers, as its OpenAPI description lists them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass
class Prediction:
    """A prediction is what is told about a node.

    Args:
        node: id of the node.
        predicted: the class that it is told.
        probabilities: the model's probability of each class.
        source: ``known`` if ``predicted`` is the public label of a training node.
        set: the classes in the node's set, if the server has a coverage.
        chosen: whether the node is chosen, if the server has a threshold.
    """

    node: str
    predicted: str
    probabilities: dict[str, float]
    source: Literal["model", "known"]
    set: list[str] = field(default_factory=list)
    chosen: bool = False


@dataclass
class ManyPredictions:
    """The predictions of many nodes, in the order of the request, are one answer.

    Args:
        predictions: one for each node.
    """

    predictions: list[Prediction]


@dataclass
class RunFacts:
    """The facts of a run are what anyone may know of it.

    Args:
        method: its name in the catalog.
        protects: what is protected, in words.
        unit: the unit of privacy.
        claim: epsilon and delta of the certificate.
        who_may_see: who may see what.
        classes: names of the classes.
        nodes: how many nodes there are.
        decided: what sets and choices mean, in words.
    """

    method: str
    protects: str
    unit: dict[str, Any]
    claim: dict[str, float]
    who_may_see: dict[str, list[str]]
    classes: list[str]
    nodes: int
    decided: list[str]


@dataclass
class Refusal:
    """A refusal says why there is no answer.

    Args:
        detail: a sentence, and its remedy.
    """

    detail: str
