"""The page for people whose data may have been used: what a run can reveal about one person, in everyday words.

It holds what the certificate says and nothing else, so it may leave with the release: no score, no graph, no prediction.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sfumato.catalog import GRAPH_CARDS
from sfumato.privacy.units import unit_to_dict
from sfumato.record._certificate import promise_words, round_up
from sfumato.report._everyday import LIMITS, OTHERS, READ, SEEN
from sfumato.report._html import to_html
from sfumato.report._page import Code, Facts, Items, Page, Part, Section, Table, reworded
from sfumato.report._person import NOT_PROTECTED, Person, person_of, public_parts
from sfumato.report._scale import belief_after, factor, one_in, right_guesses, scale_figure, scale_rows

if TYPE_CHECKING:
    from sfumato.privacy.units import Unit
    from sfumato.report._run import Run

_LEAD = (
    "This page is for people whose data may have been used. It explains, without mathematics, what the published model can "
    "reveal about one of them, and what it cannot hide."
)
_ABOUT = {
    "product": "Name",
    "curator": "Published by",
    "publication_date": "Published on",
    "description": "What it is",
    "intended_use": "What it is for",
    "data_domain": "Learned from",
    "region": "Region",
    "implementation": "How it was made",
    "contact": "Questions to",
}
_WHY = {"epsilon_rationale": "Why this epsilon", "delta_rationale": "Why this delta"}
_CLOSING = "This page holds nothing but what the certificate of the model says. It may be shown to anyone."
_BEFORE = (
    "This page explains, without mathematics, what somebody could learn of one person from a model that is made with these two "
    "numbers, epsilon and delta. It reads no data: the numbers can be chosen before there is any."
)
_NO_MODEL = "This page is about two numbers and no model. It holds no data, and may be shown to anyone."
_ADD_UP = (
    "Other things that are published about the same data. Each of them reveals a little more, and the numbers add up."
)
_BAR = 24  # characters of a bar, from 50 to 100
_UNSIGNED = (
    "The files carry no signature. So the check shows that they agree with each other, but not who made them: take them from "
    "a place that you trust."
)
_SIGNED = "The files are signed. Ask the publisher for the public key: with it the check also shows who signed them."


def public_page(run: Run) -> str:
    """Return an HTML page about a run for people whose data may have been used.

    Raises:
        InputError: the run has no privacy.
    """
    values = run.claimed()
    person, record, counts = person_of(values), values.get("deployment"), values["method"] in GRAPH_CARDS
    noun = "release" if counts else "model"
    said = (
        _protected(person, _public(values), noise=bool(values["releases"])),
        _epsilon(values, person, f"this {noun}"),
        _delta(values["claim"]["delta"]),
        _deletion(values),
        _uncovered(values, person),
        _seen(values),
    )
    name = record["product"] if record else f"This {noun}"
    page = Page(f"{name}: what it can reveal about one person", _LEAD, said, _CLOSING)
    page = replace(reworded(page, _of_counts), title=page.title) if counts else page
    sections = (_about(record, noun), *page.sections, _check(run, record, noun))  # both hold words of the publisher
    return to_html(replace(page, sections=sections))


def explained_page(claim: Mapping[str, float], unit: Unit, *, directed: bool = False) -> str:
    """Return an HTML page about what an epsilon and a delta mean for one person, before there is any model or data.

    Args:
        claim: ``epsilon`` and ``delta``, which a model would have.
        unit: what would be protected.
        directed: whether the graph is declared directed.
    """
    values = asked(claim, unit, directed=directed)
    person = person_of(values)
    what = f"The protection is for {person.what}. The rest of this page calls it “your part”. No model is made yet."
    sections = (
        Section("protected", "What would be protected", (what,)),
        _epsilon(values, person, "a model"),
        _delta(claim["delta"]),
        Section("uncovered", "What is not covered", (Items((*person.limits, OTHERS, _ADD_UP)),), kind="warning"),
    )
    return to_html(
        Page(f"What epsilon {round_up(claim['epsilon'])} means for one person", _BEFORE, sections, _NO_MODEL)
    )


def explained(claim: Mapping[str, float], unit: Unit, *, directed: bool = False) -> list[str]:
    """Return the same in lines of plain text, with the chart of guesses.

    ``claim``, ``unit`` and ``directed`` are those of :func:`explained_page`.

    >>> from sfumato.privacy.units import EdgeLevel
    >>> [line.split() for line in explained({"epsilon": 1.0, "delta": 0.0}, EdgeLevel(directed=False)) if line.startswith(">")]
    [['>', 'a', 'model,', 'epsilon', '1', '###########', '73.2']]
    """
    values = asked(claim, unit, directed=directed)
    person = person_of(values)
    lines = [f"Protected: {person.what}."]
    for section in (_epsilon(values, person, "a model"), _delta(claim["delta"])):
        lines += ["", section.title, *(part for part in section.parts if isinstance(part, str))]
    lines += ["", "How often a guess can be right, of 100 (50: a coin); other epsilons at delta 0"]
    for name, right, mine in scale_rows(claim, "a model"):
        bar = "#" * round(_BAR * (float(right) - 50) / 50)
        lines.append(f"{'>' if mine else ' '} {name:22}{bar:{_BAR}}{right:>6}")
    return [*lines, "", "Not covered: " + " ".join((*person.limits, OTHERS, _ADD_UP))]


def asked(claim: Mapping[str, float], unit: Unit, *, directed: bool) -> dict[str, Any]:
    """Return what a certificate would say of a ``claim`` about a ``unit``, as far as pages for people read it."""
    return {"claim": dict(claim), "unit": unit_to_dict(unit), "public_facts": {"directed": directed}}


def _about(record: Mapping[str, str] | None, noun: str) -> Section:
    if record is None:
        text = f"The publisher left no words on who they are, what the {noun} is for, and whom to ask. Ask where you found it."
        return Section("about", "What was published", (text,))
    lines, reasons = (
        Facts(tuple((title, record[name]) for name, title in titles.items() if name in record))
        for titles in (_ABOUT, _WHY)
    )
    why = Section("why", "Why the publisher chose these numbers", ("The sections below explain the numbers.", reasons))
    text = f"“The publisher” is {record['curator']}. The lines below are the publisher's. No program has checked what they say."
    return Section("about", "What was published", (text, lines, why))


def _protected(person: Person, public: str, *, noise: bool) -> Section:
    texts = (
        f"The protection is for {person.what}. The rest of this page calls it “your part”. “The model” stands for all files that "
        "were published together.",
        *(person.how if noise else ("The model was made without reading your part.",)),
        f"Not protected, because the publisher takes it for known already: {public}.",
        "If the data is not about people, read “person” as one of the things that it is about.",
    )
    return Section("protected", "What is protected", texts)


def _epsilon(values: Mapping[str, Any], person: Person, name: str = "this model") -> Section:
    claim = values["claim"]
    epsilon, right = claim["epsilon"], right_guesses(**claim)
    texts: list[Part] = [
        f"How much the published model can reveal about your part is limited by a number, which is called epsilon. Here epsilon "
        f"is at most {round_up(epsilon)}. A smaller number protects better. At 0, the model would be the same whatever your "
        "part is.",
    ]
    if epsilon == 0:
        texts[0] = (
            "A number called epsilon limits how much the published model can reveal about your part. Here it is 0: the model "
            "does not depend on your part at all."
        )
    texts += [
        f"An example. Somebody wants to know {person.question}. They know everything else in the data. Without the model they "
        "can only toss a coin, and are right in 50 of 100 such cases. With the model, and however hard they try, they are "
        f"right in at most {right} of 100 such cases.",
        f"Another example. Somebody believes that {person.belief} with a chance of 1 in 100. Once they have studied the model, "
        f"they can believe it with a chance of at most {belief_after(epsilon, 1)} in 100. In the words of betting: odds grow at "
        f"most {factor(epsilon)} times." + " The next section names an exception." * (claim["delta"] > 0),
    ]
    if float(right) > 99.9:
        texts.append("At this size, the number by itself promises you almost nothing.")
    texts += [
        "These are limits for the worst case. They hold for everybody in the data, and against every attack, also one that "
        "nobody has thought of yet. The picture shows the same limit for other values of epsilon.",
        scale_figure(claim, name),
    ]
    if person.twice:
        twice = right_guesses(2 * epsilon, 0.0)  # delta is 0 under unit link
        texts.append(
            f"If you both list each other, the link is there twice and counts twice. Then epsilon is {round_up(2 * epsilon)}, "
            f"and a guess is right in at most {twice} of 100 cases."
        )
    return Section("epsilon", "What the number epsilon means", tuple(texts))


def _delta(delta: float) -> Section:
    if delta == 0:
        texts: tuple[Part, ...] = ("Here delta is 0: the limit above has no exception.",)
    else:
        texts = (
            f"The limit above may fail. The probability of that is called delta. Here it is at most {one_in(delta)} (written "
            f"{delta:g}). If the limit fails, nothing bounds what the model reveals about your part: at worst, all of it.",
            "In exact words: delta is added to the probability of anything that somebody could see. The number of right guesses "
            "above already contains it.",
        )
    return Section("delta", "What the number delta means", texts)


def _deletion(values: Mapping[str, Any]) -> Section:
    epsilon, delta = values["claim"]["epsilon"], values["claim"]["delta"]
    beside = f", apart from the probability delta ({one_in(delta)})" if delta else ""
    without = "another one" if values["unit"]["relation"] == "replace" else "left out"
    texts: list[Part] = [
        "You may ask the publisher to delete your data. In the European Union, Article 17 of the General Data Protection "
        "Regulation gives you this right in many cases. The publisher can then remove your part from the data, and make later "
        "models without it.",
        "A model that is published cannot be called back from everyone who has it. But it was made so that your part hardly "
        f"matters: no conclusion from it is more than {factor(epsilon)} times as likely as it would be if your part had been "
        f"{without}{beside}. If k people leave together, the limit for all of them is k times epsilon: {round_up(2 * epsilon)} "
        "for two.",
        "Whether this is enough for the law is not a question that this page can answer.",
    ]
    if "population" in values:
        found = values["population"]
        total = round_up(found["total_epsilon"])
        of = ""
        if "window" in found:
            period = found["windows"]["period"]
            of = f" for one link in one {period} (for a link that is there in ten of them, ten times that)"
        texts.insert(
            2,
            f"This model is one of several about {found['name']}, made one after another. Through all of them, the limit is "
            f"epsilon {total}{of}. Models that were made before you joined, or are made after you have left, tell nothing of "
            "your part.",
        )
    return Section("deletion", "If you want your data to be deleted", tuple(texts))


def _public(values: Mapping[str, Any]) -> str:
    return "; ".join(NOT_PROTECTED[part] for part in public_parts(values))


def _of_counts(text: str) -> str:
    """Speak of a release of counts, where other runs release a model."""
    return re.sub(r"\b([Mm])odel(s?)\b", lambda word: ("Release" if word[1] == "M" else "release") + word[2], text)


def _uncovered(values: Mapping[str, Any], person: Person) -> Section:
    items = [
        f"What counts as public: {_public(values)}.",
        *person.limits,
        OTHERS,
        *(LIMITS[text] for text in values["caveats"] if LIMITS.get(text, OTHERS) != OTHERS),
        _ADD_UP,
        "How the data was collected and stored, and who else can read it.",
        "How long the computer worked, and which error messages it showed.",
        *promise_words(values),
        *_read(values["assumed_public"]),
        *["Earlier models, on which this one builds. Their own certificates say what they reveal."]
        * bool(values["composition"]["builds_on"]),
        *[
            "The random numbers follow from a secret key. The protection ends if somebody learns the key, or breaks the "
            "encryption that makes them."
        ]
        * bool(values["releases"]),
    ]
    parts: list[Part] = [Items(tuple(items))]
    if values.get("prices"):
        parts.append(prices_table(values))
    expert = tuple(text for text in values["caveats"] if text not in LIMITS)
    if expert:
        words = "The certificate adds these sentences, which are written for experts:"
        parts.append(Section("limits", "In the words of the certificate", (words, Items(expert))))
    return Section("uncovered", "What is not covered", tuple(parts), kind="warning")


def _read(assumed: list[str]) -> list[str]:
    told = "; ".join(READ.get(fact, fact) for fact in assumed)
    return [f"Some facts that were read from the data and count as public: {told}."] if assumed else []


def prices_table(values: Mapping[str, Any]) -> Table:
    """Return what a record costs together with links that others own, from a certificate with such prices."""
    rows = []
    for one in values["prices"]:
        known = one["epsilon"] is not None
        right = right_guesses(one["epsilon"], values["claim"]["delta"]) if known else "100"
        rows.append((str(one["arcs"]), round_up(one["epsilon"]) if known else "no limit known", right))
    caption = "Your part together with so many links from others to you: the most that is revealed"
    return Table("prices", caption, ("Links", "Epsilon", "Right guesses of 100"), tuple(rows))


def _seen(values: Mapping[str, Any]) -> Section:
    shown, titles = (
        values["who_may_see"],
        {"anyone": "Anyone", "the node itself": "You alone, about yourself", "never": "Nobody"},
    )
    rows = tuple((titles[who], "; ".join(SEEN.get(what, what) for what in shown[who])) for who in titles if shown[who])
    text = "The certificate says the same in the words of experts. The guarantee holds only if the publisher keeps to this list."
    return Section(
        "seen",
        "Who may see what",
        (text, Table("who", "Who may see what", ("Who", "What"), rows, text=("What",))),
    )


def _check(run: Run, record: Mapping[str, str] | None, noun: str) -> Section:
    ask = f"Questions about this {noun} go to: {record['contact']}" if record else "The publisher named nobody to ask."
    texts = (
        ask,
        f"Anyone who has the files of the {noun} can check the numbers on this page. The program Sfumato does it with this "
        "command, where DIR is the folder with the files:",
        Code("sfumato verify DIR"),
        "It computes the numbers again from the description of what was done. It cannot see whether the publisher did "
        "what the description says.",
        _SIGNED if run.signed else _UNSIGNED,
    )
    return Section("check", "Whom to ask, and how to check", texts)
