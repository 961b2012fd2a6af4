"""What a date or a time is, as people and programs write it. A column of them is neither numbers nor categories.

A text is a date if all of it is one of these, in capitals or not:

* numbers: ``2024-01-02``, ``02.01.2024``, ``1/2/24``, year and month (``2024-01``, ``01/2024``), quarters (``2024-Q1``), weeks
  (``2024-W05``);
* names of months in English: ``05-Jan-24``, ``Jan 5, 2024``, ``5 January``, ``Jan 2024``; in any language between the day and a
  year of four digits;
* a weekday in English before, a time of day after or before (``10:30``, ``3:30 PM``, ``3 pm``), a time zone after that;
* a time of day alone.

A column is dates if more than half of its different texts are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_YEAR = r"(?:1[5-9]|20|21)\d\d"
_DAY = r"\d{1,2}(?:st|nd|rd|th)?\.?"
_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?"
    r"|dec(?:ember)?)\.?"
)
_WEEKDAY = r"(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?\.?,?\s+)?"
_CLOCK = r"\d{1,2}(?::\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:\s?[ap]\.?m\.?)?|\s?[ap]\.?m\.?)"
_ZONE = r"(?:\s?(?:z|[a-z]{2,5}|(?:utc|gmt)?[+-]\d{1,2}(?::?\d{2})?)|\s?\([^)]*\)|\s?\[[^\]]*\])*"
_TIME = _CLOCK + _ZONE
_BETWEEN = r"[-/.,\s]+"
_DATE = "|".join(
    (
        r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}",
        r"\d{1,2}[-/.]\s?\d{1,2}[-/.]\s?\d{2,4}",
        rf"{_YEAR}[-/](?:0?[1-9]|1[0-2])",
        rf"(?:0?[1-9]|1[0-2])[-/]{_YEAR}",
        rf"{_YEAR}[-/\s]?q[1-4]|q[1-4][-/\s]?{_YEAR}",
        rf"{_YEAR}-?w\d\d(?:-?\d)?",
        rf"{_DAY}{_BETWEEN}{_MONTH}(?:{_BETWEEN}'?\d{{2,4}})?|{_DAY}{_MONTH}\d{{4}}",
        rf"{_MONTH}{_BETWEEN}{_DAY}(?:{_BETWEEN}\d{{2,4}})?",
        rf"{_MONTH}{_BETWEEN}'?(?:\d{{2}}|{_YEAR})",
        rf"{_YEAR}{_BETWEEN}{_MONTH}(?:{_BETWEEN}{_DAY})?",
        rf"{_DAY}{_BETWEEN}(?:de\s)?[^\W\d_]{{3,}}\.?(?:\sde)?{_BETWEEN}{_YEAR}",
    )
)
_TEXT = re.compile(
    rf"{_WEEKDAY}(?:{_DATE})(?:(?:t|:|{_BETWEEN}){_TIME})?|{_TIME}(?:{_BETWEEN}(?:{_DATE}))?"
    rf"|{_WEEKDAY}{_MONTH}\s+{_DAY}\s+{_TIME}\s+{_YEAR}|{_YEAR}\d{{4}}t\d{{4,6}}(?:[.,]\d+)?{_ZONE}",
    re.IGNORECASE,
)


def is_date(text: str) -> bool:
    """Say whether a text is a date or a time."""
    return _TEXT.fullmatch(text) is not None


def dates(texts: Sequence[str]) -> bool:
    """Say whether the different texts of a column are dates or times: more than half of them."""
    return 2 * sum(map(is_date, texts)) > len(texts)
