r"""Noisy sums of rows by group, where each record holds one row and stands in one group.

With rows :math:`r_v` of norm at most 1 and groups :math:`g(v)`, the release is :math:`\sum_{v : g(v) = k} r_v + \sigma Z_k`.
Means of features and counts of right answers are such sums.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import check_int, check_real, fail
from sfumato.bounded._owners import thinned
from sfumato.bounded.aggregation import to_steps
from sfumato.errors import UnsupportedUnitError
from sfumato.loops.kernels import INT16_ONE
from sfumato.noise._witness import witnessed
from sfumato.noise.gaussian import rounded_gaussian
from sfumato.noise.keys import Key, derive_key, operand_mac
from sfumato.privacy.units import NodeLevel, PersonNodesLevel, RecordLevel, Unit


def group_sensitivity(unit: Unit, *, by_person: bool = False) -> float:
    """Return the L2 sensitivity of all group sums together, in units of a full row.

    **Formal guarantee.** A record that is emptied takes one row of norm at most 1 out of one group, and changes no other
    row: 1. A record that is replaced takes one row out and puts one in, in the same group or another: at most 2.

    The caller must see to it that the row of a record reads that record, public facts and earlier releases only, and that
    an empty record has a zero row. With ``by_person`` the caller names the persons who own rows
    (:func:`noisy_group_sums`), each of whom counts as the mean of its rows: a person of many nodes moves the sums by 1
    (:mod:`~sfumato.bounded._owners`).

    >>> group_sensitivity(NodeLevel()), group_sensitivity(NodeLevel(relation="replace"))
    (1.0, 2.0)
    """
    if by_person and type(unit) is PersonNodesLevel:
        return 1.0
    if type(unit) not in (NodeLevel, RecordLevel):
        raise UnsupportedUnitError(
            f"Sums by group have no bounded sensitivity when the unit is {unit.describe()}: a record may be more than one "
            "row. Use NodeLevel or RecordLevel."
        )
    return 2.0 if unit.relation == "replace" else 1.0


def noisy_group_sums(
    rows: NDArray[np.float32],
    groups: NDArray[np.integer],
    num_groups: int,
    noise_stddev: float,
    key: Key,
    owners: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]:
    r"""Release the sum of the rows of each group, with noise on every entry.

    **Formal guarantee.** A :class:`~sfumato.privacy.events.GaussianEvent` with noise multiplier ``noise_stddev`` over
    :func:`group_sensitivity`, plus ``SAMPLER_TAU`` for each coordinate. Rows are put on a grid of whole steps that keeps
    their norm at most 1, so sums are exact.

    Longer rows are an error. The result is int64 [num_groups, width], in steps of 1 / 32767; a ``noise_stddev`` of 0 protects
    nothing. ``owners`` are the public persons who own the rows: each counts as the mean of its rows.

    >>> rows = np.array([[0.5], [1.0], [1.0]], np.float32)
    >>> noisy_group_sums(rows, np.array([0, 1, 1]), 2, 0.0, bytes(32)).tolist()
    [[16383], [65534]]
    """
    check_int(low=1, num_groups=num_groups)
    check_real(low=0, noise_stddev=noise_stddev)
    if groups.shape != rows.shape[:1] or not ((groups >= 0) & (groups < num_groups)).all():
        raise fail("groups", f"an array of shape {groups.shape}", f"to name one of {num_groups} groups for each row")
    longest = float(np.sqrt(np.square(rows, dtype=np.float64).sum(axis=1).max(initial=0.0)))
    if longest > 1 + 1e-5:
        raise fail("rows", "a longer row", "to have norm at most 1", "Scale rows before they are summed.")
    steps = to_steps(rows) if owners is None else thinned(to_steps(rows), owners)
    sums = np.zeros((num_groups, steps.shape[1]), np.int64)
    if num_groups == 1:
        sums[0] = steps.sum(axis=0, dtype=np.int64)  # as below, in a thirtieth of the time
    else:
        np.add.at(sums, groups, steps)
    if not noise_stddev:
        return sums
    noise_key, stddev = derive_key(key, operand_mac(key, steps, groups)), noise_stddev * INT16_ONE
    return witnessed(sums + rounded_gaussian(noise_key, stddev, 0, sums.size).reshape(sums.shape), stddev, lambda: sums)
