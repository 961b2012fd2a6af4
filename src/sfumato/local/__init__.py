"""Local privacy: every user randomizes its own features and label, and the server learns from the reports.

This package does not import torch by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato._optional import lazily

if TYPE_CHECKING:
    from sfumato.local._smoothed import Smoothed as Smoothed
    from sfumato.local.blink import Blink as Blink
    from sfumato.local.collection import Collection as Collection
    from sfumato.local.dendrogram import CommunityTrees as CommunityTrees
    from sfumato.local.hybrid import Hybrid as Hybrid
    from sfumato.local.label_only import LabelOnly as LabelOnly
    from sfumato.local.link_prediction import LinkPrediction as LinkPrediction
    from sfumato.local.lpgnn import LPGNN as LPGNN
    from sfumato.local.method import LocalMethod as LocalMethod
    from sfumato.local.propagation import propagate_labels as propagate_labels
    from sfumato.local.smoothing import HeatKernelRidge as HeatKernelRidge
    from sfumato.local.smoothing import WalkKernelRidge as WalkKernelRidge

_HOME = {
    "Blink": "blink",
    "Collection": "collection",
    "CommunityTrees": "dendrogram",
    "HeatKernelRidge": "smoothing",
    "Hybrid": "hybrid",
    "LabelOnly": "label_only",
    "LinkPrediction": "link_prediction",
    "LocalMethod": "method",
    "LPGNN": "lpgnn",
    "propagate_labels": "propagation",
    "Smoothed": "_smoothed",
    "WalkKernelRidge": "smoothing",
}

__all__ = sorted(_HOME)

__getattr__, __dir__ = lazily(__name__, _HOME)
