"""This package makes features of texts: bags of words, word vectors, public pretrained networks."""

from sfumato._optional import lazily

__getattr__, __dir__ = lazily(__name__)
