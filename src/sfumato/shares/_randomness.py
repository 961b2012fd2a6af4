"""What Prio3 draws from seeds, each use under its own tag: helpers' shares, joint and query randomness, seeds of wires."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.shares._field import Bytes, Elements, to_bytes
from sfumato.shares._turboshake import SEED_SIZE, expand, stream

if TYPE_CHECKING:
    from sfumato.shares._proof import OneHotProof

VERSION = 18
ALGORITHM = 4
_PROOFS = b"\x01"  # one proof a report
_MEASUREMENT, _PROOF, _JOINT, _PROVE, _QUERY, _JOINT_SEED, _JOINT_PART = range(1, 8)


@dataclass(frozen=True)
class Randomness:
    """Expand seeds of reports of one context; arrays have a row for each report.

    >>> from sfumato.shares._proof import OneHotProof
    >>> Randomness(b"colors", OneHotProof(4, 2, 2)).tag(5).hex()
    '1200000000040005636f6c6f7273'
    """

    context: bytes
    proof: OneHotProof

    def tag(self, usage: int) -> bytes:
        """Return the domain separation tag of a use: version, class of algorithm, algorithm, use, context."""
        head = VERSION.to_bytes(1, "big") + b"\x00" + ALGORITHM.to_bytes(4, "big") + usage.to_bytes(2, "big")
        return head + self.context

    def vector(self, server: int, seeds: Bytes) -> Elements:
        """Return a helper's shares of vectors, [n, length, 2]."""
        return expand(seeds, self.tag(_MEASUREMENT), repeated(bytes([server]), len(seeds)), self.proof.length)

    def proofs(self, server: int, seeds: Bytes) -> Elements:
        """Return a helper's shares of proofs, [n, proof_length, 2]."""
        binders = repeated(_PROOFS + bytes([server]), len(seeds))
        return expand(seeds, self.tag(_PROOF), binders, self.proof.proof_length)

    def wires(self, seeds: Bytes) -> Elements:
        """Return what the prover draws, [n, wires, 2]."""
        return expand(seeds, self.tag(_PROVE), repeated(_PROOFS, len(seeds)), self.proof.wires)

    def query(self, key: bytes, nonces: Bytes) -> Elements:
        """Return what the verification key gives for these nonces, [n, 3, 2]."""
        binders = np.concatenate([repeated(_PROOFS, len(nonces)), nonces], axis=1)
        return expand(repeated(key, len(nonces)), self.tag(_QUERY), binders, self.proof.query_length)

    def joint_part(self, server: int, blinds: Bytes, vectors: Elements, nonces: Bytes) -> Bytes:
        """Return a server's part of the seed of joint randomness, [n, 32], which its share of the vector fixes."""
        binders = np.concatenate([repeated(bytes([server]), len(nonces)), nonces, to_bytes(vectors)], axis=1)
        return stream(blinds, self.tag(_JOINT_PART), binders, SEED_SIZE)

    def joint_seed(self, parts: Bytes) -> Bytes:
        """Return the seed of joint randomness, [n, 32], from the parts of all servers side by side."""
        return stream(np.zeros((len(parts), SEED_SIZE), np.uint8), self.tag(_JOINT_SEED), parts, SEED_SIZE)

    def joint(self, seeds: Bytes) -> Elements:
        """Return joint randomness, [n, calls, 2]."""
        return expand(seeds, self.tag(_JOINT), repeated(_PROOFS, len(seeds)), self.proof.calls)


def repeated(data: bytes, count: int) -> Bytes:
    """Return so many rows of the same bytes."""
    return np.broadcast_to(np.frombuffer(data, np.uint8), (count, len(data)))
