"""What the verifier knows of method link-messages. Part of the verifier: it needs the standard library."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from ._kinds import Matrix, Planned
from ._rules import Audience, Certificate, Rules, Tensors

_NUMBERS = 4  # of a pair of nodes
_SEEN: Audience = {"anyone": ["noisy aggregates", "weights", "scores of all pairs"], "the node itself": [],
                   "never": ["sums before noise"]}  # fmt: skip


class LinkMessages(Rules):
    """The rules of method link-messages: counts by class and sums over other edges, one pure release, of undirected edges."""

    settings: ClassVar = {"learner_share": "part"}
    audience: ClassVar = {"edge": _SEEN}
    scores_pairs = True

    def faults(self, certificate: Certificate) -> Iterator[str]:
        """Yield a problem for arcs, under which there is no proof."""
        if certificate["unit"].get("directed"):
            yield "certificate.json: unit.directed: expected false, links of method link-messages have no direction"

    def releases(self, certificate: Certificate) -> list[Planned]:
        """Return the one release: a count for each node and class, a sum for each number of a pair, and how many were summed."""
        if certificate["unit"]["name"] == "none":
            return []
        facts = certificate["public_facts"]
        return [Matrix("links", [facts["num_nodes"] * facts["num_classes"] + _NUMBERS + 1], 0, event="pure")]

    def networks(self, certificate: Certificate, found: Iterable[str] = ()) -> Tensors:
        """Return the shape of the weights: one for each number of a pair."""
        return {"link.weight": [_NUMBERS]}
