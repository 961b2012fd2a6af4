"""Plain networks, training and metrics: no privacy here."""

from sfumato._optional import lazily

__getattr__, __dir__ = lazily(__name__)
