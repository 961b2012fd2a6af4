"""Pages about experiments and runs: one self-contained HTML file, or Markdown with SVG figures; and citations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato._optional import homes_in, lazily

if TYPE_CHECKING:
    from sfumato.report._card import model_card as model_card
    from sfumato.report._cite import citations as citations
    from sfumato.report._experiment import experiment_figures as experiment_figures
    from sfumato.report._experiment import experiment_markdown as experiment_markdown
    from sfumato.report._experiment import experiment_page as experiment_page
    from sfumato.report._public import explained as explained
    from sfumato.report._public import explained_page as explained_page
    from sfumato.report._public import public_page as public_page
    from sfumato.report._registry import registered as registered
    from sfumato.report._regulator import regulator_page as regulator_page
    from sfumato.report._reviewer import reviewer_page as reviewer_page
    from sfumato.report._run import read_run as read_run
    from sfumato.report._run import run_page as run_page

_HOME = homes_in(__file__)

__all__ = sorted(_HOME)

__getattr__, __dir__ = lazily(__name__, _HOME)
