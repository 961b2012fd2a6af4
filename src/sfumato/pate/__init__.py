"""PATE: teachers on disjoint private data vote, noise hides each vote, and a student learns from the answers.

This package does not import torch by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato._optional import lazily

if TYPE_CHECKING:
    from sfumato.pate.aggregation import Answers as Answers
    from sfumato.pate.aggregation import ConfidentGNMax as ConfidentGNMax
    from sfumato.pate.aggregation import GNMax as GNMax
    from sfumato.pate.aggregation import InteractiveGNMax as InteractiveGNMax
    from sfumato.pate.aggregation import LNMax as LNMax
    from sfumato.pate.analysis import Analysis as Analysis
    from sfumato.pate.analysis import analyze as analyze
    from sfumato.pate.ensemble import IMAGE_SETTINGS as IMAGE_SETTINGS
    from sfumato.pate.ensemble import Ensemble as Ensemble
    from sfumato.pate.ensemble import TorchTeacher as TorchTeacher
    from sfumato.pate.epsilon_release import Released as Released
    from sfumato.pate.epsilon_release import published_release as published_release
    from sfumato.pate.epsilon_release import release_epsilon as release_epsilon
    from sfumato.pate.folder import load_student as load_student
    from sfumato.pate.graph_teachers import GraphTeachers as GraphTeachers
    from sfumato.pate.images import load_images as load_images
    from sfumato.pate.teachers import assign as assign
    from sfumato.pate.teachers import parts as parts
    from sfumato.pate.teachers import train_each as train_each
    from sfumato.pate.votes import count_votes as count_votes
    from sfumato.pate.votes import read_votes as read_votes

_HOME = {
    "Analysis": "analysis",
    "analyze": "analysis",
    "Answers": "aggregation",
    "assign": "teachers",
    "ConfidentGNMax": "aggregation",
    "count_votes": "votes",
    "Ensemble": "ensemble",
    "GNMax": "aggregation",
    "GraphTeachers": "graph_teachers",
    "IMAGE_SETTINGS": "ensemble",
    "InteractiveGNMax": "aggregation",
    "LNMax": "aggregation",
    "load_images": "images",
    "load_student": "folder",
    "parts": "teachers",
    "published_release": "epsilon_release",
    "read_votes": "votes",
    "release_epsilon": "epsilon_release",
    "Released": "epsilon_release",
    "TorchTeacher": "ensemble",
    "train_each": "teachers",
}

__all__ = sorted(_HOME)

__getattr__, __dir__ = lazily(__name__, _HOME)
