"""What stays on disk: ledgers, certificate, run folder, resumable and sealed state. It knows no method family."""

from sfumato._optional import lazily

__getattr__, __dir__ = lazily(__name__)
