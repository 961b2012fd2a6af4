"""Local privacy: every user randomizes its own features and label; the server learns from reports. No torch here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.local._smoothed import Smoothed
    from sfumato.local.blink import Blink
    from sfumato.local.collection import Collection, Questions
    from sfumato.local.collision import Collision
    from sfumato.local.dendrogram import CommunityTrees
    from sfumato.local.direction import Direction
    from sfumato.local.gaussian import Gaussian
    from sfumato.local.hybrid import Hybrid
    from sfumato.local.label_only import LabelOnly
    from sfumato.local.laplace import Laplace
    from sfumato.local.links import NeighborLists
    from sfumato.local.lpgnn import LPGNN
    from sfumato.local.method import LocalMethod
    from sfumato.local.multibit import MultiBit, OneBit
    from sfumato.local.pgc import PGC
    from sfumato.local.piecewise import Piecewise
    from sfumato.local.privunit import PrivUnit
    from sfumato.local.randomized_response import LocalHashing, RandomizedResponse, UnaryEncoding
    from sfumato.local.randomizer import Estimate, Randomizer, Reports
    from sfumato.local.randomness import Source
    from sfumato.local.sketch import Sketch
    from sfumato.local.smoothing import HeatKernelRidge, propagate_labels
    from sfumato.local.subset import SubsetSelection

_HOME = {
    "Blink": "blink",
    "Collection": "collection",
    "Collision": "collision",
    "CommunityTrees": "dendrogram",
    "Direction": "direction",
    "Estimate": "randomizer",
    "Gaussian": "gaussian",
    "HeatKernelRidge": "smoothing",
    "Hybrid": "hybrid",
    "LabelOnly": "label_only",
    "Laplace": "laplace",
    "LocalHashing": "randomized_response",
    "LocalMethod": "method",
    "LPGNN": "lpgnn",
    "MultiBit": "multibit",
    "NeighborLists": "links",
    "OneBit": "multibit",
    "PGC": "pgc",
    "Piecewise": "piecewise",
    "PrivUnit": "privunit",
    "propagate_labels": "smoothing",
    "Questions": "collection",
    "RandomizedResponse": "randomized_response",
    "Randomizer": "randomizer",
    "Reports": "randomizer",
    "Sketch": "sketch",
    "Smoothed": "_smoothed",
    "Source": "randomness",
    "SubsetSelection": "subset",
    "UnaryEncoding": "randomized_response",
}

__all__ = [
    "LPGNN",
    "PGC",
    "Blink",
    "Collection",
    "Collision",
    "CommunityTrees",
    "Direction",
    "Estimate",
    "Gaussian",
    "HeatKernelRidge",
    "Hybrid",
    "LabelOnly",
    "Laplace",
    "LocalHashing",
    "LocalMethod",
    "MultiBit",
    "NeighborLists",
    "OneBit",
    "Piecewise",
    "PrivUnit",
    "Questions",
    "RandomizedResponse",
    "Randomizer",
    "Reports",
    "Sketch",
    "Smoothed",
    "Source",
    "SubsetSelection",
    "UnaryEncoding",
    "propagate_labels",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
