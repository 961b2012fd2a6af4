"""Objects show themselves in a few lines: as text, and as a small table where a notebook asks for HTML."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape


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

    def __repr__(self) -> str:
        return "\n".join([type(self).__name__, *(f"  {name}: {value}" for name, value in self.facts().items())])

    def _repr_html_(self) -> str:
        return html_table(type(self).__name__, self.facts())


def html_table(title: str, facts: Mapping[str, str]) -> str:
    """Return a table of HTML, every text escaped, with a row for each fact."""
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in facts.items())
    return f"<table><caption>{escape(title)}</caption>{rows}</table>"
