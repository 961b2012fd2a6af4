"""What a certificate says in words: all of it follows from unit, direction, method and mechanisms."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import TYPE_CHECKING, Any

from . import _arrivals as arrivals
from ._caveats import stated
from ._documents import differences, plain
from ._sentences import SENTENCES
from ._types import CAVEAT as TYPED
from ._types import suffix as typed_suffix
from ._units import UNITS, public_parts, unit_rules
from ._windows import CAVEATS as WINDOWED
from ._windows import suffix
from .events import leaves

if TYPE_CHECKING:
    from ._rules import Audience, Certificate, Rules

_WEIGHED = {"edge": ", and its weight", "person": ", and their weights", "node": ", and their weights"}
"""What is added where weights of edges count: they are part of the record."""
EVERYTHING: Audience = {"anyone": [], "the node itself": [], "never": ["everything in this run"]}  # under unit none
_SUMS = (
    "DP-SGD takes for granted that what one example adds comes out as the same bits wherever in a batch it stands. "
    "Sums over examples are exact.",
    "DP-SGD takes for granted that functions of one number, and sums along one record's row, give the same bits "
    "wherever in a batch the row stands. Products, and sums over records, are exact.",
    "Floating-point error moves a sum of clipped gradients by at most 2^-20 of the clip norm a record: a margin "
    "that is stated, not proved.",
)
"""What is said of sums in DP-SGD: now, before examples could be groups, and before the sums were exact."""


def sentence_faults(certificate: Certificate, rules: Rules | None) -> Iterator[str]:
    """Yield a problem for sentences of another trust model than the method's or, if the method has none, the unit's."""
    trust = (rules and rules.trust) or unit_rules(certificate).trust
    trust += ", from devices" * ("collection" in certificate)
    if trust not in SENTENCES:
        yield "certificate.json: collection: not expected, since users trust a curator"
        return
    for field, value in SENTENCES[trust].items():
        found = differences(certificate[field], value, field)
        yield from (f"certificate.json: {text} (compared with what the unit implies)" for text in found)


def words_faults(certificate: Certificate, rules: Rules) -> Iterator[str]:
    """Yield a problem for words that unit, direction, method and mechanisms do not imply."""
    unit, held = certificate["unit"], certificate["caveats"]
    sums = next((text for text in _SUMS if text in held), _SUMS[0])
    limits = [*rules.caveats(certificate), *arrivals.caveats(certificate)]
    windowed = suffix(certificate.get("population"))
    caveats = [*UNITS[unit["name"]].caveats(certificate), *_of_events(certificate, sums)]
    typed = typed_suffix(certificate)
    caveats += [
        *([TYPED] if typed and "labels" in public_parts(certificate) else ()),
        *([WINDOWED[unit["name"]]] if windowed and unit["name"] in WINDOWED else ()),
        *limits,
    ]
    weighed = _WEIGHED.get(unit["name"], "") if "max_weight" in certificate["public_facts"] else ""
    expected: dict[str, Any] = {
        "protects": UNITS[unit["name"]].protects(unit) + weighed + typed + windowed,
        "caveats": [*caveats, *stated(rules.doubts(certificate), held, may_be_old="collection" not in certificate)],
        "who_may_see": EVERYTHING if unit["name"] == "none" else rules.who_may_see(certificate),
    }
    for field, value in expected.items():
        found = differences(certificate[field], value, field)
        yield from (f"certificate.json: {text} (compared with what unit and method imply)" for text in found)


def _of_events(certificate: Certificate, sums: str) -> list[str]:
    events = list(leaves(release["event"] for release in certificate["releases"]))
    found = []
    if any(event["type"] == "selection" for event in events):
        found.append(
            "The settings are part of what the charged selection released. Its rule and its list of candidates were chosen "
            "without looking at protected data. The number of trials, and every trial but the best, stay secret."
        )
    if any("sampling_prob" in event for event in events):
        found.append(sums)
    return found


def deployment_faults(certificate: dict[str, Any]) -> Iterator[str]:
    """Yield a problem for a record of a run that claims nothing, for texts without words, and for too strong a flavor.

    All else in a record is the word of its author.
    """
    if "deployment" not in certificate:
        return
    delta = certificate["claim"]["delta"]
    if delta is None:
        yield "certificate.json: deployment: not expected, since nothing is claimed"
        return
    try:
        date.fromisoformat(certificate["deployment"]["publication_date"])
    except ValueError:
        yield "certificate.json: deployment.publication_date: expected a day that there is"
    for name, text in certificate["deployment"].items():
        if not text.strip():
            yield f"certificate.json: deployment.{name}: expected words, got spaces alone"
    if delta > 0 and certificate["deployment"]["flavor"] == "Pure DP":
        yield "certificate.json: deployment.flavor: expected Approximate DP, since delta is above 0, got Pure DP"


def deployment_words(record: dict[str, Any]) -> str:
    """Return a line of the verdict about a deployment record, whose form was checked.

    >>> deployment_words({"product": "Friends", "curator": "A University", "publication_date": "2026-12-01"})
    'deployment record: Friends, by A University, 2026-12-01; a person wrote it, and nobody checked what it says'
    """
    return (
        f"deployment record: {plain(record['product'])}, by {plain(record['curator'])}, {record['publication_date']}; "
        "a person wrote it, and nobody checked what it says"
    )
