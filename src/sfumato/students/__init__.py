"""Students are plain learners from public rows and given labels: what they do is post-processing of the labels.

This package does not import torch by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato._optional import homes_in, lazily

if TYPE_CHECKING:
    from sfumato.students._cleansing import PATEPlusPlus as PATEPlusPlus
    from sfumato.students._consistency import ConsistencyStudent as ConsistencyStudent
    from sfumato.students._coteaching import CoTeaching as CoTeaching
    from sfumato.students._coteaching import PATEPlus as PATEPlus
    from sfumato.students._gan import GANStudent as GANStudent

_HOME = homes_in(__file__)

__all__ = sorted(_HOME)

__getattr__, __dir__ = lazily(__name__, _HOME)
