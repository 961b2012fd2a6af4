"""The contract of every method: construct with what is public, ``calibrate`` to a plan, ``fit`` on a graph, predict."""

from sfumato._optional import lazily

__getattr__, __dir__ = lazily(__name__)
