"""Scores of fitted models beside their controls. Everything here reads true labels: outside the guarantee."""

from sfumato._optional import lazily

__getattr__, __dir__ = lazily(__name__)
