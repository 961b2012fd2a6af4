"""Figures as SVG that reads on light and dark, in print, and without colour; the same input gives the same bytes."""

from __future__ import annotations

import io
import re
import textwrap
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from sfumato._optional import require
from sfumato.report._words import clean

# At least 3 : 1 against white and against the pages' dark ground; told apart without red or green by lightness, and
# always by marker or line style as well.
PALETTE = ("#0077bb", "#cc5500", "#008a68", "#b0588c", "#8a7100", "#7364cf", "#6b7a80")
MARKERS = "os^DvPX*<>"
WIDTH = 4.3  # inches; narrow, so that its text can be read on a phone
_LABEL = 42  # characters of text in a row or legend before it wraps
_INK = "#010203"  # stands for currentColor until the SVG is written
_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
ElementTree.register_namespace("", _SVG)  # elements are written without a prefix, as HTML needs them
_SIZES = {"font.size": 10, "axes.labelsize": 10, "xtick.labelsize": 9.5, "ytick.labelsize": 9.5, "legend.fontsize": 9.5}
_STYLE: dict[str, Any] = {
    **_SIZES,
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), _INK),
    "svg.fonttype": "none",
    "svg.hashsalt": "sfumato",
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": _INK,
    "grid.alpha": 0.13,
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 6,
}
_ALONE = "svg{color:#1c2227;background:#fff}@media(prefers-color-scheme:dark){svg{color:#e4e8ea;background:#14181b}}"


@dataclass(frozen=True)
class Figure:
    """An SVG with its title and a description that states its numbers."""

    name: str
    title: str
    description: str
    svg: str

    def inline(self) -> str:
        """Return the element to put into a page, from which it takes the color of its ink and its width."""
        root = ElementTree.fromstring(self.svg)
        for size in ("width", "height"):
            del root.attrib[size]
        return ElementTree.tostring(root, encoding="unicode")

    def alone(self) -> str:
        """Return the text of a separate file, which has its own ink and ground for light and dark."""
        root = ElementTree.fromstring(self.svg)
        style = ElementTree.Element(f"{{{_SVG}}}style")
        style.text = _ALONE
        root.insert(2, style)
        return ElementTree.tostring(root, encoding="unicode") + "\n"


@contextmanager
def style() -> Iterator[None]:
    """Set the style of all figures for a while. Missing glyphs do not matter, since text stays text."""
    matplotlib = require("matplotlib")
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="(?s)Glyph .* missing from font")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        yield


def canvas(height: float, width: float = WIDTH) -> tuple[Any, Any]:
    figure = require("matplotlib.figure").Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def ink() -> str:
    """Return the color that becomes the page's own text color."""
    return _INK


def legend(figure: Any, handles: list[Any], labels: list[str]) -> None:
    """Put a legend below the axes of ``figure``, where it never covers a point."""
    shown = ["\u200b" + one if one.startswith("_") else one for one in map(wrapped, labels)]
    figure.legend(handles, shown, loc="outside lower left", ncols=1, handlelength=2.6)


def wrapped(label: str) -> str:
    r"""Split a label into lines that a narrow figure can hold."""
    return "\n".join(textwrap.wrap(clean(label), _LABEL)) or "-"


def finish(figure: Any, name: str, title: str, description: str) -> Figure:
    """Write a figure as SVG, without a date and with the page's text color as its ink."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    root = ElementTree.fromstring(buffer.getvalue().encode())
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.rpartition("}")[2] in ("metadata", "style"):
                parent.remove(child)
    for element in root.iter():
        for key, value in list(element.attrib.items()):
            del element.attrib[key]
            element.attrib["href" if key == f"{{{_XLINK}}}href" else key] = _attribute(name, key, value)
    root.attrib.update({"id": name, "class": "plot", "role": "img", "aria-labelledby": f"{name}-title {name}-desc"})
    root.attrib["style"] = "stroke-linejoin:round;stroke-linecap:butt"
    for position, (tag, text) in enumerate((("title", title), ("desc", description))):
        child = ElementTree.Element(f"{{{_SVG}}}{tag}", {"id": f"{name}-{tag}"})
        child.text = clean(text)
        root.insert(position, child)
    return Figure(name, clean(title), clean(description), ElementTree.tostring(root, encoding="unicode"))


def _attribute(name: str, key: str, value: str) -> str:
    if key == "id":
        return f"{name}-{value}"
    if key == f"{{{_XLINK}}}href":
        return value.replace("#", f"#{name}-", 1)
    if key == "style":
        value = value.replace("'DejaVu Sans', sans-serif", "system-ui, sans-serif")
    return re.sub(r"url\(#", f"url(#{name}-", value).replace(_INK, "currentColor")
