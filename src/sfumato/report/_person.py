"""What each privacy unit means for one person, in everyday words. **A new unit is one entry of** ``_PEOPLE``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.catalog import GRAPH_CARDS
from sfumato.privacy.units import unit_from_dict

if TYPE_CHECKING:
    from sfumato.privacy.units import Unit

NOT_PROTECTED = {
    "node_ids": "who is in the data",
    "roles": "which people the model learned from, and which were kept back to test it",
    "features": "the properties of each person in the data",
    "labels": "the group that each person belongs to",
    "arcs": "who is linked to whom",
    "owners": "which entries belong to the same person",
}
"""What each public part of the data is, for one person."""


def public_parts(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the public parts of the data that a run reads; counts have no training nodes."""
    left = ("roles",) if values.get("method") in GRAPH_CARDS else ()
    return tuple(part for part in unit_from_dict(dict(values["unit"])).public if part not in left)


_CURATOR = (
    "Random numbers were added on purpose while the model was made. How well they hide your part, the next section says.",
    "Those who made the release worked with the real data. You have to trust them with it. The protection is against everyone "
    "else.",
)
COLLECTORS = "those who collect the reports"
_DEVICES = (
    f"Your own device changes your part at random before it sends anything. So nobody can be sure of it, not even {COLLECTORS}.",
)
_SIMULATED = (
    "The method is made for devices that change each person's part at random before they send it. Here no devices took part: "
    "a computer that held the real data played their role. Those who ran it saw that data, and you have to trust them with it.",
)
_OF_SERVERS = (
    "Each half alone says nothing. Each server adds random numbers to what it counts, and only both counts together can be read. "
    "You have to trust that the two servers do not work together: with both halves they would know what you told."
)
_TO_SERVERS = (f"Your own device splits what you tell between two servers. {_OF_SERVERS}",)
_BETWEEN_SERVERS = (
    f"The method is made for devices that split what each person tells between two servers. {_OF_SERVERS}",
    "Here no devices and servers took part: a computer that held the real data played their role. Those who ran it saw that "
    "data, and you have to trust them with it.",
)
_SEVERAL = (
    "All of your links together. The limit is for one link. For two of your links together epsilon counts twice, for ten "
    "of them ten times, and a delta above 0 grows too."
)
_TWO_ENTRIES = "A person who is in the data several times, for example with two accounts. Epsilon counts for each time."

_TWO_NAMES = (
    "A person whom the data take for two people, for example under two customer numbers. Epsilon counts for each."
)


@dataclass(frozen=True)
class Person:
    """A unit as one person meets it.

    ``question`` is what somebody may want to know, after "wants to know", and ``belief`` the same, after "believes that".
    ``how`` says how it is protected, and whom one has to trust; ``twice`` whether two people may report the same thing.
    ``parts_of_link`` is how many protected parts one link is at most, or 0 if the part is more than a link. ``listed``
    says what is not hidden with the part because it stands in the entries of others. ``noun``, ``plural`` and ``yours`` name
    the protected part.
    """

    what: str
    question: str
    belief: str
    how: tuple[str, ...] = _CURATOR
    limits: tuple[str, ...] = ()
    twice: bool = False
    parts_of_link: int = 0
    listed: str = ""
    noun: str = "entry"
    plural: str = "entries"
    yours: str = "your entry"

    def own(self, text: str) -> str:
        """Return a text with the protected part called by its name.

        >>> Person("one link", "whether you are linked", "you are linked", yours="a link of yours").own("Is your part safe?")
        'Is a link of yours safe?'
        """
        return text.replace("your part", self.yours).replace("Your part", self.yours[:1].upper() + self.yours[1:])


def person_of(certificate: Mapping[str, Any]) -> Person:
    """Return what the unit of a certificate means for one person."""
    return _PEOPLE[certificate["unit"]["name"]](certificate)


def _asked(unit: Mapping[str, Any], entry: str, there: str, absent: str) -> tuple[str, str]:
    """What somebody may want to know of an entry, and what they may believe of it, by the unit's relation."""
    if unit["relation"] == "replace":
        return f"whether {entry} is the real one or another one", f"{entry} is the real one and not a certain other one"
    return f"whether {entry} {there} {absent}", f"{entry} {there}"


