"""What `sfumato collect estimate` says a report cost, against the closed file: the local epsilon, and that of a shuffled survey.

Of what two servers opened the estimates are computed again too (``_shares.py``).

A central epsilon is for anonymous surveys whose reports are private without a delta, answer everything, and are enough.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from pathlib import Path
from typing import Any

from ._asked import schema_faults
from ._collection import Closed, read
from ._documents import canonical, differences, hiding, loads, one_line, plain, round_up
from ._folder import VerifyInputError
from ._openings import UNCHECKED as WORD_OF_SERVERS
from ._openings import begins
from ._shares import share_faults
from ._shuffled import shuffled_delta

ASSUMPTION = (
    "It holds against whoever sees the closed file or what is computed from it, and not against the server. It takes on trust "
    "that the server noted neither addresses nor times of reports and signed tokens for enrolled devices alone, and that as many "
    "reports as stated are honest, one a user."
)
NAMED = "Each report is tied to its user, so nothing hides among others, and there is no central epsilon."
APPROXIMATE = "Reports are private up to a delta, for which no central epsilon is proved here."
LARGE = "The local epsilon is above 20, where nothing hides among others."
UNCHECKED = (
    "not checked: the estimates and their intervals, of which the form alone was read; whether devices drew by this schema and "
    "saw this one; and all that the central epsilon takes on trust. A server that knows more about single reports, or made some, "
    "breaks it without a trace."
)
_MOST_LOCAL, _CONFIDENCE = 20.0, 0.95
_THREE = Context(prec=3, rounding=ROUND_CEILING)
_KINDS = {"share", "mean", "mean number of links", "number of links"}
_NUMBERS = ("estimate", "low", "high", "least", "most")
_FIELDS = {"collection", "sha256", "schema", "reports", "counts", "privacy", "confidence", "answers"}
_PRIVACY, _CENTRAL = {"local", "central", "why"}, {"epsilon", "delta", "honest", "dishonest", "assumption"}


@dataclass(frozen=True)
class SurveyVerification:
    """The result of :func:`verify_survey`; the costs and the SHA-256 of the ``schema`` are as stated, None if unreadable.

    Of what two servers opened, ``servers`` is what was stated of it, with the keys of both.
    """

    valid: bool
    problems: tuple[str, ...]
    local: dict[str, Any] | None = None
    central: dict[str, Any] | None = None
    servers: dict[str, Any] | None = None
    schema: str | None = None


def verify_survey(file: Path, collection: Path) -> SurveyVerification:
    """Check what estimates say of privacy against the closed file of their collection.

    **Formal guarantee.** Of a valid file, each report is private by the local epsilon and delta if its device drew it by the
    schema; and the reports together are (epsilon, delta)-private for the value of one user by the central ones, if what these
    take on trust is so. Of what two servers opened, each report is private by epsilon against everybody and against either
    server, if the other drew its noise and does not collude; and every share and interval is what follows from the counts.

    >>> verify_survey(Path("none.json"), Path("none.sfumato"))
    Traceback (most recent call last):
    sfumato.verify._folder.VerifyInputError: Expected estimates and a closed collection, got no file 'none.json'.
    """
    for one in (file, collection):
        if not one.is_file():
            raise VerifyInputError(f"Expected estimates and a closed collection, got no file {one_line(str(one))!r}.")
    try:
        stated, data = loads(file.read_bytes()), collection.read_bytes()
        if begins(data):
            problems = [*share_faults(stated, data)]
            return SurveyVerification(not problems, tuple(problems), servers=stated)
        privacy = stated["privacy"]
        local, central = privacy["local"], privacy["central"]
        closed, sha256 = read(data), hashlib.sha256(data).hexdigest()
        problems = [*schema_faults(closed.schema, closed.parts)]
        problems = problems or [*_faults(stated, closed, sha256)]
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        return SurveyVerification(False, (f"it is malformed: {type(error).__name__}: {plain(str(error))}",))
    return SurveyVerification(not problems, tuple(problems), local, central, schema=stated.get("schema"))


def _faults(stated: dict[str, Any], closed: Closed, sha256: str) -> Iterator[str]:
    schema, privacy = closed.schema, stated["privacy"]
    counts = {name: sum(name in said for said in closed.reports.values()) for name in closed.parts}
    facts = {
        "sha256": sha256,
        "collection": schema["collection"],
        "schema": hashlib.sha256(canonical(schema)).hexdigest(),
        "reports": len(closed.reports),
        "counts": counts,
    }
    yield from hiding(stated, "")
    for name, wanted in facts.items():
        if any(differences(stated.get(name), wanted, name)):
            yield f"{name}: is not that of the closed collection"
    totals = schema["totals"]
    if any(differences(privacy["local"], {"epsilon": totals["epsilon"], "delta": totals["delta"]}, "local")):
        yield "privacy.local: is not the total of the schema"
    if set(stated) != _FIELDS:
        yield "it has other fields than estimates have"
    if set(privacy) != _PRIVACY:
        yield "privacy: has other fields than local, central and why"
    if privacy["why"] != _why(schema):
        yield "privacy.why: says something else than what follows from the schema"
    if _has_bools(stated):
        yield "it has a truth value, where estimates have numbers and words"
    if type(stated["confidence"]) is not float or stated["confidence"] != _CONFIDENCE:
        yield f"confidence: is not {_CONFIDENCE}"
    yield from _form_faults(stated["answers"], {name for name, count in counts.items() if count})
    if privacy["central"] is not None:
        yield from _central_faults(privacy["central"], closed)


def _why(schema: dict[str, Any]) -> str:
    """Why there is no central claim, by the schema; empty where there may be one."""
    if "upload" not in schema:
        return NAMED
    if schema["totals"]["delta"]:
        return APPROXIMATE
    return LARGE if schema["totals"]["epsilon"] > _MOST_LOCAL else ""


def _has_bools(value: object) -> bool:
    """Whether there is a truth value, which Python takes for the number 0 or 1."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return isinstance(value, bool) or any(map(_has_bools, inner))


