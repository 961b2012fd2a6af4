"""This package holds the methods of the trusted-curator model, one file for each published method."""

from sfumato._optional import lazily

__getattr__, __dir__ = lazily(__name__)
