"""What is said of a command line that cannot be read: what was asked for, what stands there, and how it is written."""

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


def other_command(error: Exception) -> str:
    """Return the refusal of an option that another command has, where this one has something in its place; "" elsewhere."""
    option = str(getattr(error, "option_name", ""))
    todo = _INSTEAD.get((str(getattr(getattr(error, "ctx", None), "info_name", "")), option), "")
    return f"No such option: {option}. {todo}" if todo else ""


def with_remedy(said: str) -> str:
    """Return what the parser says, with what to do where it says nothing of that."""
    for start, todo in _REMEDIES.items():
        if said.startswith(start) and "Did you mean" not in said:
            return f"{said.rstrip('.')}. {todo}"
    return said


_REMEDIES = {
    "No such command": "`sfumato --help` lists all commands.",
    "Got unexpected extra argument": "Files and values stand behind their options, such as --nodes FILE; see --help.",
}
_INSTEAD = {("describe", "--label"): "Groups are named by --by COLUMN, and nothing is learned."}
_EXAMPLES = {False: "Write it in figures, such as 0.5 or 1e-7.", True: "Write it in figures, such as 10."}


def _given(names: Sequence[str], arguments: Sequence[str]) -> str:
    """The word that stands for an option, which is the last where it was given twice."""
    found = ""
    for place, one in enumerate(arguments):
        name, equals, value = one.partition("=")
        if name in names:
            found = value if equals else next(iter(arguments[place + 1 : place + 2]), "")
    return found
