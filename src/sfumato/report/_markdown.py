"""A page as Markdown: the same sections and tables; figures as links to SVG files beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sfumato.report._drawing import Figure
from sfumato.report._page import Code, Facts, Items, Page, Part, Section, Table
from sfumato.report._words import clean

_SPECIAL = re.compile(r"([\\`*_\[\]|#~$])")
_MARKS = {"outside": "Outside the guarantee", "warning": "Warning"}


def to_markdown(page: Page) -> str:
    """Render a page as Markdown. Text is escaped so that none of it becomes markup."""
    blocks = [f"# {escape(page.title)}", escape(page.lead)]
    for section in page.sections:
        blocks += _section(section, 2)
    blocks.append(escape(page.closing))
    return "\n\n".join(block for block in blocks if block) + "\n"


def escape(text: str) -> str:
    r"""Return text that Markdown shows as it is."""
    text = clean(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\1", text)


def _section(section: Section, level: int) -> Iterator[str]:
    yield f"{'#' * level} {escape(section.title)}"
    if section.kind in _MARKS:
        yield f"**{_MARKS[section.kind]}.**"
    for part in section.parts:
        yield from _section(part, level + 1) if isinstance(part, Section) else [_part(part)]


def _part(part: Part) -> str:
    if isinstance(part, Items):
        return "\n".join(f"- {escape(text)}" for text in part.texts)
    if isinstance(part, Facts):
        return "\n".join(f"- {escape(name)}: {escape(value)}" for name, value in part.pairs)
    if isinstance(part, Code):
        return f"```sh\n{clean(part.text)}\n```"
    if isinstance(part, Table):
        return _table(part)
    if isinstance(part, Figure):
        return f"![{escape(part.description)}]({part.name}.svg)"
    return escape(str(part))


def _table(table: Table) -> str:
    numbers = [index > 0 and column not in table.text for index, column in enumerate(table.columns)]
    lines = [table.columns, tuple("---:" if number else "---" for number in numbers)]
    rows = [*lines[:1], *table.rows]
    text = ["| " + " | ".join(escape(cell) for cell in row) + " |" for row in rows]
    return "\n".join([f"{escape(table.caption)}.", "", text[0], "| " + " | ".join(lines[1]) + " |", *text[1:]])
