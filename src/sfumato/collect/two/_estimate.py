r"""Class shares from what two servers opened: unbiased, with intervals that cover the noise of both.

Over the m cells in which somebody was counted, let :math:`Z_c` be the opened counts of class c together and k the number of
reports, which is exact: :math:`Z_c / k` estimates the share of c among those who were counted. The noise of :math:`Z_c` has the
variance :math:`2 m v`, where v is that of one entry of one server (:func:`~sfumato.local._shared_counts.zero_sum_variance`). The
interval is :math:`Z_c \pm (1.96 \sqrt{2 m v} + 1/2)` over k, cut at 0 and 1. By the exact law of noise it holds the true share in
94.1 of 100 draws or more, for every epsilon from 0.02 to 20, 2 to 40 classes and 1 to 100 cells. It says nothing of users who
were not counted. Each interval stands alone.

**Formal guarantee.** Post-processing of the openings; spends nothing, however often it runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato._validate import check_real
from sfumato.collect._estimate import Answer, answers_of
from sfumato.errors import DataError
from sfumato.local._drop import Z
from sfumato.local._shared_counts import LEAST_EPSILON, zero_sum_variance
from sfumato.noise._geometric import replaced_scale

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.collect.two._files import OpenedFile
    from sfumato.collect.two._opening import Opened


@dataclass(frozen=True)
class CellAnswers:
    """Class shares of one cell, which has so many users who were ``asked``; none if nobody was counted."""

    cell: int
    asked: int
    reports: int
    shares: tuple[Answer, ...]


@dataclass(frozen=True)
class OpenedAnswers:
    """What both servers' counts say, of all cells together and of single ``cells`` where these were asked for.

    ``about`` names agreement, keys and openings.
    """

    collection: str
    sha256: str
    asked: int
    left_out: Mapping[str, int]
    epsilon: float
    answers: Mapping[str, tuple[Answer, ...]]
    counts: Mapping[str, int]
    cells: tuple[CellAnswers, ...]
    about: Mapping[str, Any]

    @property
    def reports(self) -> int:
        """How many reports were counted."""
        return self.counts["label"]

    @property
    def silent(self) -> int:
        """How many users have no report at either server."""
        return self.asked - self.reports - sum(self.left_out.values())

    def to_dict(self) -> dict[str, Any]:
        known = {name: self.about[name] for name in ("agreement", "servers", "openings")}
        known |= {"collection": self.collection, "sha256": self.sha256, "asked": self.asked, "reports": self.reports}
        known |= {"left_out": dict(self.left_out), "counts": dict(self.counts), "confidence": 0.95}
        known |= {"privacy": {"unit": "servers", "epsilon": self.epsilon, "delta": 0.0}}
        known |= {"answers": {part: [asdict(one) for one in answers] for part, answers in self.answers.items()}}
        return {**known, "cells": [asdict(one) for one in self.cells]} if self.cells else known


def estimate(file: OpenedFile, *, by_cell: bool = False) -> OpenedAnswers:
    """Estimate class shares of all who were counted, and with ``by_cell`` also of those of each cell.

    Raises:
        DataError: nobody was counted.
        InputError: epsilon is so small that counts say nothing.
    """
    agreement, opened = file.agreed.agreement, file.join()
    check_real("Counts say nothing then.", low=LEAST_EPSILON, epsilon=agreement.epsilon)
    heard = opened.counted > 0
    if not heard.any():
        raise DataError("Expected at least one report that both servers counted, got none. Nothing can be estimated.")
    variance = 2 * zero_sum_variance(float(replaced_scale(agreement.epsilon)), len(agreement.classes))
    everybody = _shares(agreement.classes, opened.counts[heard], variance)
    return OpenedAnswers(
        agreement.collection,
        file.sha256,
        len(opened.partition.cells),
        opened.about["left_out"],
        agreement.epsilon,
        {"label": everybody},
        {"label": int(opened.counted.sum())},
        tuple(_by_cell(agreement.classes, opened, variance)) if by_cell else (),
        opened.about,
    )


def _by_cell(classes: tuple[str, ...], opened: Opened, variance: float) -> Iterator[CellAnswers]:
    asked = np.bincount(list(opened.partition.cells.values()))
    for cell, (reports, counts) in enumerate(zip(opened.counted, opened.counts, strict=True)):
        shares = _shares(classes, counts[None], variance) if reports else ()
        yield CellAnswers(cell, int(asked[cell]), int(reports), shares)


def _shares(classes: tuple[str, ...], counts: NDArray[np.int64], variance: float) -> tuple[Answer, ...]:
    """Shares from the counts of some cells in which somebody was counted, [m, C]."""
    total, summed = int(counts.sum()), counts.sum(axis=0)
    half = Z * math.sqrt(len(counts) * variance) + 0.5
    return answers_of(
        classes, "share", summed / total, (summed - half) / total, (summed + half) / total, least=0.0, most=1.0
    )
