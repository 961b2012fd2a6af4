"""Everyday words for what a certificate says in the words of experts. A new phrase of a certificate is one entry here."""

from __future__ import annotations

from collections.abc import Mapping

from sfumato.privacy._unit import INFERRED, OTHER_END
from sfumato.record._certificate import SAME_BITS

OTHERS = (
    "What the data of other people says about you. If most people with your habits belong to one group, anyone may guess "
    "that you belong to it too, even if you are not in the data."
)
SEEN: Mapping[str, str] = {
    "weights": "the numbers that the model consists of",
    "noisy aggregates": "sums over the people that each person is linked to, with random numbers added",
    "predictions": "what the model says about each person",
    "predictions for all nodes": "what the model says about each person",
    "predictions that read the node's own features (joint DP)": "what the model says about you, since it reads your properties",
    "predictions that read neighbors": "what the model says about a person from the properties of those they are linked to",
    "scores of all pairs": "how likely the model takes a link between any two people to be",
    "sums before noise": "sums without random numbers",
    "encodings of single nodes (hop 0)": "numbers that are computed from the properties of one person",
    "embeddings of single nodes that read their features": "numbers that are computed from the properties of one person",
    "PageRank rows with noise": "how near other people are to each person, with random numbers added",
    "PageRank rows before noise": "how near other people are to each person, without random numbers",
    "the perturbed edges": "the links after random changes",
    "true edges": "the real links",
    "noisy pairs of classes": "how often groups are linked to each other, with random numbers added",
    "noisy counts of right answers": "how often a first model was right, with random numbers added",
    "its noisy row of neighbors' classes": "the groups of the people that you are linked to, with random numbers added",
    "reports": "answers that were changed at random",
    "student": "the model",
    "queries and answers": "what was asked of models that read the real data, and the answers, with random numbers added",
    "teachers": "models that read the real data",
    "votes before noise": "answers without random numbers",
    "noisy counts of the whole graph": "numbers about all together, such as how many links there are, with random numbers added",
    "counts before noise": "the same numbers without random numbers",
}
"""What may be seen, or must not be."""
LIMITS: Mapping[str, str] = {
    INFERRED: OTHERS,
    OTHER_END: (
        "What the entries of others say about links with you. A link that goes both ways stands in your entry and in that of "
        "the other person. Only the one in your entry is protected."
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
