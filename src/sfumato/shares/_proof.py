r"""The proof that shares add up to a one-hot vector: the fully linear proof system of [BBCGGI19], for the circuit Histogram.

The statement is that :math:`x \in F^C` has entries 0 or 1 and sum 1. The circuit has two outputs, which are both 0 if that is so,

.. math:: \sum_i \sum_j r_i^{j+1} x_{ij} (x_{ij} - 1) \quad\text{and}\quad \sum_k x_k - 1,

where :math:`x_{ij}` is entry j of chunk i of x (padded by zeros) and the r are the joint randomness. The inner sums are calls
of one gadget G, a sum of ``chunk_length`` products of degree 2 (ParallelSum of Mul). The wire polynomials have degree below P,
the least power of two above the number of calls: at the k-th power of the P-th root of unity they take the inputs of call k, at
1 a random seed. The proof holds the seeds and the polynomial G(wires), of degree 2 (P - 1), by its values at the first 2 P - 1
powers of the root of order 2 P, of which the even ones are the outputs of the calls. Every output of a verifier is linear in
vector and proof, so servers compute it on shares.

**Soundness.** If some :math:`x_{ij}(x_{ij} - 1)` is not 0, the first output is a polynomial in :math:`r_i` of degree
``chunk_length`` at most that is not 0, so it is 0 for a share ``chunk_length / p`` of the r at most. A random combination of
two outputs that are not both 0 is 0 with probability 1 / p. A polynomial that is not G(wires) agrees with it at a random point
with probability 2 (P - 1) / p.

**Zero knowledge.** The verifier message is (0, wires at t, G of them). Seeds enter the wires at t with a factor that is not 0,
since t is refused if it is a P-th root of unity; so with uniform seeds the wires at t are uniform, whatever x is, and the
message says nothing.

[BBCGGI19] D. Boneh, E. Boyle, H. Corrigan-Gibbs, N. Gilboa, Y. Ishai, "Zero-knowledge proofs on secret-shared data via fully
linear PCPs", CRYPTO 2019, theorem 4.3; the circuit and the order of all numbers: draft-irtf-cfrg-vdaf-18, "FLP construction".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato.shares import _field as field
from sfumato.shares._field import MODULUS, Elements


@dataclass(frozen=True)
class OneHotProof:
    """Prove and verify one-hot vectors of ``length`` entries, in ``shares`` additive shares; arrays have a row for each report.

    >>> proof = OneHotProof(7, 3, 2)
    >>> proof.proof_length, proof.verifier_length
    (13, 8)
    """

    length: int
    chunk_length: int
    shares: int

    @property
    def calls(self) -> int:
        """Calls of the gadget, which are also the elements of joint randomness."""
        return -(-self.length // self.chunk_length)

    @property
    def points(self) -> int:
        """P, the number of points that fix a wire polynomial."""
        return 1 << self.calls.bit_length()

    @property
    def wires(self) -> int:
        """Inputs of the gadget, which are also the elements that the prover draws."""
        return 2 * self.chunk_length

    @property
    def proof_length(self) -> int:
        """Elements of a proof: seeds, then values of the gadget's polynomial."""
        return self.wires + 2 * self.points - 1

    @property
    def verifier_length(self) -> int:
        """Elements of a verifier message: combined output, wires at the random point, gadget's polynomial there."""
        return self.wires + 2

    query_length = 3
    """Elements that the verification key gives: two factors of outputs, and the random point."""

    def prove(self, vector: Elements, seeds: Elements, joint: Elements) -> Elements:
        """Return proofs [n, proof_length, 2] of vectors [n, length, 2], from seeds [n, wires, 2] and randomness [n, calls, 2].

        A vector that is not one-hot gets a proof as well, which is refused.
        """
        values = self._wire_values(vector, seeds, joint, 1)
        along = np.swapaxes(values, 1, 2)
        nodes = np.empty((len(vector), 2 * self.points, self.wires, 2), np.uint64)
        nodes[:, 0::2] = values
        for place in range(self.points):
            nodes[:, 2 * place + 1] = field.inner(self._between[place], along)
        outputs = field.inner(nodes[:, :-1, 0::2], nodes[:, :-1, 1::2])
        return np.concatenate([seeds, outputs], axis=1)

    def query(
        self, vector: Elements, proof: Elements, query: Elements, joint: Elements
    ) -> tuple[Elements, NDArray[np.bool_]]:
        """Return shares of verifier messages [n, verifier_length, 2], and [n]: whether the random point may be used.

        Args:
            vector: shares of vectors, [n, length, 2].
            proof: shares of proofs, [n, proof_length, 2].
            query: the same for all servers, [n, 3, 2].
            joint: joint randomness, [n, calls, 2].
        """
        seeds, outputs = proof[:, : self.wires], proof[:, self.wires :]
        calls = outputs[:, 2 : 2 * self.calls + 1 : 2]
        range_check = field.total(np.swapaxes(calls, 0, 1))
        sum_check = field.subtract(field.total(np.swapaxes(vector, 0, 1)), self._share_of_one)
        combined = field.inner(query[:, :2], np.stack([range_check, sum_check], axis=1))
        point = query[:, 2]
        values = np.swapaxes(self._wire_values(vector, seeds, joint, self.shares)[:, : self.calls + 1], 1, 2)
        at_point = field.inner(self._weights(point, self.points)[:, None, : self.calls + 1], values)
        gadget = field.inner(self._weights(point, 2 * self.points, 2 * self.points - 1), outputs)
        return np.concatenate([combined[:, None], at_point, gadget[:, None]], axis=1), ~self._is_root(point)

    def decide(self, message: Elements) -> NDArray[np.bool_]:
        """Return for sums of all verifier shares, [n, verifier_length, 2], whether vectors are one-hot and proofs right."""
        wires = message[:, 1:-1]
        gadget = field.inner(wires[:, 0::2], wires[:, 1::2])
        return field.equal(message[:, 0], np.zeros(2, np.uint64)) & field.equal(gadget, message[:, -1])

    def _wire_values(self, vector: Elements, seeds: Elements, joint: Elements, shares: int) -> Elements:
        """Values of the wire polynomials at the powers of the root of order P, [n, P, wires, 2], of one of so many shares."""
        rows = len(vector)
        padded = np.zeros((rows, self.calls * self.chunk_length, 2), np.uint64)
        padded[:, : self.length] = vector
        chunks = padded.reshape(rows, self.calls, self.chunk_length, 2)
        powers = np.empty_like(chunks)
        powers[:, :, 0] = joint
        for place in range(1, self.chunk_length):
            powers[:, :, place] = field.multiply(powers[:, :, place - 1], joint)
        one = self._share_of_one if shares > 1 else field.elements([1])[0]
        values: Elements = np.zeros((rows, self.points, self.wires, 2), np.uint64)
        values[:, 0] = seeds
        values[:, 1 : self.calls + 1, 0::2] = field.multiply(powers, chunks)
        values[:, 1 : self.calls + 1, 1::2] = field.subtract(chunks, np.broadcast_to(one, chunks.shape))
        return values

    @cached_property
    def _share_of_one(self) -> Elements:
        (share,) = field.elements([pow(self.shares, -1, MODULUS)])
        return np.asarray(share)

    @cached_property
    def _between(self) -> Elements:
        """Values at the odd powers of the root of order 2 P of the polynomials that are 1 at one power of the root of order P."""
        root, order = field.root_of_unity(2 * self.points), self.points
        odd = [pow(root, 2 * k + 1, MODULUS) for k in range(order)]
        even = [pow(root, 2 * k, MODULUS) for k in range(order)]
        flat = [
            node * (pow(at, order, MODULUS) - 1) * pow(order * (at - node), -1, MODULUS) for at in odd for node in even
        ]
        return field.elements(flat).reshape(order, order, 2)

    def _weights(self, point: Elements, order: int, count: int | None = None) -> Elements:
        """Lagrange weights at points [n, 2] for the first ``count`` powers of the root of this order: [n, count, 2].

        They are products of differences, without a division, so a point that is a node is no exception.
        """
        nodes, scales = _lagrange(order, count or order)
        count = len(nodes)
        away = field.subtract(point[:, None], nodes[None])
        weights: Elements = np.empty_like(away)
        weights[:] = scales
        before = after = None
        for k in range(1, count):
            before = away[:, k - 1] if before is None else field.multiply(before, away[:, k - 1])
            weights[:, k] = field.multiply(weights[:, k], before)
            after = away[:, count - k] if after is None else field.multiply(after, away[:, count - k])
            weights[:, count - 1 - k] = field.multiply(weights[:, count - 1 - k], after)
        return weights

    def _is_root(self, point: Elements) -> NDArray[np.bool_]:
        """Whether a point is a root of unity of order P, where the wires would show the inputs of a call."""
        power = point
        for _ in range(self.points.bit_length() - 1):
            power = field.multiply(power, power)
        return field.equal(power, field.elements([1])[0])


@cache
def _lagrange(order: int, count: int) -> tuple[Elements, Elements]:
    """The first powers of the root of this order, and 1 over the product of each one's differences from the others."""
    root = field.root_of_unity(order)
    nodes = [pow(root, k, MODULUS) for k in range(count)]
    scales = []
    for node in nodes:
        product = 1
        for other in nodes:
            product = product * (node - other) % MODULUS if other != node else product
        scales.append(pow(product, -1, MODULUS))
    return field.elements(nodes), field.elements(scales)


def shortest_chunk(length: int) -> int:
    """Return the ``chunk_length`` with the shortest proof of vectors of this length, the least if several have it.

    >>> [shortest_chunk(length) for length in (2, 7, 40)]
    [2, 3, 6]
    """
    return min(range(1, length + 1), key=lambda chunk: OneHotProof(length, chunk, 2).proof_length)
