"""Numbers that people write in other ways than a program reads them, and how each is written instead."""

from __future__ import annotations

import re

_DASHES = str.maketrans("−–—‐‑", "-----")


def hint(word: str, *, whole: bool = False) -> str:
    """Return in a sentence how a word is written that was meant as a number; "" where that is not clear.

    >>> hint("1,5"), hint("95 %"), hint("1/2"), hint("10^-5")
    ('Write 1.5.', 'Write 0.95.', 'Write 0.5.', 'Write 1e-5.')
    >>> hint("1,000", whole=True), hint("three", whole=True)
    ('Write 1000.', '')
    """
    text = re.sub(r"[\s_']", "", word.translate(_DASHES)).rstrip(".;,") or word
    if found := re.fullmatch(r"(.+?)%", text):
        number = _read(found[1])
        return "" if number is None else f"Write {_spelled(number / 100)}."
    if found := re.fullmatch(r"(\d+)/(\d+)", text):
        return f"Write {_spelled(int(found[1]) / int(found[2]))}." if int(found[2]) else ""
    if found := re.fullmatch(r"(?:1[*x])?10(?:\^|\*\*)(-?\d+)", text, re.IGNORECASE):
        return f"Write 1e{found[1]}."
    number = _read(text, thousands=whole)
    return "" if number is None or (whole and number % 1) else f"Write {_spelled(number)}."


def _read(text: str, *, thousands: bool = False) -> float | None:
    if re.fullmatch(r"[+-]?\d{1,3}(,\d{3})+", text) and (thousands or text.count(",") > 1):
        text = text.replace(",", "")
    try:
        return float(text.replace(",", ".", 1))
    except ValueError:
        return None


def _spelled(number: float) -> str:
    return re.sub(r"e-0", "e-", f"{number:.12g}")
