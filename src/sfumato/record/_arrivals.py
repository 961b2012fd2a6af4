"""A batch of nodes that arrive after a run, as ledgers and certificates describe it: an edge pays in one release, once.

A run of unit edge and its arrivals read disjoint sets of edges, told apart by which nodes arrived when, which is public. So
what the run claimed covers an arrival that costs no more (:mod:`sfumato.central._arrivals` has the proof), and a data set's
ledger counts it as 0 more. Whether the sets are disjoint is a matter of ids alone: a node may arrive once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

COVERS = (
    "Edges with an end among the nodes that arrived with this release, which no other release of the run it extends reads: an "
    "edge pays in one of them, once. Other releases about the same data add up."
)
ASSUMED = (
    "That every node arrived once, and that which nodes arrived was decided without looking at edges, is taken for granted of "
    "the run that this release extends."
)


@dataclass(frozen=True)
class Arrival:
    """An arrival names the run that it extends and the nodes that arrived. All of it is public.

    ``extends`` is the SHA-256 of the released arrays of that run, which its noise makes its own; ``plan`` the hash of the first
    line of its ledger, by which a data set's ledger knows its claim; ``nodes`` are marks of ids. ``after`` are the arrivals
    before it, whose rows it reads: it is no part of what is written.
    """

    extends: str
    plan: str
    nodes: tuple[str, ...]
    after: tuple[Arrival, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {"extends": self.extends, "plan": self.plan, "nodes": list(self.nodes)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Arrival:
        return cls(values["extends"], values["plan"], tuple(values["nodes"]))


def marks(names: Iterable[str]) -> tuple[str, ...]:
    """Return the first 64 bits of the SHA-256 of each id, in hexadecimal.

    Two ids that share a mark are taken for one, which refuses an arrival and releases nothing.
    """
    return tuple(sha256(name.encode()).hexdigest()[:16] for name in names)
