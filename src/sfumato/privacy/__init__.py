"""Units, budgets, events, accounting, noise, ledger and certificate: nothing here knows of graphs."""

from sfumato._optional import lazily

__getattr__, __dir__ = lazily(__name__)
