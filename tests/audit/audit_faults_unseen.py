"""Faults that the auditor is known not to see."""

UNSEEN = {
    "counts of both directions": "It was planted and not flagged: if an undirected edge sends a label both ways, a row moves "
    "that the honest routing never touches, and the auditor computes what the honest routing would send.",
    "choice among candidates": "It was not planted: a choice that reads private data shows in one of few outcomes, and needs "
    "thousands of fits to be seen.",
    "keys that count": "It was planted and not flagged: keys 0, 1, 2, ... give fresh noise to every fit, and the auditor does "
    "not guess keys.",
    "more arrays among weights at edge level": "It was planted and not flagged: where labels are public, weights are not "
    "charged, so their number is not checked, and no attack reads them.",
    "head trained on exact sums at edge level": "It was planted and not flagged: attacks at edge level read the noisy sums, "
    "not what was trained beside them.",
    "noise of one step": "It was planted in 1 % and in 5 % of the rows and not flagged: such noise is never 0, and so few rows "
    "hardly move the mean and the spread of scores.",
    "claims above the reach": "So many scores cannot prove more than the reach of the audit, so that no bound refutes a claim "
    "above it, whatever the code does.",
}
"""Faults that this auditor does not see, and why."""
