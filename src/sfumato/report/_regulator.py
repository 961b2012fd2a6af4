"""The page for data protection officers and supervisory authorities: what they ask, in their words, about one run.

Each sentence comes from the certificate, from the result of an attack or audit, or from the owner; what nobody wrote yet is a
marked blank. It is no legal advice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sfumato._validate import fail
from sfumato.privacy.units import unit_from_dict
from sfumato.record._deployment import ASKED
from sfumato.report._everyday import LIMITS, SEEN, everyday
from sfumato.report._first_answers import first_answers, of_many
from sfumato.report._glossary import EXPERTS
from sfumato.report._html import to_html
from sfumato.report._intruder import intruder_section, tested
from sfumato.report._page import Blank, Code, Facts, Items, Page, Part, Section, Table
from sfumato.report._person import NOT_PROTECTED, person_of
from sfumato.report._rules import LOOKED_UP, NO_ADVICE, RULES
from sfumato.report._scale import right_guesses, size_words, strength
from sfumato.report._words import ACCOUNTING, capital, event_words

if TYPE_CHECKING:
    from sfumato.report._run import Run

_LEAD = (
    "For data protection officers and supervisory authorities: what was released, whom it protects, and what is open. "
    f"{NO_ADVICE}"
)
_BLANKS = (
    "product", "curator", "contact", "description", "intended_use", "data_domain", "epsilon_rationale", "delta_rationale",
    "controller", "processor", "officer", "legal_basis", "necessity", "risks", "measures", "recipients", "retention", "deletion",
    "review", "expert",
)  # fmt: skip
"""What the page asks of the owner; ``expert`` is for health data in the United States alone."""


def regulator_page(run: Run, verdict: str, later: Mapping[str, str] | None = None) -> str:
    """Return an HTML page about a run for a data protection officer.

    Args:
        run: the run, as it was read; its attacks and its audit are told.
        verdict: what the verifier says of it, in words.
        later: the fields of a deployment record that was written after the run. They fill what the certificate leaves open.

    Raises:
        InputError: the run has no privacy, or a later field contradicts the record in its certificate.
    """
    written = run.claimed().get("deployment", {})
    told = merged(written, later or {})
    sections = (
        first_answers(run, told),
        _open(written, told),
        intruder_section(run),
        _assessment(run, told),
        _roles(run, told),
        _deletion(run, told),
        _health(run, told),
        _nist(run, told),
        _iso(run, told),
        _check(run, verdict),
        _sources(),
    )
    name = told.get("product") or f"{run.certificate['method']} on {run.graph}"
    closing = "It tells results of tests that read the real data: for those who supervise, and not for publication. "
    return to_html(
        Page(f"{name}: for data protection officers", _LEAD, sections, closing * tested_at_all(run) + NO_ADVICE)
    )


def tested_at_all(run: Run) -> bool:
    """Return whether the page tells results of tests, which read the real data."""
    return bool(run.attacks or run.audit)


def merged(written: Mapping[str, str], later: Mapping[str, str]) -> Mapping[str, str]:
    """Return the record of a certificate with fields that were filled later; it cannot be contradicted.

    >>> merged({"curator": "A"}, {"curator": "A", "review": "Each year"})["review"]
    'Each year'
    """
    for name, text in written.items():
        if later.get(name, text) != text:
            raise fail(
                f"{name} of the deployment record",
                later[name],
                f"to be {text!r}, as the certificate of the run says",
                "A later record can fill what is open, and change nothing. Write the same text.",
            )
    return {**later, **written}


def _owner(told: Mapping[str, str], name: str) -> str:
    return told.get(name) or Blank(f"The owner writes here {ASKED[name]} (field {name}).")


def _facts(told: Mapping[str, str], *pairs: tuple[str, str]) -> Facts:
    """Return facts of which each is a text, or the owner's answer where the text is the name of a field."""
    return Facts(tuple((title, _owner(told, text) if text in ASKED else text) for title, text in pairs))


def _open(written: Mapping[str, str], told: Mapping[str, str]) -> Section:
    missing = [name for name in _BLANKS if name not in told]
    added = [name.replace("_", " ") for name in told if name not in written]
    parts: list[Part] = []
    if added:
        parts.append(f"Written by the owner after the run, so not in its certificate: {', '.join(added)}.")
    if not missing:
        parts.append(
            "Nothing is open: the owner has filled in every field that this page asks for. No program checked the texts."
        )
        return Section("open", "What is still open", tuple(parts))
    parts += [
        f"{len(missing)} of {len(_BLANKS)} fields {'is' if len(missing) == 1 else 'are'} blank. The owner writes into the "
        "deployment record, a TOML file, under these names:",
        Facts(tuple((name, ASKED[name]) for name in missing)),
        *["The field expert is for health data in the United States alone: elsewhere it may stay blank."]
        * ("expert" in missing),
        "Name the file in the run (train --deployment FILE), so that the certificate holds it, or here (report --deployment "
        "FILE). The program needs the fields from product to delta_rationale, and flavor, which names the kind of privacy.",
    ]
    return Section("open", "What is still open", tuple(parts), kind="warning")


