r"""Prio3Histogram: each report is one class of several in additive shares, which servers check and add without seeing it.

A device splits its one-hot vector x into :math:`x = \sum_s x_s` over the field, one share for each server; all shares but the
first (the leader's) are seeds of 32 bytes. Its proof (:mod:`sfumato.shares._proof`) is split in the same way. Servers exchange
one message each, which tells whether x is one-hot and nothing else, and add the shares of those reports that passed. The sum of
their sums counts the classes.

This is Prio3Histogram of draft-irtf-cfrg-vdaf-18 (wire version 18, algorithm 4) with one proof, on arrays that have a row for
each report: names, order and bytes are the draft's, and its test vectors are among the tests. Python claims no constant time:
how long a device takes to shard may depend on its class, so nobody but the device should be able to time it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato._validate import check_int, fail
from sfumato.shares import _field as field
from sfumato.shares._field import MODULUS, Bytes, Elements, from_bytes, to_bytes
from sfumato.shares._proof import OneHotProof
from sfumato.shares._randomness import Randomness
from sfumato.shares._rows import REFUSED, check_flags, check_rows, in_blocks
from sfumato.shares._turboshake import SEED_SIZE

NONCE_SIZE = 16
KEY_SIZE = SEED_SIZE


class Reports(NamedTuple):
    """Sharded reports, a row each: what all servers get, and what each server alone gets."""

    public_share: Bytes
    input_shares: tuple[Bytes, ...]


class State(NamedTuple):
    """What a server keeps between its steps: shares of vectors [n, length, 2], seeds [n, 32], which reports it can read [n]."""

    out_shares: Elements
    joint_seeds: Bytes
    readable: NDArray[np.bool_]


@dataclass(frozen=True)
class Prio3Histogram:
    r"""Count classes over reports in additive shares, where a report that is not exactly one class is refused.

    **Formal guarantee.** Let TurboSHAKE128 be a random oracle.

    * *Privacy.* All servers but one may be malicious and work with any users. From the reports of honest devices, which draw
      coins and nonces afresh, they learn nothing but the sum over those that the honest server adds, up to the chance to guess
      a seed of 256 bits. For that, this server takes each nonce once, in one batch, reads the very public share that the device
      made (signed by it: whoever changes a part of it makes the message below an equation about the vector), and sends one
      message about a report, under one key that was fixed before the device drew its nonce: messages under two keys tell the
      class. The sum itself is not private, since a
      malicious server may refuse all reports but one: what protects it is the noise that each server adds to its share before
      it opens it.
    * *Soundness.* If all servers are honest and no device knows the verification key when it shards, they accept a report whose
      shares do not add up to a one-hot vector with probability at most :meth:`soundness_error`, whatever the device sends. So a
      lying user moves the sum as much as an honest one. One malicious server can make it any number: against it there is
      privacy, and no soundness.
    * Servers may disagree on a report whose sender gave them different public shares. It counts only where all accept it.

    Sources: [DPRS23] H. Davis, C. Patton, M. Rosulek, P. Schoppmann, "Verifiable distributed aggregation functions", PoPETs
    2023(4), the theorems on Prio3; draft-irtf-cfrg-vdaf-18, "Prio3" and "Security considerations".

    Args:
        length: number of classes C, 2 to 65,536.
        chunk_length: entries that one call of the gadget checks; :func:`sfumato.shares._proof.shortest_chunk` has the one of the
            shortest proofs. It changes no guarantee noticeably, but all parties need the same.
        context: public bytes that name the collection, at most 1,000. Shares of one context are worth nothing in another.
        shares: number of servers.

    >>> prio = Prio3Histogram(length=4, chunk_length=2, context=b"colors", shares=2)
    >>> nonces = np.arange(48, dtype=np.uint8).reshape(3, 16)
    >>> reports = prio.shard([1, 3, 1], nonces)
    >>> key = bytes(32)  # the servers draw it and tell no device
    >>> steps = [prio.verify_init(key, s, nonces, reports.public_share, reports.input_shares[s]) for s in range(2)]
    >>> message, valid = prio.verifier_shares_to_message([share for _, share in steps])
    >>> accepted = np.all([prio.verify_next(state, message, valid) for state, _ in steps], axis=0)
    >>> sums = [prio.aggregate(state, accepted) for state, _ in steps]
    >>> prio.unshard(sums).tolist()
    [[0, 2, 0, 1]]

    Raises:
        InputError: a number is out of range, or ``context`` is not bytes.
    """

    length: int
    chunk_length: int
    context: bytes
    shares: int = 2

    def __post_init__(self) -> None:
        check_int(low=2, high=2**16, length=self.length)
        check_int(low=1, high=self.length, chunk_length=self.chunk_length)
        check_int(low=2, high=255, shares=self.shares)
        if not isinstance(self.context, bytes) or len(self.context) > 1000:
            raise fail("context", type(self.context).__name__, "to be at most 1,000 bytes")

    @cached_property
    def proof(self) -> OneHotProof:
        """The proof system of these reports."""
        return OneHotProof(self.length, self.chunk_length, self.shares)

    @cached_property
    def _draws(self) -> Randomness:
        return Randomness(self.context, self.proof)

    @property
    def coins_size(self) -> int:
        """Random bytes that a device needs for a report."""
        return 2 * self.shares * SEED_SIZE

    @property
    def public_share_size(self) -> int:
        """Bytes of what all servers get of a report."""
        return self.shares * SEED_SIZE

    @property
    def verifier_share_size(self) -> int:
        """Bytes of the message of a server about a report."""
        return field.SIZE * self.proof.verifier_length + SEED_SIZE

    def input_share_size(self, server: int) -> int:
        """Return the bytes of what this server alone gets of a report.

        >>> prio = Prio3Histogram(7, 4, b"")
        >>> prio.input_share_size(0), prio.input_share_size(1)
        (384, 64)
        """
        return field.SIZE * (self.length + self.proof.proof_length) + SEED_SIZE if server == 0 else 2 * SEED_SIZE

    def soundness_error(self, queries: float = 2.0**64) -> float:
        r"""Return a bound on the probability that one report that is not one-hot is accepted.

        It is :math:`(q c + 1 + 2 (P - 1)) / p + 2 q^2 / 2^{256}`: of q trials of the device for joint randomness, each is good
        with probability c / p, c being ``chunk_length``; then come the errors of combining outputs and of the random point, and
        collisions of seeds. Over n reports it is at most n times as much.

        Args:
            queries: how often the device evaluates TurboSHAKE128.

        >>> import math
        >>> round(math.log2(Prio3Histogram(7, 4, b"").soundness_error()))
        -62
        """
        guesses = queries * self.chunk_length + 1 + 2 * (self.proof.points - 1)
        return min(1.0, guesses / MODULUS + 2 * queries**2 / 2.0**256)

    def shard(self, classes: ArrayLike, nonces: Bytes, coins: Bytes | None = None) -> Reports:
        """Split classes into shares with proofs: the step of the devices.

        Args:
            classes: class numbers 0, ..., length - 1, shape [n]. Another number becomes class 0: were it refused, the failure
                would tell something about the value.
            nonces: public random bytes, new for each report, shape [n, 16].
            coins: secret random bytes, shape [n, coins_size]. Leave them out to draw them from the operating system; whoever
                knows them knows the class.

        Returns:
            The public share, [n, public_share_size], and for each server its input share, [n, input_share_size].

        Raises:
            InputError: an array has another shape or type.
        """
        numbers = np.asarray(classes)
        if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
            raise fail("classes", numbers, "to be integers of shape [n]")
        numbers = np.where((numbers >= 0) & (numbers < self.length), numbers, 0)
        if coins is None:
            words = os.urandom(len(numbers) * self.coins_size)
            coins = np.frombuffer(words, np.uint8).reshape(len(numbers), self.coins_size)
        vectors = np.zeros((len(numbers), self.length, 2), np.uint64)
        vectors[np.arange(len(numbers)), numbers, 0] = 1
        return self.shard_vectors(vectors, nonces, coins)

    def shard_vectors(self, vectors: Elements, nonces: Bytes, coins: Bytes) -> Reports:
        """Split any vectors of field elements [n, length, 2] as :meth:`shard` does; servers refuse those that are not one-hot."""
        check_rows("nonces", nonces, len(vectors), NONCE_SIZE)
        check_rows("coins", coins, len(vectors), self.coins_size)
        made = in_blocks(self._shard, vectors, nonces, coins)
        return Reports(made[0], tuple(made[1:]))

    def verify_init(
        self, key: bytes, server: int, nonces: Bytes, public_share: Bytes, input_share: Bytes
    ) -> tuple[State, Bytes]:
        """Begin to check reports: the first step of each server.

        Args:
            key: the verification key, 32 secret bytes that all servers share and no device knows.
            server: the number of this server; 0 is the leader.
            nonces: nonces of the reports, shape [n, 16]. That each is new is for the caller to check.
            public_share: shape [n, public_share_size].
            input_share: what this server got, shape [n, input_share_size].

        Returns:
            What this server keeps to itself, and its verifier shares for the others, [n, verifier_share_size]. The share of a
            report that this server cannot read consists of bytes 255 and makes all servers refuse the report.

        Raises:
            InputError: key or server is none, or an array has another shape or type. For byte strings from outside there is
                :func:`sfumato.shares._rows.rows`.
        """
        check_int(low=0, high=self.shares - 1, server=server)
        if not isinstance(key, bytes) or len(key) != KEY_SIZE:
            raise fail("key", type(key).__name__, f"to be {KEY_SIZE} bytes")
        check_rows("nonces", nonces, len(nonces), NONCE_SIZE)
        check_rows("public_share", public_share, len(nonces), self.public_share_size)
        check_rows("input_share", input_share, len(nonces), self.input_share_size(server))

        def block(nonces: Bytes, public: Bytes, own: Bytes) -> tuple[Any, ...]:
            return self._verify_init(key, server, nonces, public, own)

        *state, share = in_blocks(block, nonces, public_share, input_share)
        return State(*state), share

    def verifier_shares_to_message(self, verifier_shares: Sequence[Bytes]) -> tuple[Bytes, NDArray[np.bool_]]:
        """Combine the verifier shares of all servers; each may do it, or the leader for all.

        Args:
            verifier_shares: of each server, in order, shape [n, verifier_share_size].

        Returns:
            The message, [n, 32], and [n]: whether the report is valid. The message of a report that is not is 0.

        Raises:
            InputError: there is not one array for each server, or one has another shape or type.
        """
        if len(verifier_shares) != self.shares:
            raise fail("verifier_shares", len(verifier_shares), f"to be {self.shares} arrays, one of each server")
        for share in verifier_shares:
            check_rows("verifier_shares", share, len(verifier_shares[0]), self.verifier_share_size)
        message, valid = in_blocks(self._combine, *verifier_shares)
        return message, valid

    def verify_next(self, state: State, message: Bytes, valid: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which reports this server accepts: the last step of each.

        It is where the report is valid, this server can read it, and the joint randomness that it used is the one that the
        message gives. The servers tell each other, and only reports that all accept are added.

        Args:
            state: what :meth:`verify_init` gave this server.
            message: what :meth:`verifier_shares_to_message` gave, shape [n, 32].
            valid: what it gave with it, shape [n].

        Raises:
            InputError: an array has another shape or type.
        """
        check_rows("message", message, len(state.readable), SEED_SIZE)
        same: NDArray[np.bool_] = (message == state.joint_seeds).all(axis=1)
        return same & state.readable & check_flags("valid", valid, len(message))

    def aggregate(
        self, state: State, accepted: NDArray[np.bool_], cells: ArrayLike | None = None, num_cells: int = 1
    ) -> Bytes:
        """Add this server's shares of the accepted reports, for each cell of a public partition.

        Args:
            state: what :meth:`verify_init` gave this server.
            accepted: which reports all servers accept, shape [n].
            cells: the cell of each report, 0, ..., num_cells - 1, shape [n]; None puts all into cell 0.
            num_cells: how many cells there are.

        Returns:
            Encoded sums, shape [num_cells, 16 length].

        Raises:
            InputError: an array has another shape or type, or a cell is none.
        """
        check_int(low=1, num_cells=num_cells)
        accepted = check_flags("accepted", accepted, len(state.readable))
        groups = np.zeros(len(accepted), np.int64) if cells is None else np.asarray(cells)
        fits = groups.shape == accepted.shape and groups.dtype.kind in "iu"
        if not fits or not ((groups >= 0) & (groups < num_cells)).all():
            raise fail("cells", groups, f"to be integers from 0 to {num_cells - 1}, one for each report")
        if (accepted & ~state.readable).any():
            raise fail("accepted", accepted, "to hold reports alone that this server can read")
        return to_bytes(field.total_by(state.out_shares[accepted], groups[accepted], num_cells))

    def add_noise(self, sums: Bytes, noise: ArrayLike) -> Bytes:
        """Return encoded sums [cells, 16 length] with integers added, int64 of shape [cells, length], such as a server's noise.

        >>> prio = Prio3Histogram(2, 1, b"")
        >>> nothing = np.zeros((1, 32), np.uint8)
        >>> prio.unshard([prio.add_noise(nothing, [[-3, 5]]), nothing]).tolist()
        [[-3, 5]]

        Raises:
            InputError: the noise is not integers of this shape, or the sums are not encoded field elements.
        """
        values = np.asarray(noise)
        if values.shape != (len(sums), self.length) or values.dtype.kind != "i":
            raise fail("noise", values, f"to be signed integers of shape [cells, {self.length}]")
        return to_bytes(field.add(self._read_sums(sums), field.from_signed(values)))

    def unshard(self, sums: Sequence[Bytes]) -> NDArray[np.int64]:
        """Return what the sums of all servers make together: reports of each class and all noise, shape [cells, length].

        Raises:
            InputError: there is not one array for each server, one is not encoded field elements of one shape, or they do not
                belong together.
        """
        if len(sums) != self.shares:
            raise fail("sums", len(sums), f"to be {self.shares} arrays, one of each server")
        total = self._read_sums(sums[0])
        for other in sums[1:]:
            check_rows("sums", other, len(sums[0]), field.SIZE * self.length)
            total = field.add(total, self._read_sums(other))
        return field.signed(total)

    def _read_sums(self, sums: Bytes) -> Elements:
        check_rows("sums", sums, len(sums), field.SIZE * self.length)
        values, fit = from_bytes(sums)
        if not fit.all():
            raise fail(
                "sums", sums, "to be encoded field elements", "Pass the bytes as aggregate or add_noise gave them."
            )
        return values

    def _shard(self, vectors: Elements, nonces: Bytes, coins: Bytes) -> tuple[Bytes, ...]:
        draws = self._draws
        *others, leader_blind, prove = (coins[:, at : at + SEED_SIZE] for at in range(0, self.coins_size, SEED_SIZE))
        helpers = list(zip(range(1, self.shares), others[::2], others[1::2], strict=True))  # number, seed, blind
        leader, parts = vectors, []
        for server, seed, blind in helpers:
            share = draws.vector(server, seed)
            leader = field.subtract(leader, share)
            parts.append(draws.joint_part(server, blind, share, nonces))
        public = np.concatenate([draws.joint_part(0, leader_blind, leader, nonces), *parts], axis=1)
        proof = self.proof.prove(vectors, draws.wires(prove), draws.joint(draws.joint_seed(public)))
        for server, seed, _ in helpers:
            proof = field.subtract(proof, draws.proofs(server, seed))
        first = np.concatenate([to_bytes(leader), to_bytes(proof), leader_blind], axis=1)
        return public, first, *(np.concatenate([seed, blind], axis=1) for _, seed, blind in helpers)

    def _verify_init(self, key: bytes, server: int, nonces: Bytes, public: Bytes, own: Bytes) -> tuple[Any, ...]:
        draws, blind = self._draws, own[:, -SEED_SIZE:]
        if server == 0:
            numbers, readable = from_bytes(own[:, :-SEED_SIZE])
            vector, proof = numbers[:, : self.length], numbers[:, self.length :]
        else:
            readable = np.ones(len(own), bool)
            vector, proof = draws.vector(server, own[:, :SEED_SIZE]), draws.proofs(server, own[:, :SEED_SIZE])
        part = draws.joint_part(server, blind, vector, nonces)
        parts = public.copy()
        parts[:, server * SEED_SIZE : (server + 1) * SEED_SIZE] = part
        joint_seeds = draws.joint_seed(parts)
        verifier, usable = self.proof.query(vector, proof, draws.query(key, nonces), draws.joint(joint_seeds))
        readable &= usable
        share = np.concatenate([to_bytes(verifier), part], axis=1)
        share[~readable] = REFUSED
        return vector, joint_seeds, readable, share

    def _combine(self, *shares: Bytes) -> tuple[Bytes, NDArray[np.bool_]]:
        read = [from_bytes(share[:, :-SEED_SIZE]) for share in shares]
        total = read[0][0]
        for numbers, _ in read[1:]:
            total = field.add(total, numbers)
        valid = np.all([fit for _, fit in read], axis=0) & self.proof.decide(total)
        message = self._draws.joint_seed(np.concatenate([share[:, -SEED_SIZE:] for share in shares], axis=1))
        message[~valid] = 0
        return message, valid
