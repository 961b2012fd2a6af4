"""Text of files that people write: UTF-8, or any UTF whose byte order mark stands first, as Windows writes it."""

from __future__ import annotations

import codecs

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def encoding_of(data: bytes) -> str:
    """Return the encoding that a byte order mark tells; UTF-8 without one."""
    return next((name for mark, name in _MARKS if data.startswith(mark)), "utf-8")


def decoded(data: bytes) -> str:
    r"""Return text without its byte order mark, and with one kind of line ends."""
    return data.decode(encoding_of(data)).replace("\r\n", "\n").replace("\r", "\n")
