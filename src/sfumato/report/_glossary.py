"""The words of the page for data protection officers, one for each thing.

**A new word is one pair here.**
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sfumato.catalog import GRAPH_CARDS, METHODS
from sfumato.report._page import Facts
from sfumato.report._words import capital

if TYPE_CHECKING:
    from sfumato.report._person import Person

EXPERTS = (
    "Here a node is a person, an edge a link, an arc a link in one direction, a label or class a group, and a feature a "
    "property."
)
"""What the words of experts mean, for the parts of the page that repeat a certificate or a verdict."""
_MODEL = (("Model", "Numbers that a program computed from the data, and with which it says something about a person."),)
_GROUPS = (
    (
        "Group",
        "What the model tries to tell of a person: each person belongs to one. Experts call it a label or class.",
    ),
    ("Properties", "What else the data hold of a person, but for links."),
)


def glossary(values: Mapping[str, Any], person: Person, owner: str | None) -> Facts:
    """Return the words with what they mean, for a certificate, what it means for a person, and who made the release."""
    return Facts(
        (
            ("You", "Any one person in the data."),
            ("The owner", f"Who made the release and answers for it{f': {owner}' if owner else ''}."),
            ("The release", "All that was published. Answer 3 lists it."),
            ("Run", "The one use of the program that made the release."),
            *(_MODEL if values["method"] not in GRAPH_CARDS else ()),
            (capital(person.noun), f"What is protected: {person.what}."),
            (
                "The limit",
                f"How much the release can tell about one {person.noun} (answer 5). Experts call it a guarantee, and its size "
                "epsilon.",
            ),
            (
                "Certificate",
                "The file that states the limit and how the release was made. It is published with the release.",
            ),
            ("Ledger", "The list of everything that was released, which the owner keeps."),
            ("Attack", "A try to learn from the release what is in the data: made as a test, or to do harm."),
            ("Public", "What counts as known to anyone, and is not protected (answer 6)."),
            *(_GROUPS if _of_groups(values) else ()),
        )
    )


def _of_groups(values: Mapping[str, Any]) -> bool:
    """Whether a run learned classes of people: no numbers, several labels, links or counts."""
    return values["method"] in METHODS and values["public_facts"].get("target") is None
