"""Objects show themselves in a few lines: as text, and as a small table where a notebook asks for HTML."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from types import MappingProxyType


class Shown:
    """A class whose objects print the few facts that say what they are.

    >>> class Point(Shown):
    ...     def facts(self):
    ...         return {"x": "1", "y": "<2>"}
    >>> Point()
    Point
      x: 1
      y: <2>
    >>> Point()._repr_html_()
    '<table><caption>Point</caption><tr><th>x</th><td>1</td></tr><tr><th>y</th><td>&lt;2&gt;</td></tr></table>'
    """

    def facts(self) -> Mapping[str, str]:
        """Return what is shown, by name."""
        raise NotImplementedError

    def more(self) -> Mapping[str, str]:
        """Return what only a notebook shows, by name, as HTML."""
        return {}

    def __repr__(self) -> str:
        return "\n".join([type(self).__name__, *(f"  {name}: {value}" for name, value in self.facts().items())])

    def _repr_html_(self) -> str:
        return html_table(type(self).__name__, self.facts(), self.more())


def bar(value: float, low: float, high: float, words: str) -> str:
    """Return a bar of HTML from ``low`` to ``high``, with words behind it."""
    return f'<meter min="{low:g}" max="{high:g}" value="{value:g}"></meter> {escape(words)}'


def html_table(title: str, facts: Mapping[str, str], more: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return a table of HTML with a row for each fact, every text escaped, and for each of ``more``, which is HTML."""
    shown = {**{name: escape(value) for name, value in facts.items()}, **more}
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{value}</td></tr>" for name, value in shown.items())
    return f"<table><caption>{escape(title)}</caption>{rows}</table>"
