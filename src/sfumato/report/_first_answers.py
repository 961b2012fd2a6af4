"""The questions that a reader without knowledge of the field asks first, each answered from one place.

**A new question is one line of** ``QUESTIONS``: what is asked, where the answer comes from, and a function that writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.privacy._unit import INFERRED, OTHER_END
from sfumato.privacy.units import unit_from_dict
from sfumato.record._certificate import promise_words, round_up
from sfumato.record._collected import is_opened
from sfumato.record._deployment import ASKED
from sfumato.record._population import group_price
from sfumato.report._everyday import ASSUMED, LIMITS, OTHERS, READ, SEEN, everyday
from sfumato.report._glossary import glossary
from sfumato.report._intruder import tested
from sfumato.report._page import Blank, Items, Origin, Part, Section, reworded
from sfumato.report._person import COLLECTORS, NOT_PROTECTED, Person, person_of, public_parts
from sfumato.report._public import prices_table
from sfumato.report._scale import drawn, factor, one_in, right_guesses, scale_figure, strength
from sfumato.report._words import capital

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

    @property
    def curated(self) -> bool:
        """Whether the owner held the real data, also where a computer played the devices of people."""
        return "collection" not in self.values

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
        "Sentences come from the certificate of the run, which a program can check, from tests, or from the owner; a small line "
        "below each answer says from where. What nobody has written yet is marked as blank. On this page these words mean:"
    )
    return Section(
        "first",
        "What people ask first",
        (opening, glossary(asked.values, asked.person, asked.told.get("curator")), *sections),
    )


def _who(asked: Asked) -> Iterator[Part]:
    person = asked.person
    yield (
        f"Everybody in the data{', all alike' * (not person.listed)}. Protected is {person.what}. What is hidden is "
        f"{person.question}: answer 5 says how well. The limit holds for each {person.noun}, not on average."
    )
    if person.parts_of_link:
        yield (
            "All else that the data hold of you is not protected: answer 6 lists it. Of many links together less is hidden than "
            "of one: answer 7 says what ten cost."
        )
    if person.listed:
        yield person.listed
    domain = asked.owner("data_domain")
    yield domain if isinstance(domain, Blank) else f"The data, in the words of the owner: {domain}"


def _whom(asked: Asked) -> Iterator[Part]:
    yield (
        "From everyone who sees the release, even from somebody who knows all other data, the program and its settings. The way "
        "in which somebody tries does not matter: the limit holds for every attack on the release, also for one that "
        "nobody has thought of yet."
    )
    if not asked.values["releases"]:
        yield asked.person.own("Your part was not read to make the release, so nobody has to be trusted.")
    elif asked.values["trust_model"] == "trusted curator":
        yield "Not from the owner, who worked with the real data: you have to trust the owner with them."
    elif asked.curated and asked.values["trust_model"].startswith("two servers"):
        yield (
            "Not from the owner: the method is made for devices that split what each person tells between two servers, which "
            "must not work together. Here none took part. The owner held the real data and played their role: you have to trust "
            "the owner with them."
        )
    elif asked.curated:
        yield (
            "Not from the owner: the method is made for devices that change what each person tells at random before they send "
            "it. Here no devices took part. The owner held the real data and played their role: you have to trust the owner with "
            "them."
        )
    else:
        yield f"Also from the owner. {asked.person.own(asked.person.how[-1])}".replace(COLLECTORS, "the owner")


def _shown(asked: Asked, who: str) -> str:
    return "; ".join(SEEN.get(what, what) for what in asked.values["who_may_see"].get(who, ()))


def _leaves(asked: Asked) -> Iterator[Part]:
    anyone, own = _shown(asked, "anyone"), _shown(asked, "the node itself")
    yield f"This leaves the owner, and anyone may see it: {anyone}." if anyone else "Nothing is shown to everyone."
    if own:
        yield f"You alone may see, about yourself: {own}."
    if "node_ids" in unit_from_dict(dict(asked.values["unit"])).public and " person" in anyone:
        yield (
            "What is told for each person stands in rows, one for each. The limit does not depend on hiding whose row is whose: "
            "take it that anyone knows, with or without names."
        )
    yield (
        "The certificate is published too. It says what was done and with which settings, and tells nothing of any one person "
        "but for what counts as public (answer 6). The files can be had from the owner"
        f"{': ' + asked.told['contact'] if 'contact' in asked.told else ''}."
    )
    yield "The tables do not leave." if asked.curated else "The true answers of people do not leave."
    if "recipients" in asked.told:
        yield f"Who is given the release, in the words of the owner: {asked.told['recipients']}"


def _secret(asked: Asked) -> Iterator[Part]:
    never = _shown(asked, "never")
    keeper, kept = (
        ("The owner", ("the real data, but for what counts as public (answer 6)",))
        if asked.curated
        else ("Each device", ("the true answers of its user, and its random numbers",))
    )
    key = ("the key from which the random numbers were made, and these numbers",) if asked.curated else ()
    scores = ("scores and tests that compare the release with the real data, such as those on this page",)
    yield f"{keeper} has to keep these secret, now and later:"
    yield Items(tuple(f"{capital(one)}." for one in (*kept, *filter(None, (never,)), *key, *scores)))
    if "collection" in asked.values and is_opened(asked.values["collection"]):
        yield "Each of the two servers has to keep secret the halves that it got, and its random numbers."
    yield "The limit holds only if this is kept. The program, its settings and the certificate need not be secret."


def _sure(asked: Asked) -> Iterator[Part]:
    claim = asked.values["claim"]
    right = right_guesses(**claim)
    yield (
        f"Somebody wants to know {asked.person.question}, and both answers are equally likely before. With the release, "
        f"at most {right} of 100 such guesses are right; with a coin, 50. This is the limit. Experts write: epsilon is at most "
        f"{round_up(claim['epsilon'])}."
    )
    yield scale_figure(claim, "this release")
    if asked.person.twice:
        yield f"A link that both of you list counts twice: then epsilon is {round_up(2 * claim['epsilon'])}."
    weak = strength(right)
    if weak:
        yield f"{weak} What counts as weak or moderate is a rule of this page (from 90, and from 75 of 100), and not of the law."
    if asked.person.listed:
        yield f"The limit is for your entry alone. {asked.person.listed}"
    yield (
        f"The limit may fail with a probability of at most {one_in(claim['delta'])} (delta). This is counted in the number above."
        if claim["delta"]
        else "There is no exception: delta is 0."
    )
    yield (
        "The numbers are proved, not measured. They hold as long as the assumptions of answer 13 do, and answer 6 says what is "
        "outside of them."
    )


def _uncovered(asked: Asked) -> Iterator[Part]:
    values, person = asked.values, asked.person
    public, said = public_parts(values), (INFERRED, OTHER_END)  # told by OTHERS and by the links that others list
    yield "Not protected, so it remains possible that somebody learns it from the release:"
    yield Items(
        (
            *(f"Counts as public: {NOT_PROTECTED[part]}." for part in public),
            *(
                f"Was read from the data and counts as public: {READ.get(one, one)}."
                for one in values["assumed_public"]
            ),
            *promise_words(values),
            *(person.own(one) for one in person.limits),
            *(LIMITS[one] for one in values["caveats"] if one not in said and one in LIMITS),
            OTHERS,
            *_ASIDE,
        )
    )
    if values.get("prices"):
        yield reworded(prices_table(values), person.own)
    if person.listed:
        yield person.listed
    yield (
        f"About {person.yours} itself it remains possible to guess, and to be right more often than a coin, but not more often "
        "than the limit allows. The limit counts guesses where both answers were equally likely before (answer 5): whoever knows "
        "more before may be right more often."
    )


_ASIDE = (
    "How long the program ran, how much memory and power it used, how large its files are, whether it stopped, its error "
    "messages and its logs. The limit is about what the release says, and not about these.",
    "What comes out if an assumption of answer 13 fails: by an error of the owner, a secret that gets out, or a broken "
    "encryption.",
)
"""What is outside of every limit; the side channels of a certificate say the first in the words of experts."""


def _leave(asked: Asked) -> Iterator[Part]:
    values, person = asked.values, asked.person
    claim, replaced = values["claim"], values["unit"]["relation"] == "replace"
    without = "another one" if replaced else "left out"
    beside = f", apart from a probability of {one_in(claim['delta'])}" if claim["delta"] else ""
    deletion = asked.owner("deletion")
    yield deletion if isinstance(deletion, Blank) else f"What the owner does: {deletion}"
    yield (
        f"If the owner deletes {person.yours} from the data, later releases are made without it. This release stays published, "
        f"and cannot be called back. But no conclusion from it is more than {factor(claim['epsilon'])} times as likely as if "
        f"{person.yours} had been {without}{beside}. For example, what somebody would conclude in 1 of 100 cases if "
        f"{person.yours} had been {without}, they conclude in at most {drawn(claim['epsilon'])} of 100 cases{beside}."
    )
    if person.listed:
        yield (
            f"{person.listed} When only your entry is deleted, these links stay in the entries of the others, and later releases "
            "may still read them: ask the owner to delete them there too."
        )
    each = person.parts_of_link
    if each:
        double = f"A whole link can be two {person.plural}, and counts twice. " * (each > 1)
        yield (
            f"Whoever leaves takes along all their links. {double}The epsilons of all add up"
            f"{', and delta grows too' * bool(claim['delta'])}: for ten links "
            f"epsilon is at most {round_up(10 * each * claim['epsilon'])}. In the words of answer 5, up to "
            f"{right_guesses(*of_many(claim, 10 * each))} of 100 guesses about all ten together can be right."
        )
    yield "Where the data are used by consent: for this release, withdrawing it does the same as being deleted."
    if unit_from_dict(dict(values["unit"])).public:
        yield "What counts as public (answer 6) is outside the limit: the release may show it as it was."
    if "collection" in values and not is_opened(values["collection"]):
        yield "A report of your device can be deleted from the store too (sfumato collect withdraw)."


def of_many(claim: Mapping[str, float], parts: int) -> tuple[float, float]:
    """Return what so many parts cost together, of which delta is at most 1."""
    epsilon, delta = group_price(claim["epsilon"], claim["delta"], parts)
    return epsilon, min(delta, 1.0)


def _responsible(asked: Asked) -> Iterator[Part]:
    told = asked.told
    if "curator" in told:
        yield f"The owner: {told['curator']}. Questions go to: {told['contact']}."
    else:
        yield asked.owner("curator")
        yield asked.owner("contact")
    controller, purpose, necessity = map(asked.owner, ("controller", "intended_use", "necessity"))
    yield (
        controller
        if isinstance(controller, Blank)
        else f"Who answers for the data by law (the controller): {controller}"
    )
    yield purpose if isinstance(purpose, Blank) else f"What the release is for: {purpose}"
    yield necessity if isinstance(necessity, Blank) else f"Why these data are needed: {necessity}"


def _tests(asked: Asked) -> Iterator[Part]:
    yield from tested(asked.run)


def _long(asked: Asked) -> Iterator[Part]:
    yield (
        "The release stays published without end. The limit does not wear off with time, whatever is computed from the release "
        "later: it holds for as long as the assumptions of answer 13 do, and other releases add to it (answer 11)."
    )
    retention, review = asked.owner("retention"), asked.owner("review")
    yield retention if isinstance(retention, Blank) else f"How long the owner keeps the data: {retention}"
    yield review if isinstance(review, Blank) else f"When all of this is looked at again: {review}"


def _later(asked: Asked) -> Iterator[Part]:
    values = asked.values
    yield (
        "Of the release, anything, by anyone and as often as they like: the limit holds for all answers together, and nothing "
        "more comes out, whatever is computed from it."
    )
    yield (
        "Of the data, each further question that is answered, and each further release, reveals a little more: the numbers add "
        "up. Two releases with the same epsilon have twice this epsilon together."
    )
    if "collection" in values:
        yield "Further releases from the reports of this collection reveal nothing more; another collection does."
    if "population" in values:
        found = values["population"]
        part = f", for {asked.person.yours} in one {found['windows']['period']}" if "window" in found else ""
        yield (
            f"This release is counted in the ledger of {found['name']}. Through all releases there, epsilon is at most "
            f"{round_up(found['total_epsilon'])}{part}."
        )
    else:
        yield "Nothing in the certificate limits how many releases follow: that is for the owner to say."
    if values["composition"]["builds_on"]:
        yield "It builds on earlier releases, whose certificates say what they reveal."


def _check(asked: Asked) -> Iterator[Part]:
    yield (
        f"Anyone who has the files of the release, with one command: sfumato verify {asked.run.folder}. It is part of "
        "Sfumato, which is free and open, and shares no code with the part that made the release: it computes the limit again, "
        "and compares the files with one another. It was run before this page was written, and found the files valid."
    )
    yield (
        "Nobody can see from the files that the random numbers were added, that the assumptions of answer 13 hold, or that "
        "nothing else was released: for that one has to ask the owner. No program checks what the owner wrote."
    )
    yield (
        "The files are signed: ask the owner for the public key, which shows who made them."
        if asked.run.signed
        else "The files are not signed, so it is not shown who made them."
    )


def _assumed(asked: Asked) -> Iterator[Part]:
    values = asked.values
    yield "The limit rests on these, which no program can check:"
    yield Items(
        (
            *(ASSUMED.get(text, everyday(text)) for text in values["assumptions"]),
            "Nobody breaks the encryption from which the random numbers come, or learns its key.",
        )
    )
    yield "How the data were collected and stored, and who else can read them, is no part of the limit."


QUESTIONS: tuple[tuple[str, str, Callable[[Asked], Iterator[Part]]], ...] = (
    ("Who is protected, and what about them?", "certificate, unit and protects; owner, data_domain", _who),
    ("From whom?", "certificate, adversary and trust_model", _whom),
    ("What leaves?", "certificate, who_may_see; owner, recipients", _leaves),
    ("What must be kept secret?", "certificate, who_may_see and assumptions", _secret),
    ("How sure is the protection?", "certificate, claim", _sure),
    ("What is not protected, and what remains possible?", "certificate, unit, assumed_public and caveats", _uncovered),
    ("What happens if I leave?", "certificate, claim and unit; owner, deletion", _leave),
    ("Who is responsible, and what is it for?", "owner, curator, contact, controller, intended_use and necessity", _responsible),
    ("How was it tested?", "results of sfumato attack and sfumato audit", _tests),
    ("For how long?", "certificate, claim and assumptions; owner, retention and review", _long),
    ("What may be asked or published again?", "certificate, composition and population", _later),
    ("Who can check this, and how?", "verifier; signature", _check),
    ("On what assumptions does it rest?", "certificate, assumptions, adversary and data_collection", _assumed),
)  # fmt: skip
