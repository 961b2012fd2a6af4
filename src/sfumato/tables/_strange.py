"""Columns of texts that are no categories: dates, lists, numbers in another writing, long texts, truth values in two spellings.

Each is refused with what makes a feature or a class of it, unless a schema declares what the column may hold. No error holds a
value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sfumato.errors import DataError
from sfumato.graph._unique import WRITTEN, leave_out, written_numbers
from sfumato.tables._dates import dates

LONGEST = 180
"""How many characters a category or class may have: a release holds its name behind that of its column."""

_BY_WORDS = "Read texts by their words with --text NAME --text-features hashing"
_WORDS = {"true", "false", "yes", "no"}
_TRUTH = {*_WORDS, "t", "f", "y", "n", "0", "1"}


def check_categories(name: str, seen: Sequence[str], *, label: bool = False) -> None:
    """Refuse the different texts of a column that stand for something else than categories, or the classes of a ``label``.

    Raises:
        DataError: they do. The error says for what, and how they are written instead.
    """
    for is_so, what, as_feature, as_label in _STRANGE:
        if seen and (as_label or not label) and is_so(seen):
            wanted = (
                f"label column {name!r} to hold classes" if label else f"column {name!r} to hold numbers or categories"
            )
            other = (
                "classes in the schema, or name another" if label else f"categories in the schema, or {leave_out(name)}"
            )
            remedy = as_label if label else as_feature.replace("NAME", name)
            raise DataError(f"Expected {wanted}, got {what}. {remedy}, declare {other}.")


def _nested(seen: Sequence[str]) -> bool:
    return all(text[:1] + text[-1:] in ("[]", "{}") for text in seen)


def _long(seen: Sequence[str]) -> bool:
    return max(map(len, seen)) > LONGEST


def _mixed(seen: Sequence[str]) -> bool:
    lower = {text.lower() for text in seen}
    return len(seen) > 2 and lower <= _TRUTH and not lower.isdisjoint(_WORDS)


_STRANGE: tuple[tuple[Callable[[Sequence[str]], bool], str, str, str], ...] = (
    (dates, "dates or times", "Convert them to numbers, such as days", "Write what they tell, such as the year"),
    (_nested, "lists or objects", "Write one column for each number in them", "Write one class a node"),
    (written_numbers, "numbers that are written in another way", WRITTEN, WRITTEN),
    (_long, f"a text of more than {LONGEST} characters", _BY_WORDS, "Write a short name"),
    (_mixed, "truth values in several spellings", "Write true and false throughout", ""),
)  # fmt: skip
"""What texts of a column may be, in words, and what to do with them as a feature and as a label; nothing where it may be one."""
