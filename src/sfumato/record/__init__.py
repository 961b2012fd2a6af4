"""What stays on disk: ledgers, certificate, run folder, resumable and sealed state. It is the same for all methods."""

from sfumato._optional import lazily

__getattr__, __dir__ = lazily(__name__)
