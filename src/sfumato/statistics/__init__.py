"""This package holds private statistics of a graph, and the synthetic graph that is made of them."""

from sfumato._optional import lazily

__getattr__, __dir__ = lazily(__name__)
