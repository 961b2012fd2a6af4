"""What is said where an option asks for a number and got something else: its name, the word, and how it is written."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato._numbers import hint


def no_number(error: Exception, arguments: Sequence[str]) -> str:
    """Return the refusal of an option that asks for a number; "" where the error is about something else."""
    said, names = str(getattr(error, "message", "")), list(getattr(getattr(error, "param", None), "opts", ()))
    whole = "integer" in said
    if not names or not (whole or "number" in said or "float" in said):
        return ""
    word = _given(names, arguments)
    wanted = "a whole number" if whole else "a number"
    what = "got nothing" if not word else f"got {word!r}"
    return f"Expected {names[0]} to be {wanted}, {what}. {hint(word, whole=whole) or _EXAMPLES[whole]}"


_EXAMPLES = {False: "Write it in figures, such as 0.5 or 1e-7.", True: "Write it in figures, such as 10."}


def _given(names: Sequence[str], arguments: Sequence[str]) -> str:
    """The word that stands for an option, which is the last where it was given twice."""
    found = ""
    for place, one in enumerate(arguments):
        name, equals, value = one.partition("=")
        if name in names:
            found = value if equals else next(iter(arguments[place + 1 : place + 2]), "")
    return found
