"""The forms of a server's answers, as its OpenAPI description lists them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass
class Prediction:
    """What is told about a node."""

    node: str
    predicted: str
    probabilities: dict[str, float]
    source: Literal["model", "known"]


@dataclass
class ManyPredictions:
    """What is told about many nodes, in the order of the request."""

    predictions: list[Prediction]


@dataclass
class RunFacts:
    """What anyone may know of the run."""

    method: str
    protects: str
    unit: dict[str, Any]
    claim: dict[str, float]
    who_may_see: dict[str, list[str]]
    classes: list[str]
    nodes: int


@dataclass
class Refusal:
    """Why there is no answer, and what to do."""

    detail: str
