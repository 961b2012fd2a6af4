"""Pages about experiments and runs: one self-contained HTML file, or Markdown with SVG figures; and citations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato._optional import lazily

if TYPE_CHECKING:
    from sfumato.report.cite import citations
    from sfumato.report.experiment import experiment_figures, experiment_markdown, experiment_page
    from sfumato.report.public import explained, explained_page, public_page
    from sfumato.report.registry import registered
    from sfumato.report.reviewer import reviewer_page
    from sfumato.report.run import read_run, run_page

_HOME = {
    "citations": "cite",
    "experiment_figures": "experiment",
    "experiment_markdown": "experiment",
    "experiment_page": "experiment",
    "explained": "public",
    "explained_page": "public",
    "public_page": "public",
    "read_run": "run",
    "registered": "registry",
    "reviewer_page": "reviewer",
    "run_page": "run",
}

__all__ = [
    "citations",
    "experiment_figures",
    "experiment_markdown",
    "experiment_page",
    "explained",
    "explained_page",
    "public_page",
    "read_run",
    "registered",
    "reviewer_page",
    "run_page",
]

__getattr__, __dir__ = lazily(__name__, _HOME)