def _limit(run: Run, parts: int = 1) -> str:
    """Say what the release can tell about so many protected parts together."""
    claim, person = of_many(run.certificate["claim"], parts), person_of(run.certificate)
    right = right_guesses(*claim)
    told = size_words(dict(zip(("epsilon", "delta"), claim, strict=True)))
    what = f"one {person.noun}" if parts == 1 else f"{parts} {person.plural} together"
    condition = "where both answers were equally likely before (answer 5)"
    return f"At most {right} of 100 guesses about {what} are right, {condition}; of a coin 50 ({told}). {strength(right)}".strip()


def _noise(run: Run) -> str:
    """Say for experts which random numbers were added."""
    events = dict.fromkeys(event_words(one["event"]) for one in run.certificate["releases"])
    return f"{_added(run)} {'; '.join(events)}{'.' * bool(events)}".strip()


def _added(run: Run) -> str:
    if not run.certificate["releases"]:
        return "What is protected was not read, so no random numbers are needed."
    return "Random numbers were added on purpose before anything was released."


def _visible(run: Run) -> str:
    names = {"anyone": "Anyone", "the node itself": "You alone, about yourself", "never": "Nobody"}
    shown = run.certificate["who_may_see"]
    return (
        ". ".join(
            f"{names[who]}: {'; '.join(SEEN.get(one, one) for one in what)}" for who, what in shown.items() if what
        )
        + "."
    )


def _outside(run: Run) -> str:
    """What the limit does not cover, of what is special about this run."""
    caveats = (LIMITS.get(text, everyday(text)) for text in run.certificate["caveats"])
    return " ".join([*caveats, "Answer 6 lists the rest."])


def _assessment(run: Run, told: Mapping[str, str]) -> Section:
    person, values = person_of(run.certificate), run.certificate
    method = f"By the program Sfumato, version {values['version']}, with its method {values['method']}."
    parts = (
        "The four points that an assessment holds at least, with what this run can say to each.",
        Section("dpia-a", "(a) The processing and its purposes",
                (_facts(told, ("What it is", "description"), ("Purpose", "intended_use"), ("Data", "data_domain"),
                        ("How", method), ("Visible to", _visible(run))),)),
        Section("dpia-b", "(b) Necessity and proportionality",
                (_facts(told, ("Necessity", "necessity"), ("Why the limit is this large (epsilon)", "epsilon_rationale"),
                        ("Why it may fail this often (delta)", "delta_rationale")),)),
        Section("dpia-c", "(c) Risks for people",
                (_facts(told, ("Risks", "risks"), ("Protected", f"{capital(person.what)}."), ("The limit", _limit(run)),
                        ("Outside the limit", _outside(run))),)),
        Section("dpia-d", "(d) Measures",
                (_facts(told, ("Random numbers", _added(run)), ("Other measures", "measures"), ("Next review", "review"),
                        ("Assumptions", "Answer 13 lists them, answer 4 what must be kept secret.")),)),
    )  # fmt: skip
    return Section("assessment", "Data protection impact assessment (GDPR, Article 35(7))", parts)


def _roles(run: Run, told: Mapping[str, str]) -> Section:
    central = run.certificate["trust_model"] == "trusted curator"
    access = (
        "The owner worked with the real data."
        if central
        else "Values were split between two servers, which together would know them."
        if run.certificate["trust_model"].startswith("two servers")
        else "Values were changed at random before they were sent."
    )
    facts = _facts(
        told, ("Controller (Articles 4(7), 26)", "controller"), ("Processor (Articles 4(8), 28)", "processor"),
        ("Data protection officer (Article 37)", "officer"), ("Legal basis (Articles 6, 9)", "legal_basis"),
        ("Recipients", "recipients"), ("Kept for", "retention"), ("Access to real data", access),
    )  # fmt: skip
    return Section("roles", "Who does what (GDPR)", (facts,))


def _deletion(run: Run, told: Mapping[str, str]) -> Section:
    person = person_of(run.certificate)
    one, many = capital(f"one {person.noun}"), person.plural
    parts = (
        "Article 17 gives people the right to have their data erased in many cases. It concerns the data, which the owner holds, "
        "and later releases. Whether it reaches a release that is public already is a question of law: this page says what "
        "the release can tell of what was deleted (answer 7 says it in other words).",
        _facts(
            told, ("What the owner does", "deletion"),
            *((f"{words} deleted", _limit(run, k)) for k, words in ((1, one), (2, f"Two {many}"), (10, f"Ten {many}"))),
            ("How it is recorded", "sfumato ledger delete LEDGER --records N writes how many left, and when, never who."),
        ),
    )  # fmt: skip
    return Section("deletion", "If somebody wants to be deleted (GDPR, Article 17)", parts)