def _form_faults(answers: dict[str, Any], parts: set[str]) -> Iterator[str]:
    """Whether estimates look as they do; no number is computed again."""
    if set(answers) != parts:
        yield "answers: are about other questions than the reports"
        return
    for part, said in answers.items():
        if not isinstance(said, list) or not all(map(_is_answer, said)):
            yield f"answers.{part}: is no list of estimates, each with an interval within its range"


def _is_answer(one: Any) -> bool:
    if not isinstance(one, dict) or set(one) != {"name", "kind", *_NUMBERS}:
        return False
    numbers = [one[name] for name in _NUMBERS]
    if not isinstance(one["name"], str) or one["kind"] not in _KINDS or any(type(x) is not float for x in numbers):
        return False
    _, low, high, least, most = numbers
    return all(map(math.isfinite, numbers)) and least <= low <= high <= most


def _central_faults(central: dict[str, Any], closed: Closed) -> Iterator[str]:
    schema, reports = closed.schema, len(closed.reports)
    local = schema["totals"]["epsilon"]
    if why := _why(schema):
        yield f"privacy.central: there is none. {why}"
        return
    if reports < schema["least_reports"]:
        yield f"privacy.central: {reports} reports are fewer than the schema wants"
    if set(central) != _CENTRAL or central["assumption"] != ASSUMPTION:
        yield "privacy.central: has other fields or words than a central claim"
        return
    counted = [central[name] for name in ("honest", "dishonest")]
    if not all(type(one) is int and one >= 0 for one in counted) or sum(counted) != reports or not counted[0]:
        yield f"privacy.central: honest and dishonest are not whole numbers that add up to {reports} reports"
        return
    epsilon, delta = central["epsilon"], central["delta"]
    if (
        not all(isinstance(one, float) and math.isfinite(one) for one in (epsilon, delta))
        or not 0 < delta < 1
        or epsilon <= 0
    ):
        yield "privacy.central: epsilon and delta are not numbers above 0, delta below 1"
        return
    if delta > 1 / (10 * reports):
        yield f"privacy.central.delta: {delta!r} is above a tenth of one in {reports} reports, where a claim says nothing"
        return
    least = shuffled_delta(local, epsilon, counted[0])
    if least > delta:
        yield (
            f"privacy.central.epsilon: {epsilon!r} needs a delta of {least:.3g} among {counted[0]} honest reports, more than "
            f"{delta!r}"
        )


def describe_survey(file: Path, result: SurveyVerification) -> str:
    """Describe a verdict in plain words, one line for each finding."""
    lines = [f"{'VALID' if result.valid else 'NOT VALID'}: {one_line(str(file))}"]
    lines += [f"problem: {one_line(text)}" for text in result.problems]
    if result.valid and result.servers is not None:
        lines += _of_servers(result.servers)
    if result.valid and result.local is not None:
        lines.append(f"local: epsilon {round_up(result.local['epsilon'])}, delta {_up(result.local['delta'])}")
        if result.central is not None:
            found, reports = result.central, result.central["honest"] + result.central["dishonest"]
            lines.append(
                f"central: epsilon {round_up(found['epsilon'])}, delta {_up(found['delta'])}, if {found['honest']:,} of "
                f"{reports:,} reports are honest. {ASSUMPTION}"
            )
        lines.append(f"schema: SHA-256 {result.schema}; compare it with the one that is published for all users.")
        lines.append(UNCHECKED)
    return "\n".join(lines)


def _of_servers(stated: dict[str, Any]) -> Iterator[str]:
    keys = " and ".join(server["sign"] for server in stated["servers"])
    yield (
        f"epsilon {round_up(stated['privacy']['epsilon'])} against everybody, and against either of two servers that do not "
        "collude; shares and intervals follow from the counts"
    )
    yield f"servers: both signed what they opened, with keys {keys}; compare them with those that each of them publishes"
    yield f"not checked: {WORD_OF_SERVERS.partition(';')[0]}"


def _up(delta: float) -> str:
    """Print a delta with three digits, never below its value."""
    return f"{float(_THREE.create_decimal(repr(delta))):.3g}"
