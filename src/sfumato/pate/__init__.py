"""PATE: teachers on disjoint private data vote, noise hides each vote, a student learns from the answers. No torch here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.pate.aggregation import Answers, ConfidentGNMax, GNMax, InteractiveGNMax, LNMax
    from sfumato.pate.analysis import Analysis, analyze
    from sfumato.pate.cleansing import PATEPlusPlus
    from sfumato.pate.coteaching import CoTeaching, PATEPlus
    from sfumato.pate.ensemble import IMAGE_SETTINGS, Ensemble, TorchTeacher
    from sfumato.pate.folder import load_student
    from sfumato.pate.gan import GANStudent
    from sfumato.pate.graph_teachers import GraphTeachers
    from sfumato.pate.images import load_images
    from sfumato.pate.release import Released, published_release, release_epsilon
    from sfumato.pate.student import ConsistencyStudent
    from sfumato.pate.teachers import assign, parts, train_each
    from sfumato.pate.votes import count_votes, read_votes

_HOME = {
    "IMAGE_SETTINGS": "ensemble",
    "Analysis": "analysis",
    "Answers": "aggregation",
    "CoTeaching": "coteaching",
    "ConfidentGNMax": "aggregation",
    "ConsistencyStudent": "student",
    "Ensemble": "ensemble",
    "GANStudent": "gan",
    "GNMax": "aggregation",
    "GraphTeachers": "graph_teachers",
    "InteractiveGNMax": "aggregation",
    "LNMax": "aggregation",
    "PATEPlus": "coteaching",
    "PATEPlusPlus": "cleansing",
    "Released": "release",
    "TorchTeacher": "ensemble",
    "analyze": "analysis",
    "assign": "teachers",
    "count_votes": "votes",
    "load_images": "images",
    "load_student": "folder",
    "parts": "teachers",
    "published_release": "release",
    "read_votes": "votes",
    "release_epsilon": "release",
    "train_each": "teachers",
}

__all__ = [
    "IMAGE_SETTINGS",
    "Analysis",
    "Answers",
    "CoTeaching",
    "ConfidentGNMax",
    "ConsistencyStudent",
    "Ensemble",
    "GANStudent",
    "GNMax",
    "GraphTeachers",
    "InteractiveGNMax",
    "LNMax",
    "PATEPlus",
    "PATEPlusPlus",
    "Released",
    "TorchTeacher",
    "analyze",
    "assign",
    "count_votes",
    "load_images",
    "load_student",
    "parts",
    "published_release",
    "read_votes",
    "release_epsilon",
    "train_each",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
