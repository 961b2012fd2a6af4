"""Everyday words for what a certificate says in the words of experts. A new phrase of a certificate is one entry here."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sfumato.privacy._person_units import OWNERS
from sfumato.privacy._unit import HALF, INFERRED, OTHER_END
from sfumato.record._certificate import FIXED, LINK, LOCAL, SAME_BITS, SELECTED
from sfumato.record._collected import OPENED, OPENED_CHECKED, SENT

OTHERS = (
    "What the data of other people says about you. If most people with your habits belong to one group, anyone may guess "
    "that you belong to it too, even if you are not in the data."
)
SEEN: Mapping[str, str] = {
    "weights": "the numbers that the model consists of",
    "noisy aggregates": "for each person a sum of numbers about the people they are linked to, with random numbers added",
    "predictions": "what the model says about each person",
    "predictions for all nodes": "what the model says about each person",
    "predictions that read the node's own features (joint DP)": "what the model says about you, since it reads your properties",
    "predictions that read neighbors": "what the model says about a person from the properties of those they are linked to",
    "scores of all pairs": "how likely the model takes a link between any two people to be",
    "sums before noise": "the sums before random numbers were added",
    "encodings of single nodes (hop 0)": "numbers that are computed from the properties of one person",
    "embeddings of single nodes that read their features": "numbers that are computed from the properties of one person",
    "PageRank rows with noise": "how near other people are to each person, with random numbers added",
    "PageRank rows before noise": "how near other people are to each person, without random numbers",
    "the perturbed edges": "the links after random changes",
    "true edges": "the real links",
    "noisy pairs of classes": "how often groups are linked to each other, with random numbers added",
    "noisy counts of right answers": "how often a first model was right, with random numbers added",
    "noisy levels of how many senders nodes have": "two numbers about how many links people have, with random numbers added",
    "its noisy row of neighbors' classes": "the groups of the people that you are linked to, with random numbers added",
    "reports": "answers that were changed at random",
    "opened counts": "counts of small groups of people, to which two servers added random numbers",
    "student": "the model",
    "queries and answers": "what was asked of models that read the real data, and the answers, with random numbers added",
    "teachers": "models that read the real data",
    "votes before noise": "answers without random numbers",
    "noisy counts of the whole graph": "numbers about all together, such as how many links there are, with random numbers added",
    "counts before noise": "the true numbers, before random numbers were added",
}
"""What may be seen, or must not be."""
LIMITS: Mapping[str, str] = {
    INFERRED: OTHERS,
    OTHER_END: (
        "What the entries of others say about links with you. A link that goes both ways stands in your entry and in that of "
        "the other person. Only the one in your entry is protected."
    ),
    OWNERS: "Which entries belong to the same person. It counts as public here, as who is in the data does.",
    HALF: (
        "The other half of a link. Links here always go both ways, and for a whole link epsilon is larger. "
        "That one half counts alone is a custom of publications."
    ),
    SAME_BITS: (
        "Errors of the computer in the last digits of a number. The limits take for granted that it computes what you add to "
        "the model in the same way, wherever you stand in the data."
    ),
}
"""What a claim does not cover."""
READ: Mapping[str, str] = {
    "num_features": "how many properties of a person there are",
    "classes": "which groups there are",
    "degrees": "how many links each person has",
    "roles": "who was chosen for training, and who for tests",
    "target range": "the least and the largest number to be learned",
}
"""Facts that are read from the data as if they were public."""
ASSUMED: Mapping[str, str] = {
    FIXED["assumptions"][0]: "The owner may see the real data, and followed the method as the program has it.",
    FIXED["assumptions"][1]: "What has to be kept secret (answer 4) stays secret.",
    FIXED["assumptions"][2]: (
        "The owner chose the settings, and how large the limit may be, without looking at protected data. What counts as public "
        "(answer 6) may be known to anyone."
    ),
    LOCAL["assumptions"][0]: (
        "Each device changes what its user tells at random, by the method, and keeps its random numbers to itself. Here the "
        "owner played the devices and held the true answers: the limit is about everyone who sees only what was sent."
    ),
    SENT: (
        "Each device changes what its user tells at random, by the method, and keeps its random numbers to itself. Nothing else "
        "of what people told was read."
    ),
    OPENED: (
        "At least one of the two servers follows the method, and they do not work together: with both halves they would know "
        "what people told. Nothing else of what people told was read."
    ),
    OPENED_CHECKED: (
        "Checked: both servers signed what they counted, every person is counted in one small group, and the counts add up. Not "
        "checked: that each server added its random numbers, once, and counted what it got and nothing else."
    ),
    LOCAL["assumptions"][1]: (
        "Who is linked to whom, and who told their group, is public. What you told may still be concluded from what the people "
        "you are linked to tell."
    ),
    LINK["assumptions"][1]: (
        "Properties and groups are public. A link may still be concluded from them, from the lists of others, and from the list "
        "of the person at its other end."
    ),
    LOCAL["assumptions"][2]: "One collection: a second one, or anything else that is told about a person, adds up.",
    LOCAL["assumptions"][3]: (
        "The owner chose the settings, the ranges and how large the limit may be without looking at protected data. What counts "
        "as public (answer 6) may be known to anyone."
    ),
    SELECTED: (
        "The settings were chosen by trials, which the limit counts. How many trials there were, and all but the best, stay "
        "secret."
    ),
}
"""What a claim rests on."""
_WORDS = {
    "predictions for all nodes": "what the model says about each person",
    "imputation": "a guess",
    "above the median": "larger than that of most",
    "in training": "used to make the model",
    "training node": "person to learn from",
    "training nodes": "people to learn from",
    "classes": "groups",
    "scores": "answers of the model",
    "node": "person",
    "nodes": "people",
    "feature": "property",
    "features": "properties",
    "label": "group",
    "labels": "groups",
    "degree": "number of links",
    "degrees": "numbers of links",
    "arc": "link",
    "arcs": "links",
    "edge": "link",
    "edges": "links",
}
_FOUND = re.compile(r"\b(" + "|".join(sorted(_WORDS, key=len, reverse=True)) + r")\b", re.IGNORECASE)


def everyday(text: str) -> str:
    """Return a phrase of experts in everyday words, as far as single words do that.

    >>> everyday("whether a node's degree is above the median")
    "whether a person's number of links is larger than that of most"
    """

    def word(match: re.Match[str]) -> str:
        found = _WORDS[match[0].lower()]
        return found[:1].upper() + found[1:] if match[0][0].isupper() else found

    return _FOUND.sub(word, text)