def _health(run: Run, told: Mapping[str, str]) -> Section:
    parts = (
        "This block is for health data in the United States alone. The rule names no number for a very small risk: the expert "
        "decides, and writes down how. What follows can be part of what the expert reads.",
        _facts(
            told, ("Determined by", "expert"), ("The limit", _limit(run)), ("Recipients", "recipients"),
            ("Tests", _of_tests(run)), ("Documents", f"{run.folder}/release/certificate.json, and this page"),
        ),
    )  # fmt: skip
    return Section("health", "Expert determination (HIPAA, 45 CFR 164.514(b)(1))", parts)


def _of_tests(run: Run) -> str:
    found = tested(run)
    return found[0] if isinstance(found[0], Blank) else " ".join(found)


def _nist(run: Run, told: Mapping[str, str]) -> Section:
    values = run.certificate
    accounting = f"{ACCOUNTING[values['accounting']['method']]}; {_noise(run)}"
    bias = "Scores by class and by number of links are on the page of the owner; they read protected data, and are not told here."
    rows = (
        ("Privacy parameters", size_words(values["claim"]), "claim"),
        (
            "Unit of privacy",
            f"{capital(values['protects'])} (unit {values['unit']['name']}, {values['unit']['relation']})",
            "unit",
        ),
        ("Trust model", values["trust_model"], "trust_model"),
        ("Algorithms and their correctness", accounting, "releases, accounting"),
        ("Randomness", values["randomness"], "randomness"),
        ("Utility and bias", bias, "none"),
        ("Side channels", " ".join(values["side_channels"]), "side_channels"),
        ("Security and access", _owner(told, "measures"), "deployment, measures"),
        ("Further releases", values["composition"]["covers"], "composition"),
        ("Data collection", values["data_collection"], "data_collection"),
    )
    caption = "Topics of NIST SP 800-226, and where the certificate answers them"
    opening = (
        f"For experts, in the words of the certificate. {EXPERTS} Field names the part of the certificate that "
        "holds the answer."
    )
    table = Table("nist-map", caption, ("Topic", "Answer here", "Field"), rows, ("Answer here", "Field"))
    return Section("nist", "Map to NIST SP 800-226", (opening, table))


def _iso(run: Run, told: Mapping[str, str]) -> Section:
    values, unit = run.certificate, unit_from_dict(dict(run.certificate["unit"]))
    public, noun = "; ".join(NOT_PROTECTED[part] for part in unit.public) or "nothing", person_of(values).noun
    rows = (
        ("6.2 Threat modelling", values["adversary"]),
        ("6.3 Transparency and impact", _owner(told, "risks")),
        ("7.2 Data features", f"{told['data_domain']} Counts as public: {public}." if "data_domain" in told
         else _owner(told, "data_domain")),
        ("7.3 Attack modelling", f"Every attack: differential privacy for each {noun}, {size_words(values['claim'])}."),
        ("8.2 Assessing identifiability", _of_tests(run) if run.attacks or run.audit else Blank("No attack was run.")),
        ("8.3 Mitigation", _noise(run)),
        ("9 Roles and responsibilities", _owner(told, "controller")),
        ("9 After data are made available", _owner(told, "review")),
    )  # fmt: skip
    caption = "Clauses of ISO/IEC 27559:2022, and what is known here"
    table = Table("iso-map", caption, ("Clause", "Answer here"), rows, ("Answer here",))
    return Section("iso", "Map to ISO/IEC 27559", (f"For experts. {EXPERTS}", table))


def _check(run: Run, verdict: str) -> Section:
    texts = (
        "Anyone who has the files of the release can check them (answer 12), with this command:",
        Code(f"sfumato verify {run.folder}"),
        f"When this page was written, it said what follows, in the words of experts. {EXPERTS}",
        Items(tuple(verdict.splitlines())),
        "VALID means that the files agree with one another, and that the program's own calculation confirms the limit. It finds "
        "epsilon between two numbers, since it allows for rounding errors on both sides. The claim has to be at least the "
        "smaller one; the larger one may stand above the claim by no more than one part in a thousand. This page rounds "
        "epsilon up.",
    )
    return Section("check", "How to check", texts)


def _sources() -> Section:
    opening = f"What this page says of rules comes from these, looked up on {LOOKED_UP}. Rules change: look again. {NO_ADVICE}"
    return Section("sources", "Rules and guidelines", (opening, Items(tuple(map(str, RULES.values())))))
