"""Privacy units, budgets, events, accounting, calibration and filters. Nothing here reads a graph."""

from sfumato._optional import lazily

__getattr__, __dir__ = lazily(__name__)
