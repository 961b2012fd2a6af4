"""The certificate: what is claimed about which data, what is released to whom, and under which assumptions.

Its form is the JSON Schema ``certificate-3.schema.json`` beside this file, which maps every field to the question of
NIST SP 800-226 that it answers. Sentences that hold for every run are constants. Sentences that depend on the run
follow from unit, direction and mechanisms (:func:`caveats`), from implausible public facts
(:mod:`~sfumato.privacy.promises`), or from the method. The verifier holds its own copy of all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.errors import LedgerError
from sfumato.noise._rectangles import SAMPLER_TAU
from sfumato.privacy.events import SelectionEvent, flatten, leaves
from sfumato.privacy.units import Unit, class_named, unit_to_dict
from sfumato.record import _arrivals as arrivals
from sfumato.record import _collected as collected
from sfumato.record import _deployment as deployment
from sfumato.record import _population as population
from sfumato.record import _types as types
from sfumato.record import _windows as windows
from sfumato.record._prices import MOST, prices
from sfumato.record._shown import NO_PRIVACY, ShownCertificate, delta_up, factor_words, origin_words
from sfumato.record._shown import round_up as round_up
from sfumato.record.ledger import Ledger, Release, canonical_json

FORMAT = 3
MOST_ORIGINS = 16
"""Most runs that weights may come from, one after another."""
SAME_BITS = (
    "DP-SGD takes for granted that what one example adds comes out as the same bits wherever in a batch it stands. Sums over "
    "examples are exact."
)
_EVALUATED = "Evaluation: accuracies, curves and controls read true labels and are not protected."
FIXED: Mapping[str, Any] = {
    "trust_model": "trusted curator",
    "adversary": "Anyone who reads everything shown to anyone, knows every other record, the code and the settings, and "
    "cannot break AES-256 or HMAC-SHA256: the guarantee is computational.",
    "randomness": "Noise and sampling coins come from AES-256 and HMAC-SHA256 under a 256-bit key drawn from the operating "
    "system for this run alone.",
    "assumptions": [
        "Whoever runs the training may see the data and follows the method.",
        "The key, the sampling coins and every value before its noise stay secret.",
        "Settings and budget were chosen without looking at protected data, and what is listed as public may be known.",
    ],
    "side_channels": [
        "Floating point: noise is whole numbers added to whole numbers, so the spacing of floats reveals nothing.",
        "Time and memory: running time, memory use, file sizes and power draw are not protected.",
        "Messages: whether a run stops, its errors and its logs are not protected.",
        _EVALUATED,
    ],
    "data_collection": "Not covered: how the data was collected, stored and accessed before and beside this run.",
}
LOCAL: Mapping[str, Any] = {
    "trust_model": "local: users trust nobody",
    "randomness": "Coins of every report come from AES-256 under a 256-bit key drawn from the operating system. Devices draw "
    "their own; this run simulated them in one process, under a key for this run alone.",
    "assumptions": [
        "Every device randomizes its own values, follows the method and keeps its coins to itself. This run simulated the "
        "devices: whoever ran it held the values, and the guarantee is about everyone who sees only what was sent.",
        "Links and roles are public, and so is who reports a label. A user's values may still be inferred from what linked "
        "users report.",
        "One collection: a second one, or anything else that is told about a user, adds up.",
        "Settings, ranges and budget were chosen without looking at protected data, and what is listed as public may be known.",
    ],
    "side_channels": [
        "Floating point: reports are whole numbers, so the spacing of floats reveals nothing.",
        "Time and memory: a device's running time, memory use and power draw are not protected.",
        "Messages: whether a device reports, its errors and its logs are not protected.",
        _EVALUATED,
    ],
}
"""What stands in place of the same fields of ``FIXED`` under unit local."""
LINK: Mapping[str, Any] = {
    **LOCAL,
    "assumptions": [
        LOCAL["assumptions"][0],
        "Features, labels and roles are public. A link may still be inferred from them, from other users' lists, and from the "
        "list of the user at its other end.",
        *LOCAL["assumptions"][2:],
    ],
}
"""The same under unit link."""
SERVERS: Mapping[str, Any] = {
    **LOCAL,
    "trust_model": "two servers that do not collude: users trust neither alone",
    "randomness": "Noise of each server comes from AES-256 under a key of its own, drawn from the operating system. This run "
    "simulated users and servers in one process, under a key for this run alone.",
    "assumptions": [
        "Both servers follow the method or only one does, and they do not collude: together they hold every label. This run "
        "simulated users and servers: whoever ran it held the labels, and the guarantee is about everyone who sees only what was "
        "opened, and about either server in a deployment with proofs of valid shares.",
        "Links and roles are public, and so is who reports a label. A user's label may still be inferred from what is opened of "
        "the user's cell without it.",
        *LOCAL["assumptions"][2:],
    ],
}
"""The same under unit servers."""
_OF_TRUST: Mapping[str, Mapping[str, Any]] = {"curator": {}, "local": LOCAL, "link": LINK, "servers": SERVERS}
SELECTED = (
    "The settings are part of what the charged selection released. Its rule and its list of candidates were chosen without "
    "looking at protected data. The number of trials, and every trial but the best, stay secret."
)
_READERS = ("anyone", "the node itself", "never")
COVERS = "This run alone: other releases about the same data add up."


@dataclass(frozen=True, repr=False)
class Certificate(ShownCertificate):
    """A claim of privacy for a single run. It exists only if the ledger holds exactly the plan's releases.

    ``values`` is the JSON form (`certificate.json`); ``str()`` gives the plain words.

    >>> print(Certificate({"claim": {"epsilon": 1.0, "delta": 1e-7}}).to_json(), end="")
    {"claim":{"delta":1e-07,"epsilon":1.0}}
    """

    values: Mapping[str, Any]

    @property
    def epsilon(self) -> float | None:
        """The claimed epsilon, or None without privacy."""
        epsilon: float | None = self.values["claim"]["epsilon"]
        return epsilon

    @property
    def delta(self) -> float | None:
        """The claimed delta, or None without privacy."""
        delta: float | None = self.values["claim"]["delta"]
        return delta

    @property
    def sentence(self) -> str:
        """The claim in one sentence, and what it costs if arcs of others go with the record."""
        claim, unit = self.values["claim"], self.values["unit"]
        words = (
            f"Protects {self.values['protects']}: whoever sees the release learns at most epsilon = "
            f"{round_up(claim['epsilon'])}, delta = {delta_up(claim['delta'])} about it (unit {unit['name']}, relation "
            f"{unit['relation']}; {self.values['trust_model']})."
        )
        return " ".join([words, *promise_words(self.values), *price_words(self.values)])

    def to_json(self) -> str:
        return canonical_json(self.values) + "\n"

    def __str__(self) -> str:
        claim, unit = self.values["claim"], self.values["unit"]
        if claim["epsilon"] is None:
            return NO_PRIVACY
        lines = [
            f"Protects {self.values['protects']}.",
            f"Whoever sees the release learns at most epsilon = {round_up(claim['epsilon'])}, delta = {delta_up(claim['delta'])} "
            f"about it (unit {unit['name']}, relation {unit['relation']}).",
            *([] if self.values["composition"]["builds_on"] else factor_words(claim)),
            *promise_words(self.values),
            self.not_protected,
            *_shares(self.values),
            *price_words(self.values),
            f"Trust model: {self.values['trust_model']}.",
            f"Adversary: {self.values['adversary']}",
        ]
        shown = self.values["who_may_see"]
        for who in sorted(shown, key=_READERS.index):  # a certificate that was read has its keys in another order
            if what := shown[who]:
                lines.append(
                    f"{who.capitalize()} may see: {'; '.join(what)}."
                    if who != "never"
                    else f"Never to be shown: {'; '.join(what)}."
                )
        if self.values["assumed_public"]:
            lines.append("Assumed public, read from the data: " + "; ".join(self.values["assumed_public"]) + ".")
        lines += [*self.values["assumptions"], *self.values["caveats"], self.values["randomness"]]
        lines += [*self.values["side_channels"], self.values["composition"]["covers"]]
        lines += [collected.words(self.values["collection"])] if "collection" in self.values else []
        origins = list(self.values["composition"]["builds_on"])
        if "arrival" in self.values:
            run = origins.pop()
            lines.append(
                f"{len(self.values['arrival']['nodes'])} nodes arrived after the run that this release extends (ledger "
                f"{run['ledger_head'][:16]}, epsilon {run['epsilon']}, delta {run['delta']}): each edge pays once, there or here."
            )
        lines += map(origin_words, origins)
        lines += (
            [population.words(self.values["population"], self.values["unit"]["name"])]
            if "population" in self.values
            else []
        )
        lines += [deployment.words(self.values["deployment"])] if "deployment" in self.values else []
        lines += [f"Chosen among: {canonical_json(one)}." for one in self.values.get("candidates", ())]
        return "\n".join([*lines, self.values["data_collection"], *note_words(self.values)])


@dataclass(frozen=True)
class Statement:
    """Everything that the certificate of a finished run states.

    ``accounting`` is ``gaussian``, ``pld``, ``renyi``, ``sum`` (of a user's reports) or ``none``. ``assumed_public`` are public
    facts that were read off protected data. ``who_may_see`` has outputs for ``anyone``, ``the node itself`` and ``never``.
    ``builds_on`` has ``ledger_head``, ``epsilon`` and ``delta`` of runs whose weights this run uses, ``candidates`` the
    ``method`` and ``settings`` of what a charged selection chose from, in its order. ``assumptions`` of the method come beside
    those of a trusted curator, ``limits`` are its caveats, and ``doubts`` say what is implausible about the claim, each with
    its code (:mod:`~sfumato.privacy.promises`). Nothing checks ``notes`` and ``deployment``, which are outside the claim.
    """

    ledger: Ledger
    version: str
    settings: Mapping[str, Any]
    unit: Unit
    budget: Mapping[str, float] | None
    accounting: str
    public_facts: Mapping[str, Any]
    assumed_public: Sequence[str]
    who_may_see: Mapping[str, Sequence[str]]
    builds_on: Sequence[Mapping[str, Any]] = ()
    candidates: Sequence[Mapping[str, Any]] = ()
    notes: Sequence[str] = ()
    assumptions: Sequence[str] = ()
    limits: Sequence[str] = ()
    doubts: Sequence[tuple[str, str]] = ()
    arrival: arrivals.Arrival | None = None
    collection: Mapping[str, Any] | None = None
    deployment: Mapping[str, str] | None = None


def certify(stated: Statement) -> Certificate:
    """Write the certificate of a finished run."""
    ledger, unit, facts = stated.ledger, stated.unit, stated.public_facts
    if not ledger.complete:
        raise LedgerError(
            f"Expected {len(ledger.releases)} releases in the ledger, got {len(ledger.entries) - 1}. "
            "No certificate is written for a run that did not finish its plan."
        )
    plan = ledger.plan
    typed = types.of_facts(unit, facts)
    known = None if unit.no_arc_change is None else prices(ledger.releases, plan["claim"])
    return Certificate(
        {
            "format": FORMAT,
            "version": stated.version,
            "method": plan["method"],
            "settings": dict(stated.settings),
            **({"candidates": [dict(one) for one in stated.candidates]} if stated.candidates else {}),
            **({} if stated.arrival is None else {"arrival": stated.arrival.to_dict()}),
            **({} if stated.collection is None else {"collection": dict(stated.collection)}),
            **({"population": dict(plan["population"])} if "population" in plan else {}),
            **({"history": plan["history"]} if "history" in plan else {}),
            **({} if stated.deployment is None else {"deployment": dict(stated.deployment)}),
            "unit": unit_to_dict(unit),
            "protects": unit.describe()
            + unit.weighed * ("max_weight" in facts)
            + typed
            + windows.suffix(plan.get("population")),
            "claim": plan["claim"],
            **({} if known is None else {"prices": known}),
            "budget": dict(stated.budget) if stated.budget else {"epsilon": None, "delta": None},
            "releases": [release.to_dict() for release in ledger.releases],
            "accounting": {
                "method": stated.accounting,
                "delta_sampler": plan["delta_sampler"],
                "sampler_tau": SAMPLER_TAU,
            },
            "public_facts": dict(facts),
            "assumed_public": list(stated.assumed_public),
            "who_may_see": {who: list(what) for who, what in stated.who_may_see.items()},
            "caveats": [
                *caveats(unit, bool(facts.get("directed")), ledger.releases),
                *([types.CAVEAT] if typed and "labels" in unit.public else ()),
                *([windows.caveat(unit.name)] if "window" in plan.get("population", ()) else ()),
                *each_feature(stated.settings, facts),
                *(both_ends(plan["claim"]["epsilon"]) if unit.trust == "link" else ()),
                *([] if stated.arrival is None else [arrivals.ASSUMED]),
                *stated.limits,
                *(text for _, text in stated.doubts),
            ],
            "composition": {
                "covers": _covers(stated),
                "builds_on": [dict(run) for run in stated.builds_on],
            },
            "notes": list(stated.notes),
            "ledger_head": ledger.head,
            **FIXED,
            **_OF_TRUST[unit.trust],
            **({} if stated.collection is None else collected.sentences(_OF_TRUST[unit.trust], stated.collection)),
            **({"assumptions": [*FIXED["assumptions"], *stated.assumptions]} if stated.assumptions else {}),
        }
    )


def _covers(stated: Statement) -> str:
    if stated.collection is not None:
        return collected.COVERS
    if stated.arrival is not None:
        return arrivals.COVERS
    if "history" in stated.ledger.plan:
        return population.HISTORY_COVERS
    return population.COVERS if "population" in stated.ledger.plan else COVERS


def _shares(values: Mapping[str, Any]) -> list[str]:
    """Return what each report takes of epsilon, if there is more than one report."""
    trust = class_named(values["unit"]["name"]).trust
    if trust == "curator" or len(values["releases"]) < 2:
        return []
    whose = "a user's" if trust in ("local", "servers") else "this"
    taken = {one["name"]: one["event"].get("epsilon") for one in values["releases"]}
    rest = values["claim"]["epsilon"] - sum(part or 0.0 for part in taken.values())
    shown = (f"{name} {round_up(rest if part is None else part)}" for name, part in taken.items())
    return [f"Of {whose} epsilon: {', '.join(shown)}."]


def price_words(values: Mapping[str, Any]) -> list[str]:
    """Return what the claim costs if arcs that other nodes own go with the record, in one line; nothing for other units."""
    if values["unit"].get("arcs") != "owned" or values["claim"]["epsilon"] is None:
        return []
    if "prices" not in values:
        return ["With arcs that others own and that point at it: no epsilon is known."]
    return [f"With arcs that others own and that point at it: {'; '.join(map(_priced, values['prices']))}."]


def note_words(values: Mapping[str, Any]) -> list[str]:
    """Return the notes of a certificate, which nothing checks, and say so."""
    return [f"Note, which nothing checks: {note}" for note in values.get("notes", ())]


def promise_words(values: Mapping[str, Any]) -> list[str]:
    """Return the promise on degrees without which the claim does not hold, in one line; nothing where none was made.

    >>> facts = {"max_degree": 12, "directed": False}
    >>> promise_words({"unit": {"arcs": "incident"}, "public_facts": facts, "claim": {"epsilon": 1.0}})[0][:63]
    'It holds among graphs in which no node has more than 12 edges. '
    """
    facts, promised = values["public_facts"], values["public_facts"].get("max_degree")
    if values["unit"].get("arcs") != "incident" or promised is None or values["claim"]["epsilon"] is None:
        return []
    ends = "arcs out or in" if facts["directed"] else "edges"
    return [
        f"It holds among graphs in which no node has more than {promised} {ends}. Somebody promised this bound without looking "
        "at the graph; a graph that breaks it is refused."
    ]


def _priced(price: Mapping[str, Any]) -> str:
    arcs = f"{price['arcs']} arc{'s' * (price['arcs'] > 1)}"
    if price["epsilon"] is None:
        return f"{arcs}, epsilon above {MOST:g} or without a bound"
    return f"{arcs}, epsilon = {round_up(price['epsilon'])}"


def caveats(unit: Unit, directed: bool, releases: Sequence[Release]) -> list[str]:
    """Return the limits of the claim that follow from the unit, the direction of the graph, and the mechanisms."""
    found = unit.caveats(directed)
    events = [release.event for release in releases]
    if any(isinstance(event, SelectionEvent) for event, _ in flatten(events)):
        found.append(SELECTED)
    if any(hasattr(event, "sampling_prob") for event in leaves(events)):
        found.append(SAME_BITS)
    return found


def each_feature(settings: Mapping[str, Any], public_facts: Mapping[str, Any]) -> list[str]:
    """Return the caveat of a budget that is spent on every feature separately; nothing for other budgets."""
    if not (settings.get("per_feature") and settings.get("epsilon_x")):
        return []
    count = public_facts["num_features"]
    return [
        f"epsilon_x = {settings['epsilon_x']:g} is spent on each of the {count} features, as first published: a user "
        f"spends up to {count} times as much."
    ]


def both_ends(epsilon: float) -> list[str]:
    """Return the caveats of unit link, under which a link is a bit of two lists."""
    return [
        f"epsilon = {round_up(epsilon)} is that of one bit of one list. A relationship that both of its ends report costs "
        f"epsilon = {round_up(2 * epsilon)}.",
        "A whole neighbor list costs epsilon for every bit in which it could differ: about how many links a user has is not "
        "hidden.",
    ]


def total_draws(releases: Sequence[Release]) -> int:
    """Return how many noise draws a record can touch in a plan: the factor of ``SAMPLER_TAU`` in delta."""
    return sum(release.draws for release in releases)
