"""Attacks on trained models: what a stranger with the released weights learns, outside the guarantee."""

from sfumato._optional import lazily

__getattr__, __dir__ = lazily(__name__)
