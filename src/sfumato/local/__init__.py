"""Local privacy: every user randomizes its own features and label; the server learns from reports. No torch here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.local.collision import Collision
    from sfumato.local.direction import Direction
    from sfumato.local.gaussian import Gaussian
    from sfumato.local.laplace import Laplace
    from sfumato.local.multibit import MultiBit, OneBit
    from sfumato.local.pgc import PGC
    from sfumato.local.piecewise import Piecewise
    from sfumato.local.privunit import PrivUnit
    from sfumato.local.randomized_response import LocalHashing, RandomizedResponse, UnaryEncoding
    from sfumato.local.randomizer import Estimate, Randomizer, Reports
    from sfumato.local.randomness import Source
    from sfumato.local.sketch import Sketch
    from sfumato.local.smoothing import HeatKernelRidge, Smoothed, propagate_labels

_HOME = {
    "PGC": "pgc",
    "Collision": "collision",
    "Direction": "direction",
    "Estimate": "randomizer",
    "Gaussian": "gaussian",
    "HeatKernelRidge": "smoothing",
    "Laplace": "laplace",
    "LocalHashing": "randomized_response",
    "MultiBit": "multibit",
    "OneBit": "multibit",
    "Piecewise": "piecewise",
    "PrivUnit": "privunit",
    "RandomizedResponse": "randomized_response",
    "Randomizer": "randomizer",
    "Reports": "randomizer",
    "Sketch": "sketch",
    "Smoothed": "smoothing",
    "Source": "randomness",
    "UnaryEncoding": "randomized_response",
    "propagate_labels": "smoothing",
}

__all__ = [
    "PGC",
    "Collision",
    "Direction",
    "Estimate",
    "Gaussian",
    "HeatKernelRidge",
    "Laplace",
    "LocalHashing",
    "MultiBit",
    "OneBit",
    "Piecewise",
    "PrivUnit",
    "RandomizedResponse",
    "Randomizer",
    "Reports",
    "Sketch",
    "Smoothed",
    "Source",
    "UnaryEncoding",
    "propagate_labels",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
