"""This package holds plain networks, training and metrics; nothing here is private."""

from sfumato._optional import lazily

__getattr__, __dir__ = lazily(__name__)
