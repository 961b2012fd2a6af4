"""Students are plain learners from public rows and given labels: what they do is post-processing of the labels.

This package does not import torch by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato._optional import lazily

if TYPE_CHECKING:
    from sfumato.students.cleansing import PATEPlusPlus as PATEPlusPlus
    from sfumato.students.consistency import ConsistencyStudent as ConsistencyStudent
    from sfumato.students.coteaching import CoTeaching as CoTeaching
    from sfumato.students.coteaching import PATEPlus as PATEPlus
    from sfumato.students.gan import GANStudent as GANStudent

_HOME = {
    "ConsistencyStudent": "consistency",
    "CoTeaching": "coteaching",
    "GANStudent": "gan",
    "PATEPlus": "coteaching",
    "PATEPlusPlus": "cleansing",
}

__all__ = sorted(_HOME)

__getattr__, __dir__ = lazily(__name__, _HOME)
