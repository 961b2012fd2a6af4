"""Local privacy: every user randomizes its own features and label, and the server learns from the reports.

This package does not import torch by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato._optional import homes_in, lazily

if TYPE_CHECKING:
    from sfumato.local._blink import Blink as Blink
    from sfumato.local._collection import Collection as Collection
    from sfumato.local._dendrogram import CommunityTrees as CommunityTrees
    from sfumato.local._hybrid import Hybrid as Hybrid
    from sfumato.local._label_only import LabelOnly as LabelOnly
    from sfumato.local._link_prediction import LinkPrediction as LinkPrediction
    from sfumato.local._lpgnn import LPGNN as LPGNN
    from sfumato.local._method import LocalMethod as LocalMethod
    from sfumato.local._propagation import propagate_labels as propagate_labels
    from sfumato.local._smoothed import Smoothed as Smoothed
    from sfumato.local._smoothing import HeatKernelRidge as HeatKernelRidge
    from sfumato.local._smoothing import WalkKernelRidge as WalkKernelRidge

_HOME = homes_in(__file__)

__all__ = sorted(_HOME)

__getattr__, __dir__ = lazily(__name__, _HOME)
