"""Which scores the test nodes can compare: a class of three nodes says nothing of what averages over classes.

One rule holds for verdicts and for warnings of classes and groups: in every split a class needs as many test nodes as
:data:`~sfumato.scoring._paired.LEAST` says, and as many that are not of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.graph._targets import CLASS
from sfumato.scoring._paired import LEAST, Classes

if TYPE_CHECKING:
    from sfumato.scoring._answers import Answers

RANKED, RIGHT = "roc_auc", "accuracy"


@dataclass(frozen=True)
class Enough:
    """What can be compared on the test nodes of all splits: the ``names`` of scores.

    ``ranked`` classes have enough nodes, over which areas under the ROC curve are averaged. ``strata`` are the class of each
    node in each split, small ones taken together; None if values do not differ by class. ``lacking`` says why something is left
    out.
    """

    names: tuple[str, ...]
    ranked: tuple[int, ...] = ()
    strata: tuple[Classes, ...] | None = None
    lacking: str = ""

    @classmethod
    def of(cls, own: Sequence[Answers], classes: Sequence[str] = ()) -> Enough:
        """Return what the nodes that models answered for in each split can compare; ``classes`` are the names."""
        if own[0].kind != CLASS:
            return cls(tuple(own[0].each))
        counts = np.stack([np.bincount(one.truth, minlength=one.chances.shape[1]) for one in own])
        many = (counts.min(axis=0) >= LEAST) & ((counts.sum(axis=1, keepdims=True) - counts).min(axis=0) >= LEAST)
        ranked, others = tuple(np.flatnonzero(many).tolist()), tuple((counts.sum(axis=1) - counts.max(axis=1)).tolist())
        strata = tuple(np.where(many[one.truth], one.truth, -1) for one in own)
        few = [(int(counts[:, at].min()), at) for at in np.flatnonzero(counts.any(axis=0) & ~many).tolist()]
        if min(others) < LEAST or not ranked:
            return cls((RIGHT,), (), strata, _not_compared(counts.min(axis=0), classes))
        left_out = _few_words(few, classes) if few else ""
        return cls((RIGHT, RANKED, "log_loss"), ranked, strata, left_out)

    def values(self, one: Answers, name: str) -> NDArray[np.float64]:
        """Return what is measured of each node, whose mean is the score."""
        return one.ranked(self.ranked) if name == RANKED else one.each[name]

    def strata_of(self, name: str) -> tuple[Classes, ...] | None:
        """Return the classes by which the values of a score differ; None of the share of right answers."""
        return None if name == RIGHT else self.strata


def enough_of(label: int, found: Sequence[Answers]) -> bool:
    """Return whether in every split there are enough nodes of a class, and enough of others."""
    sizes = [(int((one.truth == label).sum()), len(one.truth)) for one in found]
    return bool(sizes) and all(LEAST <= here <= total - LEAST for here, total in sizes)


def _name(at: int, classes: Sequence[str]) -> str:
    return repr(str(classes[at])) if len(classes) > at else str(at)


def _nodes(count: int) -> str:
    return "no test node" if not count else "1 test node" if count == 1 else f"{count:,} test nodes"


def _not_compared(counts: NDArray[np.int64], classes: Sequence[str]) -> str:
    often, few = int(counts.argmax()), _nodes(int(counts.sum() - counts.max()))
    who = f"class {_name(1 - often, classes)} has {few}"
    if len(counts) > 2:
        who = f"classes other than {_name(often, classes)} have {few}"
    return f"AUC and log-loss are not compared: {who}, and {LEAST} are needed."


def _few_words(few: Sequence[tuple[int, int]], classes: Sequence[str]) -> str:
    least, at = min(few)
    if len(few) == 1:
        return f"AUC leaves out class {_name(at, classes)}, which has {_nodes(least)}: {LEAST} are needed."
    return f"AUC leaves out {len(few)} classes with fewer than {LEAST} test nodes."
