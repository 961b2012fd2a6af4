"""A grid of images as one SVG that loads nothing: the pictures are inside it, and each pixel stays a sharp square."""

from __future__ import annotations

import base64
import struct
import textwrap
import zlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import numpy as np

from sfumato._validate import fail
from sfumato.report._drawing import Figure, wrapped
from sfumato.report._words import clean

if TYPE_CHECKING:
    from numpy.typing import NDArray

ACROSS = 10
"""The most pictures beside each other; further columns stand below, with all their rows."""
_WIDTH, _GAP, _LARGEST = 310.0, 2.0, 70.0  # points; as wide as the other figures
_TEXT, _LINE = 9.5, 12.0  # points: size of the text, and from one line to the next
_LETTER = 5.4  # points that a letter takes
_COLORS = {1: 0, 3: 2}  # channels, and what PNG calls them


def png(image: NDArray[np.float32]) -> bytes:
    """Write an image as PNG with 8 bits for each channel (ISO/IEC 15948). The same image gives the same bytes.

    Shapes: ``image`` is [channels, height, width], gray (1 channel) or red, green and blue (3), with values in [0, 1].
    """
    channels, height, width = image.shape
    if channels not in _COLORS:
        raise fail("the number of channels", channels, "to be 1 or 3")
    rows = np.rint(255 * np.clip(image, 0, 1)).astype(np.uint8).transpose(1, 2, 0).reshape(height, -1)
    data = zlib.compress(b"".join(b"\0" + row.tobytes() for row in rows), 9)  # 0: a row as it is
    header = struct.pack(">2I5B", width, height, 8, _COLORS[channels], 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in ((b"IHDR", header), (b"IDAT", data), (b"IEND", b""))
    )


def picture_grid(
    name: str, title: str, description: str, rows: Sequence[tuple[str, NDArray[np.float32]]], columns: Sequence[str]
) -> Figure:
    """Draw rows of images under the names of their columns, the name of a row above it.

    Each of ``rows`` has its name and images, float32 [len(columns), channels, height, width], all of one size.
    """
    across = min(len(columns), ACROSS)
    cell = min(_LARGEST, (_WIDTH - _GAP * (across - 1)) / across)
    grid = ElementTree.Element("g")
    bottom = 0.0
    for start in range(0, len(columns), across):
        bottom = _band(grid, rows, columns, slice(start, start + across), cell, bottom) + _LINE
    root = ElementTree.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg", "id": name, "class": "plot", "role": "img",
            "aria-labelledby": f"{name}-title {name}-desc", "width": f"{_WIDTH:g}pt", "height": f"{bottom:g}pt",
            "viewBox": f"0 0 {_WIDTH:g} {bottom:g}", "fill": "currentColor", "font-size": f"{_TEXT:g}",
            "font-family": "system-ui, sans-serif",
        },
    )  # fmt: skip
    for tag, text in (("title", title), ("desc", description)):
        ElementTree.SubElement(root, tag, {"id": f"{name}-{tag}"}).text = clean(text)
    root.append(grid)
    return Figure(name, clean(title), clean(description), ElementTree.tostring(root, encoding="unicode"))


def _band(
    grid: ElementTree.Element,
    rows: Sequence[tuple[str, NDArray[np.float32]]],
    columns: Sequence[str],
    part: slice,
    cell: float,
    top: float,
) -> float:
    """Draw all rows of some columns below ``top``, and return where they end."""
    lefts = [(cell + _GAP) * position for position in range(len(columns[part]))]
    top += _LINE
    for left, column in zip(lefts, columns[part], strict=True):
        label = textwrap.shorten(clean(column), max(int(cell / _LETTER), 2), placeholder="…")
        _write(grid, label, left + cell / 2, top, "middle")
    for row, images in rows:
        for line in wrapped(row).splitlines():
            top += _LINE
            _write(grid, line, 0, top, "start")
        height = cell * images.shape[2] / images.shape[3]
        for left, data in zip(lefts, _encoded(images[part]), strict=True):
            place = {"x": left, "y": top + 3, "width": cell, "height": height}
            look = {"style": "image-rendering:pixelated", "preserveAspectRatio": "none"}
            ElementTree.SubElement(
                grid, "image", {key: f"{at:.6g}" for key, at in place.items()} | look | {"href": data}
            )
        top += height + 6
    return top


def _encoded(images: NDArray[np.float32]) -> Iterator[str]:
    for image in images:
        yield "data:image/png;base64," + base64.b64encode(png(image)).decode()


def _write(grid: ElementTree.Element, text: str, x: float, y: float, anchor: str) -> None:
    place = {"x": f"{x:.6g}", "y": f"{y:.6g}", "text-anchor": anchor}
    ElementTree.SubElement(grid, "text", place).text = text
