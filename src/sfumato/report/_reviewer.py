"""The page for reviewers: the deployment record, the certificate in full, the accounting, and how to verify it. No scores."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sfumato.privacy.units import unit_from_dict
from sfumato.record._certificate import price_words, promise_words
from sfumato.record._deployment import ASKED
from sfumato.report._html import to_html
from sfumato.report._page import Code, Facts, Folded, Items, Page, Part, Section, Table
from sfumato.report._run import guarantee_section, released_section
from sfumato.report._scale import belief_after, factor, one_in, right_guesses, scale_figure
from sfumato.report._statistics import statistics_sections
from sfumato.report._words import ACCOUNTING, capital, claim_words, event_words, plain

if TYPE_CHECKING:
    from sfumato.report._run import Run

_LEAD = "Everything that the certificate of this run states, for a reader who has to judge it."
_CLOSING = "This page holds what stands in release/, and no scores."
_UNCHECKED = (
    "A person wrote these fields before the run. Nobody checked what they say, save that the flavor is no stronger than the "
    "claim."
)
_NO_RECORD = (
    "The run has no deployment record: nothing says who publishes it, for which purpose, and why at this epsilon. A run gets one "
    "with sfumato train --deployment."
)


def reviewer_page(run: Run, verdict: str) -> str:
    """Return an HTML page about a run for a reviewer.

    Args:
        run: the run, as it was read.
        verdict: what the verifier says of it, in words.

    Raises:
        InputError: the run has no privacy.
    """
    values = run.claimed()
    record = values.get("deployment")
    name = record["product"] if record else f"{values['method']} on {run.graph}"
    parts = (_UNCHECKED, _fields(record)) if record else (_NO_RECORD,)
    sections = (
        _short(run, verdict),
        guarantee_section(run),
        _meaning(values),
        *(() if run.described is None else statistics_sections(run.described)),
        released_section(run),
        _accounting(values),
        _verdict(run, verdict),
        Section("record", "Deployment record", parts),
        Section("certificate", "The certificate in full", (_certificate(values),)),
    )
    return to_html(Page(f"{name}: for reviewers", _LEAD, sections, _CLOSING))


def _short(run: Run, verdict: str) -> Section:
    """What a reviewer asks first: what is claimed of whom, does it hold, what leaves, and on which conditions."""
    values = run.claimed()
    unit, record = values["unit"], values.get("deployment")
    signed = "signed: ask its author for the public key" if run.signed else "not signed, so it is not shown who made it"
    count = len(values["releases"])
    leaves = "; ".join(values["who_may_see"].get("anyone", ())) or "nothing"
    facts = (
        ("Claim", claim_words(values["claim"])),
        ("Protects", f"{values['protects']} (unit {unit['name']}, relation {unit['relation']})"),
        ("Does it hold", f"{verdict.partition(': ')[0]}, says the verifier. The release is {signed}."),
        ("Who is trusted", values["trust_model"]),
        ("Anyone may see", leaves),
        ("Composed by", f"{ACCOUNTING[values['accounting']['method']]}, of {count} release{'s' * (count != 1)}"),
        (
            "Not protected",
            ", ".join(part.replace("_", " ") for part in unit_from_dict(dict(unit)).public) or "nothing is public",
        ),
        ("Read as public", "; ".join(values["assumed_public"]) or "nothing beyond the public facts of the unit"),
        ("Covers", values["composition"]["covers"]),
        ("Conditions", " ".join(values["assumptions"])),
        ("Who answers", f"{record['curator']} ({record['contact']})" if record else "nobody is named"),
    )
    return Section("short", "In short", (Facts(facts),))


def _fields(record: Mapping[str, str]) -> Facts:
    return Facts(tuple((capital(name.replace("_", " ")), record[name]) for name in ASKED if name in record))


def _meaning(values: Mapping[str, Any]) -> Section:
    claim = values["claim"]
    epsilon, delta = claim["epsilon"], claim["delta"]
    chance = "0: without exception" if delta == 0 else f"{delta:g}: at most {one_in(delta)}"
    facts = (
        (
            "Right guesses",
            f"at most {right_guesses(**claim)} of 100 between two equally likely cases: (e^eps + delta) / (1 + e^eps)",
        ),
        ("Odds", f"grow at most {factor(epsilon)} times, which is e^eps, outside an event of probability delta"),
        ("Belief of 1 %", f"becomes at most {belief_after(epsilon, 1)} %, outside that event"),
        ("Delta", chance),
    )
    return Section("meaning", "What epsilon and delta mean", (Facts(facts), scale_figure(claim)))


def _accounting(values: Mapping[str, Any]) -> Section:
    accounting, budget = values["accounting"], values["budget"]
    allowed = "no limit was set" if budget["epsilon"] is None else claim_words(budget)
    facts = (
        ("Allowed", allowed),
        ("Spent", claim_words(values["claim"])),
        ("Composed by", ACCOUNTING[accounting["method"]]),
        ("Noise sampler", f"{accounting['delta_sampler']:.3g} of delta, which the claim includes"),
        ("Covers", values["composition"]["covers"]),
        *(("Promise", text) for text in promise_words(values)),
        *(("With arcs of others", text.partition(": ")[2]) for text in price_words(values)),
    )
    parts: list[Part] = [Facts(facts)]
    if values["releases"]:
        rows = tuple(
            (one["name"], _count(one["affected_coordinates"]), plain(one.get("arc_change")), event_words(one["event"]))
            for one in values["releases"]
        )
        columns = ("Release", "Numbers one record can change", "Change by one arc of others", "Mechanism")
        parts.append(Table("events", "What the accountant was told", columns, rows, text=("Mechanism",)))
    return Section("accounting", "The accounting", tuple(parts))


def _count(numbers: int) -> str:
    """How many numbers one record can change; pure mechanisms do not use it, and state 0."""
    return f"{numbers:,}" if numbers else "-"


def _verdict(run: Run, verdict: str) -> Section:
    signed = " --public-key KEY" if run.signed else ""
    texts = (
        "When this page was written, the verifier said:",
        Items(tuple(verdict.splitlines())),
        "Check it yourself. The verifier needs NumPy and cryptography alone, and derives epsilon again with code of its own. The "
        "second command runs without the rest of the library.",
        Code(f"sfumato verify {run.folder}{signed}"),
        Code(f"python -m sfumato.verify {run.folder}{signed}"),
        "It cannot see that the noise was drawn, that the assumptions hold, or that nothing else was released.",
    )
    return Section("verdict", "How to verify", texts)


def _certificate(values: Mapping[str, Any]) -> Folded:
    fields = tuple((name, json.dumps(value, ensure_ascii=False)) for name, value in sorted(values.items()))
    return Folded(f"All {len(fields)} fields, as certificate.json has them", Facts(fields))
