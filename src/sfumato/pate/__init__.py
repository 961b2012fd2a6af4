"""PATE: teachers on disjoint private data vote, noise hides each vote, and a student learns from the answers.

This package does not import torch by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato._optional import homes_in, lazily

if TYPE_CHECKING:
    from sfumato.pate._aggregation import Answers as Answers
    from sfumato.pate._aggregation import ConfidentGNMax as ConfidentGNMax
    from sfumato.pate._aggregation import GNMax as GNMax
    from sfumato.pate._aggregation import InteractiveGNMax as InteractiveGNMax
    from sfumato.pate._aggregation import LNMax as LNMax
    from sfumato.pate._analysis import Analysis as Analysis
    from sfumato.pate._analysis import analyze as analyze
    from sfumato.pate._ensemble import IMAGE_SETTINGS as IMAGE_SETTINGS
    from sfumato.pate._ensemble import Ensemble as Ensemble
    from sfumato.pate._ensemble import TorchTeacher as TorchTeacher
    from sfumato.pate._epsilon_release import Released as Released
    from sfumato.pate._epsilon_release import published_release as published_release
    from sfumato.pate._epsilon_release import release_epsilon as release_epsilon
    from sfumato.pate._folder import load_student as load_student
    from sfumato.pate._graph_teachers import GraphTeachers as GraphTeachers
    from sfumato.pate._images import load_images as load_images
    from sfumato.pate._teachers import assign as assign
    from sfumato.pate._teachers import parts as parts
    from sfumato.pate._teachers import train_each as train_each
    from sfumato.pate._votes import count_votes as count_votes
    from sfumato.pate._votes import read_votes as read_votes

_HOME = homes_in(__file__)

__all__ = sorted(_HOME)

__getattr__, __dir__ = lazily(__name__, _HOME)
