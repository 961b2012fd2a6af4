"""Published tables as files: what to run (`spec`, `runs`, `cells`), running it (`runner`), summing up (`results`)."""

from sfumato._optional import lazily

__getattr__, __dir__ = lazily(__name__)
