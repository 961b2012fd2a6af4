"""Operations on graphs and networks with a proven sensitivity: where every privacy proof lives."""

from sfumato._optional import lazily

__getattr__, __dir__ = lazily(__name__)
