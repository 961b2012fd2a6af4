"""This package holds private statistics of a graph, and the synthetic graph that is made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato._optional import homes_in, lazily

if TYPE_CHECKING:
    from sfumato.statistics._answers import Answer as Answer
    from sfumato.statistics._answers import Described as Described
    from sfumato.statistics._answers import describe as describe
    from sfumato.statistics._asking import Offer as Offer
    from sfumato.statistics._asking import offers as offers
    from sfumato.statistics._statistics import Statistics as Statistics

_HOME = homes_in(__file__)

__all__ = sorted(_HOME)

__getattr__, __dir__ = lazily(__name__, _HOME)
