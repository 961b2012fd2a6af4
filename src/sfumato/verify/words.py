"""What a certificate says in words: all of it follows from unit, direction, method and mechanisms.

Part of the verifier: it needs the standard library and the other ``_verify_*.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any

from .caveats import fact_faults, stated
from .documents import differences, plain
from .epsilon import leaves
from .methods import EVERYTHING, INDUCTIVE, WHO_MAY_SEE

_UPWARD = Context(prec=400, rounding=ROUND_CEILING)
_SUMS = (
    "DP-SGD takes for granted that functions of one number, and sums along one record's row, give the same bits "
    "wherever in a batch the row stands. Products, and sums over records, are exact."
)
_EARLIER_SUMS = (  # of runs made before the sums were exact
    "Floating-point error moves a sum of clipped gradients by at most 2^-20 of the clip norm a record: a margin "
    "that is stated, not proved."
)


def words_faults(certificate: dict[str, Any]) -> Iterator[str]:
    """Plain words that are not those which unit, direction, method and mechanisms imply."""
    unit, method = certificate["unit"], certificate["method"]
    sums = _EARLIER_SUMS if _EARLIER_SUMS in certificate["caveats"] else _SUMS
    caveats = [sums if caveat == _SUMS else caveat for caveat in _caveats(certificate)]
    expected: dict[str, Any] = {
        "protects": _protects(unit),
        "caveats": [
            *caveats,
            *_each_feature(certificate),
            *_both_ends(certificate),
            *stated(certificate),
        ],
    }
    seen = EVERYTHING if unit["name"] == "none" else WHO_MAY_SEE.get(method, {}).get(unit["name"])
    if method not in WHO_MAY_SEE:
        yield f"certificate.json: method: {plain(method)} is not known here, so who may see what cannot be verified"
    elif seen is None:
        yield f"certificate.json: unit.name: {method} has no proof under unit {unit['name']}"
    else:
        expected["who_may_see"] = seen
    for field, value in expected.items():
        found = differences(certificate[field], value, field)
        yield from (f"certificate.json: {text} (compared with what unit and method imply)" for text in found)
    yield from _assumed_faults(certificate)
    yield from fact_faults(certificate)


def origin_faults(certificate: dict[str, Any]) -> Iterator[str]:
    """Runs that the weights come from, of which none that learned from protected data can have cost nothing."""
    method = certificate["method"]
    if certificate["composition"]["builds_on"] and method in WHO_MAY_SEE and method not in INDUCTIVE:
        yield f"certificate.json: composition.builds_on: expected none, since {method} takes no weights from another run"
    for index, run in enumerate(certificate["composition"]["builds_on"]):
        for field in ("epsilon", "delta"):
            if certificate["unit"]["name"] != "none" and not run[field]:
                where = f"certificate.json: composition.builds_on[{index}].{field}"
                yield f"{where}: expected a number > 0, got {run[field]}: weights cannot come from a run that cost nothing"


def _protects(unit: dict[str, Any]) -> str:
    if unit["name"] == "none":
        return "nothing: this run carries no privacy guarantee"
    if unit["name"] == "edge":
        return "the presence of any one " + ("directed arc" if unit["directed"] else "undirected edge")
    if unit["name"] == "record":
        return "any one record"
    if unit["name"] == "local":
        kept = " and ".join(word for word, held in (("features", unit["features"]), ("label", unit["labels"])) if held)
        return f"one user's {kept}, from everyone, the server too"
    if unit["name"] == "link":
        return (
            "one bit of one user's neighbor list, from everyone, the server too; a relationship that both ends report costs "
            "twice the epsilon"
        )
    if unit["arcs"] == "incident":
        return "any one node: its features, its label and every arc in or out of it"
    cap = unit["max_out_degree"]
    return f"any one node: its features, its label and the {f'(at most {cap}) ' if cap else ''}out-arcs it owns"


def _caveats(certificate: dict[str, Any]) -> list[str]:
    unit, directed = certificate["unit"], certificate["public_facts"]["directed"]
    events = list(leaves(release["event"] for release in certificate["releases"]))
    found = []
    if unit["name"] == "edge" and unit["directed"] and not directed:
        found.append(
            "The graph is undirected and the unit is one arc, half of an edge: for a whole undirected edge epsilon is "
            "larger (the sensitivity is sqrt 2). This is the published convention, not the honest default."
        )
    if unit["name"] == "node":
        found.append("A node's label may still be inferred from what other nodes' records say about it.")
        if not directed:
            found.append(
                "Each end of an undirected edge owns its own arc: the other end's record of it is not protected."
            )
    if any(event["type"] == "selection" for event in events):
        found.append(
            "The settings are part of what the charged selection released. Its rule and its list of candidates were chosen "
            "without looking at protected data. The number of trials, and every trial but the best, stay secret."
        )
    if any("sampling_prob" in event for event in events):
        found.append(_SUMS)
    return found


def _both_ends(certificate: dict[str, Any]) -> list[str]:
    """The caveat of links, each of which is a bit of two lists."""
    epsilon = certificate["claim"]["epsilon"]
    if certificate["unit"]["name"] != "link" or epsilon is None:
        return []
    return [
        f"epsilon = {round_up(epsilon)} is that of one bit of one list. A relationship that both of its ends report costs "
        f"epsilon = {round_up(2 * epsilon)}.",
        "A whole neighbor list costs epsilon for every bit in which it could differ: about how many links a user has is not "
        "hidden.",
    ]


def _each_feature(certificate: dict[str, Any]) -> list[str]:
    """The caveat of a budget that was set for every feature by itself."""
    settings, count = certificate["settings"], certificate["public_facts"]["num_features"]
    if not (settings.get("per_feature") and type(settings.get("epsilon_x")) in (int, float) and settings["epsilon_x"]):
        return []
    return [
        f"epsilon_x = {settings['epsilon_x']:g} is spent on each of the {count} features, as first published: a user "
        f"spends up to {count} times as much."
    ]


def round_up(epsilon: float) -> str:
    """Print an epsilon with six decimals, never below its value.

    >>> round_up(7.994783104)
    '7.994784'
    """
    return f"{Decimal(epsilon).quantize(Decimal('0.000001'), context=_UPWARD).normalize(_UPWARD):f}"


def _assumed_faults(certificate: dict[str, Any]) -> Iterator[str]:
    """Facts read off protected data: none where features and labels are public, and each only once."""
    unit, facts = certificate["unit"]["name"], certificate["assumed_public"]
    for index, fact in enumerate(facts):
        where = f"certificate.json: assumed_public[{index}]: {plain(fact)} "
        if unit in ("none", "edge", "link"):
            yield f"{where}is not protected under unit {unit}"
        elif fact not in ("num_features", "classes") and not fact.startswith("categories of column "):
            yield f"{where}is no fact that is read off data"
        elif fact in facts[:index]:
            yield f"{where}appears twice"
        elif fact == "classes" and certificate["public_facts"]["num_classes"] == 0:
            yield f"{where}contradicts public_facts.num_classes, which is 0"
        elif fact != "classes" and certificate["public_facts"]["num_features"] == 0:
            yield f"{where}contradicts public_facts.num_features, which is 0"
