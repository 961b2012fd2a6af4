"""Local randomizers: what a device needs to send one report, with the same contract for all. Torch is not used here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato._optional import lazily

if TYPE_CHECKING:
    from sfumato.randomizers.collision import Collision as Collision
    from sfumato.randomizers.direction import Direction as Direction
    from sfumato.randomizers.gaussian import Gaussian as Gaussian
    from sfumato.randomizers.laplace import Laplace as Laplace
    from sfumato.randomizers.links import NeighborLists as NeighborLists
    from sfumato.randomizers.multibit import MultiBit as MultiBit
    from sfumato.randomizers.multibit import OneBit as OneBit
    from sfumato.randomizers.pgc import PGC as PGC
    from sfumato.randomizers.piecewise import Piecewise as Piecewise
    from sfumato.randomizers.privunit import PrivUnit as PrivUnit
    from sfumato.randomizers.questions import Questions as Questions
    from sfumato.randomizers.randomized_response import LocalHashing as LocalHashing
    from sfumato.randomizers.randomized_response import RandomizedResponse as RandomizedResponse
    from sfumato.randomizers.randomized_response import UnaryEncoding as UnaryEncoding
    from sfumato.randomizers.randomizer import Estimate as Estimate
    from sfumato.randomizers.randomizer import Randomizer as Randomizer
    from sfumato.randomizers.randomizer import Reports as Reports
    from sfumato.randomizers.sketch import Sketch as Sketch
    from sfumato.randomizers.subset import SubsetSelection as SubsetSelection

_HOME = {
    "Collision": "collision",
    "Direction": "direction",
    "Estimate": "randomizer",
    "Gaussian": "gaussian",
    "Laplace": "laplace",
    "LocalHashing": "randomized_response",
    "MultiBit": "multibit",
    "NeighborLists": "links",
    "OneBit": "multibit",
    "PGC": "pgc",
    "Piecewise": "piecewise",
    "PrivUnit": "privunit",
    "Questions": "questions",
    "RandomizedResponse": "randomized_response",
    "Randomizer": "randomizer",
    "Reports": "randomizer",
    "Sketch": "sketch",
    "SubsetSelection": "subset",
    "UnaryEncoding": "randomized_response",
}

__all__ = sorted(_HOME)

__getattr__, __dir__ = lazily(__name__, _HOME)
