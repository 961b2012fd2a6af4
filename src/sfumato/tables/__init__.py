"""This package reads users' tables, frames and other libraries' graphs. Nothing here knows of privacy."""

from sfumato._optional import lazily

__getattr__, __dir__ = lazily(__name__)
