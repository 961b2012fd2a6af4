"""A page as one HTML file that loads nothing, runs nothing, and reads with a keyboard, a screen reader or on paper."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato._optional import require
from sfumato._version import __version__
from sfumato.report._words import clean

if TYPE_CHECKING:
    from sfumato.report._page import Page

_TEMPLATES = Path(__file__).with_name("templates")


def to_html(page: Page) -> str:
    """Render a page as HTML. Every text is escaped, and the file is well-formed XML as well."""
    css = (_TEMPLATES / "page.css").read_text(encoding="utf-8")
    text = _environment().get_template("page.html.j2").render(page=page, css=css, version=__version__)
    return str(text)


@cache
def _environment() -> Any:
    jinja2 = require("jinja2")
    markup = require("markupsafe").Markup
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: value if isinstance(value, markup) else clean(value),
    )
    environment.filters["drawn"] = lambda figure: markup(figure.inline())
    environment.filters["kind"] = lambda part: type(part).__name__
    return environment
