"""The twelve questions that a reader without knowledge of the field asks first, each answered from one place.

**A new question is one line of** ``QUESTIONS``: what is asked, where the answer comes from, and a function that writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.privacy.units import unit_from_dict
from sfumato.record._certificate import promise_words, round_up
from sfumato.record._deployment import ASKED
from sfumato.record._population import group_price
from sfumato.report._everyday import OTHERS, READ, SEEN
from sfumato.report._intruder import tested
from sfumato.report._page import Blank, Items, Origin, Part, Section
from sfumato.report._person import NOT_PROTECTED, Person, person_of, public_parts
from sfumato.report._public import prices_table
from sfumato.report._scale import factor, one_in, right_guesses, scale_figure

if TYPE_CHECKING:
    from sfumato.report._run import Run


@dataclass(frozen=True)
class Asked:
    """What answers are written from: the run, what its owner wrote, and what the unit means for one person."""

    run: Run
    told: Mapping[str, str]
    person: Person

    @property
    def values(self) -> Mapping[str, Any]:
        return self.run.certificate

    def owner(self, name: str) -> str:
        """Return what the owner wrote in a field; a blank, if it is empty."""
        return self.told.get(name) or Blank(f"The owner writes here {ASKED[name]} (field {name}).")


def first_answers(run: Run, told: Mapping[str, str]) -> Section:
    """Return the section with all questions and their answers."""
    asked = Asked(run, told, person_of(run.certificate))
    sections = tuple(
        Section(f"question-{number}", f"{number}. {question}", (*write(asked), Origin(f"From: {origin}.")))
        for number, (question, origin, write) in enumerate(QUESTIONS, 1)
    )
    opening = (
        "“You” is any one person in the data, and “your part” is what answer 1 says. Sentences come from the certificate of the "
        "run, which a program can check, from tests, or from the owner; a small line says from where. What nobody has "
        "written yet is marked as blank."
    )
    return Section("first", "Twelve questions, answered first", (opening, *sections))


def _who(asked: Asked) -> Iterator[Part]:
    yield f"Everybody in the data alike. Protected is {asked.person.what}. The limits hold for each, not on average."
    if asked.person.parts_of_link:
        yield "That is not all that the data hold of you: answer 7 says what is not protected, answer 8 what ten links cost."
    domain = asked.owner("data_domain")
    yield domain if isinstance(domain, Blank) else f"The data, in the words of the owner: {domain}"


def _whom(asked: Asked) -> Iterator[Part]:
    yield (
        "From everyone who reads what was published, even from somebody who knows all other data, the program and its settings. "
        "It is assumed that nobody breaks the encryption which makes the random numbers, or learns its key, and that the "
        "conditions further down hold."
    )
    yield (
        asked.person.how[-1]
        if asked.values["releases"]
        else "Your part was not read to make this, so nobody has to be trusted."
    )


def _what(asked: Asked) -> Iterator[Part]:
    yield (
        f"Against finding out {asked.person.question}, from what was published. The way in which somebody tries does not matter: "
        "the limit holds for every attack, also for one that nobody has thought of yet."
    )


def _shown(asked: Asked, who: str) -> str:
    return "; ".join(SEEN.get(what, what) for what in asked.values["who_may_see"].get(who, ()))


def _leaves(asked: Asked) -> Iterator[Part]:
    anyone, own = _shown(asked, "anyone"), _shown(asked, "the node itself")
    yield f"Anyone may see: {anyone}." if anyone else "Nothing is shown to everyone."
    if own:
        yield f"You alone may see, about yourself: {own}."


def _never(asked: Asked) -> Iterator[Part]:
    never = _shown(asked, "never")
    yield f"Nobody may see: {never}." if never else "The data themselves, which are no part of what was published."
    yield "The limits hold only if the owner keeps to this."


def _sure(asked: Asked) -> Iterator[Part]:
    claim = asked.values["claim"]
    right = right_guesses(**claim)
    yield (
        f"Somebody wants to know {asked.person.question}, and both answers are equally likely before. With what was published, "
        f"at most {right} of 100 such guesses are right; with a coin, 50. Experts write: epsilon is at most "
        f"{round_up(claim['epsilon'])}."
    )
    yield scale_figure(claim, "this release")
    if asked.person.twice:
        yield f"A link that both of you list counts twice: then epsilon is {round_up(2 * claim['epsilon'])}."
    if float(right) > 99.9:
        yield "At this size, the number by itself promises almost nothing."
    yield (
        f"The limit may fail with a probability of at most {one_in(claim['delta'])} (delta). This is counted in the number above."
        if claim["delta"]
        else "There is no exception: delta is 0."
    )
    yield (
        "The numbers are proved, not measured. Before this page was written, a separate program computed them again and found "
        f"the files valid. The files are {'signed' if asked.run.signed else 'not signed, so it is not shown who made them'}."
    )


def _uncovered(asked: Asked) -> Iterator[Part]:
    values = asked.values
    public = public_parts(values)
    yield Items(
        (
            *(f"Counts as public: {NOT_PROTECTED[part]}." for part in public),
            *(
                f"Was read from the data and counts as public: {READ.get(one, one)}."
                for one in values["assumed_public"]
            ),
            *promise_words(values),
            *asked.person.limits,
            OTHERS,
        )
    )
    if values.get("prices"):
        yield prices_table(values)


def _leave(asked: Asked) -> Iterator[Part]:
    values = asked.values
    claim, replaced = values["claim"], values["unit"]["relation"] == "replace"
    without = "another one" if replaced else "left out"
    beside = f", apart from a probability of {one_in(claim['delta'])}" if claim["delta"] else ""
    yield (
        "If the owner deletes your part from the data, later releases are made without it. What was published stays, and cannot "
        f"be called back. But no conclusion from it is more than {factor(claim['epsilon'])} times as likely as if your part had "
        f"been {without}{beside}."
    )
    each = asked.person.parts_of_link
    if each:
        double = "A whole link can be two such parts, and counts twice. " * (each > 1)
        yield (
            f"Whoever leaves takes along all their links. {double}The epsilons of all parts add up"
            f"{', and delta grows too' * bool(claim['delta'])}: for ten links "
            f"epsilon is at most {round_up(10 * each * claim['epsilon'])}. In the words of answer 6, up to "
            f"{right_guesses(*_of_ten(claim, 10 * each))} of 100 guesses about all ten together can be right."
        )
    if unit_from_dict(dict(values["unit"])).public:
        yield "What counts as public (answer 7) is outside this limit: what was published may show it as it was."
    if "collection" in values:
        yield "A report of your device can be deleted from the store too (sfumato collect withdraw)."
    deletion = asked.owner("deletion")
    yield deletion if isinstance(deletion, Blank) else f"What the owner does: {deletion}"


def _of_ten(claim: Mapping[str, float], parts: int) -> tuple[float, float]:
    """Return what so many parts cost together, of which delta is at most 1."""
    epsilon, delta = group_price(claim["epsilon"], claim["delta"], parts)
    return epsilon, min(delta, 1.0)


def _responsible(asked: Asked) -> Iterator[Part]:
    told = asked.told
    if "curator" in told:
        yield f"Published by {told['curator']}. Questions go to: {told['contact']}."
    else:
        yield asked.owner("curator")
        yield asked.owner("contact")
    controller = asked.owner("controller")
    yield controller if isinstance(controller, Blank) else f"Controller of the data: {controller}"


def _purpose(asked: Asked) -> Iterator[Part]:
    yield asked.owner("intended_use")
    necessity = asked.owner("necessity")
    yield necessity if isinstance(necessity, Blank) else f"Why these data are needed: {necessity}"


def _tests(asked: Asked) -> Iterator[Part]:
    yield from tested(asked.run)


def _later(asked: Asked) -> Iterator[Part]:
    values = asked.values
    yield (
        "Yes, by other releases: each thing that is published about the same data reveals a little more, and the numbers add up. "
        "From this release alone nothing more comes out, whatever is computed from it."
    )
    if "population" in values:
        found = values["population"]
        part = f", for your part in one {found['windows']['period']}" if "window" in found else ""
        yield (
            f"This release is counted in the ledger of {found['name']}. Through all releases there, epsilon is at most "
            f"{round_up(found['total_epsilon'])}{part}."
        )
    if values["composition"]["builds_on"]:
        yield "It builds on earlier releases, whose certificates say what they reveal."


QUESTIONS: tuple[tuple[str, str, Callable[[Asked], Iterator[Part]]], ...] = (
    ("Who is protected?", "certificate, unit and protects; owner, data_domain", _who),
    ("From whom?", "certificate, adversary and trust_model", _whom),
    ("Against what?", "certificate, unit", _what),
    ("What leaves?", "certificate, who_may_see", _leaves),
    ("What never leaves?", "certificate, who_may_see", _never),
    ("How sure is that?", "certificate, claim; verifier", _sure),
    ("What is not protected?", "certificate, unit, assumed_public and caveats", _uncovered),
    ("What happens if I leave?", "certificate, claim and unit; owner, deletion", _leave),
    ("Who is responsible?", "owner, curator, contact and controller", _responsible),
    ("What is it for?", "owner, intended_use and necessity", _purpose),
    ("How was it tested?", "results of sfumato attack and sfumato audit", _tests),
    ("Can more come out later?", "certificate, composition and population", _later),
)