def _weighed(certificate: Mapping[str, Any]) -> bool:
    return "max_weight" in certificate.get("public_facts", {})


def _edge(certificate: Mapping[str, Any]) -> Person:
    if certificate["unit"]["directed"] and not certificate["public_facts"]["directed"]:
        what = (
            "one half of a link between you and one other person: that the link leads from you to them, or from them to you. "
            "Links here always go both ways, so whoever knows one half knows the other, and the limits below do not hold for "
            "the link as a whole"
        )
        return Person(
            what,
            "whether one half of a link is in the data",
            "the half of the link is in the data",
            limits=(_SEVERAL,),
            parts_of_link=2,
            noun="half of a link",
            plural="halves of links",
            yours="half of a link of yours",
        )
    if certificate["unit"]["directed"]:
        what = "one link from you to one other person, or from them to you, for example that you follow them"
        return Person(
            what,
            "whether a certain link is in the data",
            "the link is in the data",
            limits=(_SEVERAL,),
            parts_of_link=1,
            noun="link",
            plural="links",
            yours="a link of yours",
        )
    what = "one link between you and one other person, for example that you are friends"
    what += ", and how much it counts (its weight, such as how often you met)" * _weighed(certificate)
    asked, belief, limits = "whether you two are linked", "you two are linked", [_SEVERAL]
    facts = certificate.get("public_facts", {})
    if "edge_types" in facts:
        public = facts.get("public_types", ())
        what += f", of one kind (kinds of links here: {', '.join(facts['edge_types'])})"
        asked, belief = "whether a link of one kind joins you two", "a link of this kind joins you two"
        limits += [f"Links of these kinds, which are public: {', '.join(public)}."] if public else []
    return Person(
        what, asked, belief, limits=tuple(limits), parts_of_link=1, noun="link", plural="links", yours="a link of yours"
    )


def _owner(certificate: Mapping[str, Any]) -> Person:
    unit = certificate["unit"]
    what = (
        "all links in the data that stand under your name, together, for example all your calls or visits. At most "
        f"{unit['edges']} of them are used, and the others are left out"
    )
    what += ". What each counts (its weight) is protected too" * _weighed(certificate)
    others = (
        "Links that stand under the name of somebody else, even if they tell of you: the other side of a call that both report, "
        "for example. What the data say of you beside links is not protected either."
    )
    return Person(
        what,
        "whether any links stand under your name",
        "certain links stand under your name",
        limits=(others, _TWO_ENTRIES),
        noun="person's links",
        plural="links of whole persons",
        yours="your links",
    )


def _accounts(certificate: Mapping[str, Any]) -> Person:
    unit = certificate["unit"]
    what = (
        "all entries in the data that belong to you, together, for example all your accounts: their properties, their groups, "
        f"and the links that start at them. At most {unit['nodes']} of them are used, and the others are left out"
    )
    others = "Links that start at other people and lead to you. They belong to the entries of those people."
    return Person(
        what,
        "whether your entries in the data hold your data or are empty",
        "your entries in the data hold your data",
        limits=(others, _TWO_NAMES),
        noun="person's entries",
        plural="entries of whole persons",
        yours="your entries",
    )


def _node(certificate: Mapping[str, Any]) -> Person:
    unit = certificate["unit"]
    asked = _asked(unit, "your entry in the data", "holds your data", "or is empty")
    if unit["arcs"] == "incident":
        what = "your whole entry in the data: your properties, your group, and every link to you or from you"
        return Person(what, *asked, limits=(_TWO_ENTRIES,))
    most = unit["max_out_degree"]
    links = f"at most {most} of the links that start at you" if most else "the links that start at you"
    links += ", with their weights" * _weighed(certificate)
    if kinds := certificate.get("public_facts", {}).get("edge_types"):
        links += f", of all kinds ({', '.join(kinds)})"
    what = f"your whole entry in the data: your properties, your group, and {links}"
    others = (
        "Links that start at other people and lead to you. They belong to the entries of those people. "
        + ("The table below says what your part and such links reveal together." if certificate.get("prices") else "")
    ).rstrip()
    return Person(what, *asked, limits=(others, _TWO_ENTRIES), listed=_listed(certificate))


