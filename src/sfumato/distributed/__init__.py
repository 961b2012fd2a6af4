"""Engines that run the parts of a large computation on other processes and machines."""

from sfumato._optional import lazily

__getattr__, __dir__ = lazily(__name__)
