"""Randomness from a key: whole words, proved laws. Nothing here knows of budgets or graphs."""

from sfumato._optional import lazily

__getattr__, __dir__ = lazily(__name__)