def _listed(certificate: Mapping[str, Any]) -> str:
    """Say what a protected entry without the links of others leaves open, and for whom that counts."""
    both = not certificate["public_facts"]["directed"]
    priced = bool(certificate.get("prices"))
    return (
        "A link that another person lists to you belongs to the entry of that person, and is not hidden with your entry. "
        + "Links here always go both ways, so each link of yours is such a link too. " * both
        + ("The table in answer 6 says what your entry and such links reveal together" if priced
           else "The certificate states no limit for your entry and such links together")
        + (f": its first row applies to {'nearly everyone' if both else 'whoever is listed by one person'}, and its later "
           f"rows to those with more {'links' if both else 'people who list them'}." if priced else ".")
    )  # fmt: skip


def _record(certificate: Mapping[str, Any]) -> Person:
    asked = _asked(certificate["unit"], "your entry in the data", "was used", "or left out")
    return Person("your whole entry in the data", *asked, limits=(_TWO_ENTRIES,))


def _class(certificate: Mapping[str, Any]) -> Person:
    what = (
        "everything that the data holds of one group, however much it is; where each group is one person, all about you"
    )
    return Person(what, *_held(certificate["unit"], "one group"), noun="group", plural="groups", yours="your group")


def _cell(certificate: Mapping[str, Any]) -> Person:
    what = "everything that the data holds of one small part of a group, for example all pictures that look much alike"
    if certificate["unit"]["partition"] == "declared":
        what = "everything that the data holds of one part that was defined before the run, for example of one person"
    asked = _held(certificate["unit"], "one such part")
    return Person(
        what, *asked, noun="part of a group", plural="parts of groups", yours="the part of a group that you are in"
    )


def _held(unit: Mapping[str, Any], whole: str) -> tuple[str, str]:
    """What somebody may want to know of many entries at once, and what they may believe of them."""
    if unit["relation"] == "replace":
        return (
            f"which of two lists of entries {whole} has",
            f"{whole} has a certain list of entries and not another one",
        )
    return f"whether {whole} has any entries", f"{whole} has entries"


def _local(certificate: Mapping[str, Any]) -> Person:
    unit = certificate["unit"]
    told = " and ".join(
        word for word, kept in (("your properties", unit["features"]), ("your group", unit["labels"])) if kept
    )
    how = _DEVICES if "collection" in certificate else _SIMULATED
    asked = f"which of two possible answers about {told} is the true one", f"one certain answer about {told} is true"
    what = f"{told}, as you told or would tell them"
    return Person(what, *asked, how=how, limits=(_TWO_ENTRIES,), noun="report", plural="reports", yours="your report")


def _shared(certificate: Mapping[str, Any]) -> Person:
    how = _TO_SERVERS if "collection" in certificate else _BETWEEN_SERVERS
    told = "your group, as you told or would tell it"
    asked = (
        "which of two possible answers about your group is the true one",
        "one certain answer about your group is true",
    )
    return Person(told, *asked, how=how, limits=(_TWO_ENTRIES,), noun="report", plural="reports", yours="your report")


def _link(certificate: Mapping[str, Any]) -> Person:
    how = _DEVICES if "collection" in certificate else _SIMULATED
    what = "one entry in your list of links: whether one certain person is in it"
    belief = "one certain person is in your list"
    return Person(
        what,
        "whether one certain person is in your list",
        belief,
        how=how,
        limits=(_SEVERAL,),
        twice=True,
        parts_of_link=2,
        noun="entry in a list",
        plural="entries in lists",
        yours="an entry in your list",
    )


def num_records(unit: Unit, facts: Mapping[str, Any]) -> int | None:
    """Return how many records there are under a unit, if that is public: nodes, users, persons or cells; else None."""
    if "num_persons" in facts:
        return int(facts["num_persons"])
    if unit.name in ("node", "local", "servers"):
        return int(facts["num_nodes"])
    return unit.num_cells(facts["num_classes"])


_PEOPLE: Mapping[str, Callable[[Mapping[str, Any]], Person]] = {
    "edge": _edge,
    "person": _owner,
    "node": _node,
    "person-nodes": _accounts,
    "record": _record,
    "class": _class,
    "subclass": _cell,
    "local": _local,
    "link": _link,
    "servers": _shared,
}
