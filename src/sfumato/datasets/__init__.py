"""This package loads the published data sets from their original files, and images."""

from sfumato._optional import lazily

__getattr__, __dir__ = lazily(__name__)
