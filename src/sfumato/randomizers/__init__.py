"""Local randomizers: what a device needs to send one report, with the same contract for all. Torch is not used here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato._optional import homes_in, lazily

if TYPE_CHECKING:
    from sfumato.randomizers._collision import Collision as Collision
    from sfumato.randomizers._direction import Direction as Direction
    from sfumato.randomizers._gaussian import Gaussian as Gaussian
    from sfumato.randomizers._laplace import Laplace as Laplace
    from sfumato.randomizers._links import NeighborLists as NeighborLists
    from sfumato.randomizers._multibit import PGC as PGC
    from sfumato.randomizers._multibit import Duchi as Duchi
    from sfumato.randomizers._multibit import MultiBit as MultiBit
    from sfumato.randomizers._multibit import OneBit as OneBit
    from sfumato.randomizers._piecewise import Piecewise as Piecewise
    from sfumato.randomizers._privunit import PrivUnit as PrivUnit
    from sfumato.randomizers._questions import Questions as Questions
    from sfumato.randomizers._randomized_response import LocalHashing as LocalHashing
    from sfumato.randomizers._randomized_response import RandomizedResponse as RandomizedResponse
    from sfumato.randomizers._randomized_response import UnaryEncoding as UnaryEncoding
    from sfumato.randomizers._randomizer import Estimate as Estimate
    from sfumato.randomizers._randomizer import Randomizer as Randomizer
    from sfumato.randomizers._randomizer import Reports as Reports
    from sfumato.randomizers._sketch import Sketch as Sketch
    from sfumato.randomizers._subset import SubsetSelection as SubsetSelection

_HOME = homes_in(__file__)

__all__ = sorted(_HOME)

__getattr__, __dir__ = lazily(__name__, _HOME)
