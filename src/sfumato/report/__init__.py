"""Pages about experiments and runs: one self-contained HTML file, or Markdown with SVG figures; and citations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato._optional import lazily

if TYPE_CHECKING:
    from sfumato.report._cite import citations
    from sfumato.report._experiment import experiment_figures, experiment_markdown, experiment_page
    from sfumato.report._public import explained, explained_page, public_page
    from sfumato.report._registry import registered
    from sfumato.report._reviewer import reviewer_page
    from sfumato.report._run import read_run, run_page

_HOME = {
    "citations": "_cite",
    "experiment_figures": "_experiment",
    "experiment_markdown": "_experiment",
    "experiment_page": "_experiment",
    "explained": "_public",
    "explained_page": "_public",
    "public_page": "_public",
    "read_run": "_run",
    "registered": "_registry",
    "reviewer_page": "_reviewer",
    "run_page": "_run",
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
