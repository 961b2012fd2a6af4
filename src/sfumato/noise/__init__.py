"""Noise and coins that follow from a key, with proved laws. Nothing here knows of budgets or graphs."""

from sfumato._optional import lazily

__getattr__, __dir__ = lazily(__name__)
