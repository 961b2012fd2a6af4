"""This package holds methods that protect all records of a class at once, and their record-level relatives for images."""

from sfumato._optional import lazily

__getattr__, __dir__ = lazily(__name__)
