"""The contract of every method: construct with what is public, ``calibrate`` to a plan, ``fit`` on a graph, predict."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.method.fitted import Fitted
    from sfumato.method.method import Method, Session
    from sfumato.method.plan import Plan, make_plan

_HOME = {"Fitted": "fitted", "Method": "method", "Plan": "plan", "Session": "method", "make_plan": "plan"}

__all__ = ["Fitted", "Method", "Plan", "Session", "make_plan"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
