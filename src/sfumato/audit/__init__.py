"""Attacks on the claim itself: what epsilon the outputs of a mechanism rule out, at a stated confidence."""

from sfumato._optional import lazily

__getattr__, __dir__ = lazily(__name__)
