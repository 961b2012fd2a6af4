"""What the reference of Python needs: docstrings whose roles and formulas a browser shows."""

from __future__ import annotations

import html
import re
from typing import Any

import griffe
from latex2mathml.converter import convert

_ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):`(~?)([\w.]+)`")
_FORMULA = re.compile(r":math:`([^`]+)`")
_DOCTEST = re.compile(r"^( *)>>> .*\n(?:\1\S.*\n|\1 +\S.*\n)*", re.MULTILINE)
_BLOCK = re.compile(r"^( *)\.\. math::[^\S\n]*((?:\n|\S.*\n|\1 +.*\n)+?)(?=\1?\S|\Z)", re.MULTILINE)


class Readable(griffe.Extension):
    """Write roles as links and formulas as MathML, and put what a class says of its module below the class."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of one object."""
        if obj.docstring is None:
            return
        text, module = obj.docstring.value, obj.module.docstring
        if obj.is_class and module is not None and re.search(r"\b[Tt]he module\b", text):
            text += f"\n\n**The module.** {module.value}"
        obj.docstring.value = readable(text)


def readable(docstring: str) -> str:
    r"""The docstring in Markdown.

    >>> readable("See :func:`~a.b.run`.")
    'See <autoref optional identifier="a.b.run"><code>run</code></autoref>.\n'
    """
    text = _DOCTEST.sub(lambda found: f"{found[1]}```pycon\n{found[0]}{found[1]}```\n", docstring + "\n")
    text = _BLOCK.sub(lambda found: f"{found[1]}<div class='formula'>{_mathml(found[2], 'block')}</div>\n\n", text)
    text = _FORMULA.sub(lambda found: f"<span>{_mathml(found[1], 'inline')}</span>", text)
    return _ROLE.sub(_link, text)


def _mathml(formula: str, display: str) -> str:
    """A formula as MathML in one line; what Markdown would read is written as entities."""
    written: str = convert(" ".join(formula.split()), display=display)
    return re.sub(r"[*_`\\]", lambda found: f"&#{ord(found[0])};", written)


def _link(role: re.Match[str]) -> str:
    short, target = role.groups()
    shown = target.rpartition(".")[2] if short else target
    return f'<autoref optional identifier="{target}"><code>{html.escape(shown)}</code></autoref>'
