"""Pages about experiments and runs: one self-contained HTML file, or Markdown with SVG figures; and citations."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.report.cite import citations
    from sfumato.report.experiment import experiment_figures, experiment_markdown, experiment_page
    from sfumato.report.run import evaluate_by_degree, read_run, run_page

_HOME = {
    "citations": "cite",
    "evaluate_by_degree": "run",
    "experiment_figures": "experiment",
    "experiment_markdown": "experiment",
    "experiment_page": "experiment",
    "read_run": "run",
    "run_page": "run",
}

__all__ = [
    "citations",
    "evaluate_by_degree",
    "experiment_figures",
    "experiment_markdown",
    "experiment_page",
    "read_run",
    "run_page",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
