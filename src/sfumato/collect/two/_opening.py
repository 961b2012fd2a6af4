"""Anyone joins what both servers opened to noisy counts of cells, and checks what can be checked without a secret."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.collect.two._agreement import SERVERS, Agreement, Partition, context
from sfumato.collect.two._device import check_signed
from sfumato.collect.two._server import sha256, unhex
from sfumato.collect.two._signed import alike, read_signed
from sfumato.errors import DataError

FIELDS = {"step", "agreement", "server", "proofs", "accepted", "counted", "left_out", "sums"}
"""What an opening says. Anything else in it could tell of reports."""
LEFT_OUT = {"first_alone", "second_alone", "unlike", "failed", "few"}
"""Why a report does not count: one server alone had it, both had others, its proof failed, or its cell had too few."""


@dataclass(frozen=True)
class Opened:
    """What two servers opened together.

    Args:
        partition: who was asked, and where.
        counts: noisy class counts, int64 [cells, C].
        counted: how many reports of each cell both servers accepted, int64 [cells].
        about: what a certificate says of it: the agreement, keys of both servers, hashes of both signed files.
    """

    partition: Partition
    counts: NDArray[np.int64]
    counted: NDArray[np.int64]
    about: dict[str, Any]

    def rows(self, users: Sequence[str]) -> NDArray[np.int64]:
        """Return for each user its cell (-1 if it was not asked) and the counts of that cell, int64 [n, 1 + C].

        It is the release of :class:`~sfumato.local._shared_counts.SharedCounts`. The counts of a cell sum to the users of it who
        were counted; nothing tells who did not answer.
        """
        cells = self.partition.rows(users)
        return np.concatenate([cells[:, None], np.where(cells[:, None] >= 0, self.counts[cells], 0)], axis=1)


def join(
    agreement: Agreement, partition: Partition, signatures: tuple[str, str], openings: tuple[bytes, bytes]
) -> Opened:
    """Join the openings of both servers.

    It checks the signatures of both servers over agreement and openings, that both followed one exchange and accepted the same
    reports, no more in a cell than it has users and, if any, at least as many as the agreement asks for, and that the counts of a
    cell add up to its reports, since noise sums to zero; a cell that stayed shut is zero in both.
    It cannot check that a server added the shares that it got, nor that it drew its noise: each is the word of that server, under
    its signature.

    Raises:
        DataError: the files do not belong together, or say what honest servers would not.
        SchemaError: not both servers signed this agreement about these cells.
    """
    check_signed(agreement, partition, signatures)
    prio, cells = agreement.prio, partition.num_cells
    bodies = []
    for server, data in zip(SERVERS, openings, strict=True):
        head = {"step": "opening", "agreement": agreement.sha256, "server": server}
        bodies.append(read_signed(data, bytes.fromhex(agreement.parties[server].sign), head))
        if set(bodies[-1]) != FIELDS:
            raise DataError("Expected an opening and nothing else, got other fields in it. Ask its operator.")
    for name in ("proofs", "accepted", "counted", "left_out"):
        if not alike(bodies[0][name], bodies[1][name]):
            raise DataError(f"Expected both servers to say the same of {name!r}, got two answers. Ask both operators.")
    sums = []
    for body in bodies:
        data = unhex(body["sums"])
        if len(data) != cells * 16 * prio.length:
            raise DataError(f"Expected sums of {cells} cells, got another number of bytes.")
        sums.append(np.frombuffer(data, np.uint8).reshape(cells, 16 * prio.length))
    counted, left_out = _numbers(bodies[0]["counted"], partition), _left_out(bodies[0]["left_out"])
    if counted.sum() + sum(left_out.values()) > len(partition.cells):
        raise DataError("Expected at most one report a user, counted or not, got more. Ask both operators.")
    if ((counted > 0) & (counted < agreement.least)).any() or any(one[counted == 0].any() for one in sums):
        raise DataError(
            f"Expected cells with {agreement.least} reports or more, and zeros for all others, got another one: a server opened "
            "what should stay shut. Ask both operators."
        )
    counts = prio.unshard(sums)
    if np.abs(counts, dtype=np.float64).max(initial=0.0) >= 1 << 31:
        raise DataError(
            "Expected counts below 2^31, got larger ones: a server opened something else. Ask both operators."
        )
    if (counts.sum(axis=1) != counted).any():
        raise DataError(
            "Expected the counts of every cell to add up to its reports, got others: a server opened something else, or a report "
            "was not one class. Ask both operators."
        )
    about = {**context(agreement), "openings": [sha256(one) for one in openings], "reports": int(counted.sum())}
    return Opened(partition, counts, counted, {**about, "left_out": left_out})


def _left_out(values: Any) -> dict[str, int]:
    if not isinstance(values, dict) or set(values) != LEFT_OUT or not all(_is_count(one) for one in values.values()):
        raise DataError(
            f"Expected how many reports do not count, by {', '.join(sorted(LEFT_OUT))}, got something else."
        )
    return dict(values)


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def _numbers(values: Any, partition: Partition) -> NDArray[np.int64]:
    sizes = np.bincount(list(partition.cells.values())).tolist()
    if (
        not isinstance(values, list)
        or len(values) != len(sizes)
        or not all(type(one) is int and 0 <= one <= size for one, size in zip(values, sizes, strict=True))
    ):
        raise DataError(
            f"Expected the number of reports of {len(sizes)} cells, at most one a user, got something else."
        )
    return np.array(values, np.int64)
