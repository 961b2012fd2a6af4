"""The values of users become messages: scaled to the public ranges, randomized, written. Nothing else reads values.

Every value has a report (see :class:`~sfumato.randomizers._randomizer.Randomizer`): a number outside its range is clipped, what
is no number counts as the middle of its range (as 0 for "collision" and "direction"), and a class that the schema does not name
as the first one. What is refused is public: which names are there, and who is on the roster.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from sfumato._validate import fail
from sfumato.collect._wire import encode, public_id

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.collect._questions import Features, Label, Links
    from sfumato.collect._schema import Schema
    from sfumato.collect._wire import Answers
    from sfumato.noise.coins import SecretWords


@dataclass(frozen=True)
class Values:
    """The true values of some users. They stay where they are: nothing prints, logs or stores them.

    ``features`` [n, d] are in the units of the schema. ``labels`` are -1 for a class that the schema does not name, None for a
    user without one. ``links`` and ``places`` are places on the roster: of those linked to, and of the users themselves.
    """

    users: tuple[str, ...]
    features: NDArray[np.float64] | None = field(default=None, repr=False)
    labels: tuple[int | None, ...] = field(default=(), repr=False)
    links: tuple[tuple[int, ...], ...] = field(default=(), repr=False)
    places: tuple[int, ...] = ()


def values_of(schema: Schema, user: str, given: Mapping[str, Any], roster: Mapping[str, int]) -> Values:
    given = {name: value for name, value in given.items() if value is not None}
    unknown, needed = set(given) - set(schema.parts), set(schema.parts) - {"label"} or {"label"}
    if schema.anonymous:
        needed = set(schema.parts)
    if unknown or needed - set(given):
        names, wanted = ", ".join(sorted(map(str, given))) or "none", " and ".join(schema.parts)
        remedy = "A user who has no label leaves it out."
        if schema.anonymous:
            remedy = "Who leaves an answer out of an anonymous survey would stand out."
        raise fail("values", names, f"to hold {wanted}", remedy)
    features = np.array([_row(schema.features, given["features"])]) if schema.features else None
    if not schema.links:
        own = _class(schema.label, given["label"]) if schema.label and "label" in given else None
        return Values((user,), features, (own,))
    if user not in roster:
        raise fail("user", user, "to be on the roster of the schema", "Ask the operator.")
    named = given["links"]
    if not isinstance(named, list):
        raise fail("links", f"a {type(named).__name__}", "to be a list of user ids")
    links = tuple(roster[one] for one in named if isinstance(one, str) and one in roster)
    return Values((user,), links=(links,), places=(roster[user],))


def _row(features: Features, given: object) -> list[float]:
    if not isinstance(given, Mapping):
        raise fail("features", f"a {type(given).__name__}", "to be a table of numbers by name")
    check_names("features", given, features.columns)
    return [number(given[name]) for name in features.columns]


def _class(label: Label, value: object) -> int:
    try:
        return class_numbers(label).get(str(value) if isinstance(value, (str, int)) else "", -1)
    except ValueError:  # a number of thousands of digits
        return -1


def oddities(schema: Schema, given: Mapping[str, Any], roster: Mapping[str, int]) -> list[str]:
    """Say in a line each which values of a user count as others. The lines hold values: they are for the user alone."""
    said = []
    if schema.features:
        neutral = schema.features.randomizer.neutral
        for (name, (low, high)), middle in zip(schema.features.columns.items(), neutral, strict=True):
            value = given["features"][name]
            found = number(value)
            if math.isnan(found):
                said.append(f"{name}: {_shown(value)} is no number and counts as {low + (high - low) * middle:g}.")
            elif isinstance(value, bool):
                said.append(f"{name}: {_shown(value)} counts as {min(max(found, low), high):g}.")
            elif not low <= found <= high:
                nearest = low if found < low else high
                said.append(f"{name}: {found:g} is outside {low:g} to {high:g} and counts as {nearest:g}.")
    value = given.get("label")
    if schema.label and value is not None and _class(schema.label, value) < 0:
        said.append(f"{schema.label.name}: {_shown(value)} is no class and counts as {schema.label.classes[0]}.")
    if schema.links:
        strangers = sum(not isinstance(one, str) or one not in roster for one in given["links"])
        if strangers:
            said.append(f"links: {strangers} of {len(given['links'])} ids are not on the roster and count as no link.")
    return said


def _shown(value: object) -> str:
    try:
        return repr(value)[:40]
    except (ValueError, RecursionError):
        return "a value of thousands of digits"


def outside(features: Features, rows: NDArray[np.float64]) -> int:
    """Count the numbers in ``rows`` [n, d] that are outside their ranges, and so are clipped."""
    low, high = np.array(list(features.columns.values()), np.float64).T
    return int(np.count_nonzero((rows < low) | (rows > high)))


def check_names(where: str, given: Iterable[str], asked: Iterable[str]) -> None:
    unknown, missing = sorted(set(given) - set(asked)), sorted(set(asked) - set(given))
    if unknown or missing:
        faults = [*(f"{one!r} is missing" for one in missing[:1]), *(f"{one!r} is unknown" for one in unknown[:1])]
        raise fail(where, " and ".join(faults), "to have the names of the schema", "Names are public; values are not.")


def number(value: object) -> float:
    """Read a number, also from text; what is none is NaN. Nothing is refused."""
    try:
        return float(value)  # type: ignore[arg-type]
    except OverflowError:
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]
    except (TypeError, ValueError):
        return math.nan


def class_numbers(label: Label) -> dict[str, int]:
    return {name: place for place, name in enumerate(label.classes)}


def draw(schema: Schema, values: Values, source: SecretWords) -> list[bytes]:
    """Randomize values; return the message of each user. Who has no label answers the rest: that there is none is public."""
    answers: list[Answers] = [{} for _ in values.users]
    ids = np.array([public_id(schema, user) for user in values.users])
    if schema.features:
        assert values.features is not None
        said = schema.features.randomizer.encode(scaled(schema.features, values.features), source, ids)
        for row, answer in enumerate(answers):
            answer["features"] = said.key(row)
    if schema.label:
        classes = np.array([-1 if one is None else one for one in values.labels], np.int64)
        said = schema.label.randomizer.encode(classes, source)
        for row, (answer, one) in enumerate(zip(answers, values.labels, strict=True)):
            if one is not None:
                answer["label"] = said.key(row)
    if schema.links:
        for answer, link in zip(answers, _links(schema.links, values, source), strict=True):
            answer["links"] = link
    return [encode(schema, user, answer) for user, answer in zip(values.users, answers, strict=True)]


def scaled(features: Features, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale values [n, d] from their public ranges to 0 to 1, and clip them. NaN stays NaN."""
    low, high = np.array(list(features.columns.values()), np.float64).T
    with np.errstate(over="ignore", invalid="ignore"):
        unit: NDArray[np.float64] = np.clip((rows - low) / (high - low), 0.0, 1.0)
    return unit


def _links(asked: Links, values: Values, source: SecretWords) -> list[tuple[int, ...]]:
    """The noisy length of each list, then a bit for each other user in the order of the roster."""
    lists, places = values.links, np.array(values.places)
    rows = np.repeat(np.arange(len(lists)), [len(one) for one in lists])
    columns = np.array([place for one in lists for place in one], np.int64)
    matrix = sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), (len(lists), asked.users))
    reports = asked.randomizer.encode(matrix, source, places)
    bits = np.unpackbits(reports.bits, axis=1, count=asked.users, bitorder="little")
    return [
        (int(degree), *np.delete(row, place).tolist())
        for degree, row, place in zip(reports.degrees, bits, places, strict=True)
    ]
