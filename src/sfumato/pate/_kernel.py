r"""Teachers without training steps are kernel ridge regressions on the edges of images.

An image is a row h of :func:`sfumato.students._histograms.edge_histograms`. A teacher whose n records have the rows H and the
one-hot classes Y scores a query q by

.. math:: k(q, H) \left(k(H, H) + \lambda I\right)^{-1} (Y - 1 / C), \qquad k(a, b) = e^{-\|a - b\|^2 / m},

where m is the median of the squared distances between its own records. A few hundred images decide little about the weights
of a convolution; what is left to learn here is little, and 250 teachers take seconds.

**Formal guarantee.** As for teachers of any kind (:mod:`sfumato.pate._teachers`): one record reaches one teacher, and
moves one vote on each query. *Proof.* The histogram of an image reads that image alone; H, Y and m are of the teacher's
own records. (Slanted images are set upright 500 at a time: replacing one changes no other bit; removing one moves
others by a place, and their last bits with it.)

Source: Saunders, Gammerman and Vovk (1998), kernel ridge regression; Dalal and Triggs (2005).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from sfumato._validate import ABOVE_0, AT_LEAST_1, check_fields, fail, integer
from sfumato.pate._teachers import Ids, SeparateTeachers, Teachers, assign, train_each
from sfumato.students._histograms import SIDE, edge_histograms, upright

if TYPE_CHECKING:
    from sfumato.nn._training import Steps

_AT_ONCE = 500
_MOST_RECORDS = 10_000  # the kernel of a teacher's records with themselves is held whole


class KernelTeacher:
    """A kernel teacher is kernel ridge regression on rows, with the median distance as its width."""

    def __init__(self, num_classes: int, ridge: float = 0.01) -> None:
        self.num_classes, self.ridge = num_classes, ridge

    def fit(self, x: NDArray[np.floating], y: NDArray[np.integer]) -> KernelTeacher:
        self.rows = np.asarray(x)
        distances = _distances(self.rows, self.rows)
        self.width = float(np.median(distances)) or 1.0
        gram = np.exp(-distances / self.width).astype(np.float64) + self.ridge * np.eye(len(x))
        self.weights = np.linalg.solve(gram, np.eye(self.num_classes)[y] - 1 / self.num_classes).astype(self.rows.dtype)
        return self

    def predict(self, x: NDArray[np.floating]) -> NDArray[np.int64]:
        scores = np.exp(-_distances(np.asarray(x), self.rows) / self.width) @ self.weights
        return np.asarray(scores.argmax(1), np.int64)


@dataclass(frozen=True)
class KernelEnsemble:
    """Public settings of teachers that regress on the edges of images; ``ridge`` is lambda, ``slanted`` sets them upright."""

    num_teachers: int
    num_classes: int
    ridge: float = 0.01
    slanted: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        check_fields(self, num_teachers=AT_LEAST_1, num_classes=integer(2), seed=integer(0), ridge=ABOVE_0)

    def fit(
        self, x: NDArray[np.floating], y: NDArray[np.integer], ids: Ids, progress: Steps | None = None
    ) -> KernelTeachers:
        """Train every teacher on its own records, images [n, channels, 28, 28]: the only call that touches private data."""
        largest = int(np.bincount(assign(ids, self.num_teachers, self.seed), minlength=1).max())
        if largest > _MOST_RECORDS:
            raise fail(
                "num_teachers", self.num_teachers, f"to leave at most {_MOST_RECORDS} records to each", "Take more."
            )
        trained = train_each(
            lambda _: KernelTeacher(self.num_classes, self.ridge),
            self.describe(x),
            y,
            ids,
            num_teachers=self.num_teachers,
            num_classes=self.num_classes,
            seed=self.seed,
            progress=progress,
        )
        return KernelTeachers(self, trained)

    def describe(self, x: Any) -> NDArray[np.float32]:
        """Compute the histograms of images: float32 [n, 588]."""
        x = np.ascontiguousarray(x, np.float32)
        if x.ndim != 4 or x.shape[2:] != (SIDE, SIDE) or not np.isfinite(x).all():
            expected = f"to hold finite images of the shape [n, channels, {SIDE}, {SIDE}]"
            raise fail("x", x.shape, expected, "For other rows use Ensemble or train_each.")
        parts = torch.from_numpy(x).split(_AT_ONCE)
        return np.concatenate([edge_histograms(upright(part) if self.slanted else part).numpy() for part in parts])


@dataclass(frozen=True, eq=False)
class KernelTeachers(Teachers):
    settings: KernelEnsemble
    trained: SeparateTeachers

    @property
    def num_classes(self) -> int:  # type: ignore[override]
        return self.settings.num_classes

    def predict(self, queries: Any) -> NDArray[np.int64]:
        return self.trained.predict(self.settings.describe(queries))


def _distances(a: NDArray[np.floating], b: NDArray[np.floating]) -> NDArray[np.floating]:
    """Squared distances between rows [len(a), len(b)]."""
    squares = (a * a).sum(1)[:, None] + (b * b).sum(1)[None, :]
    return np.asarray(np.maximum(squares - 2 * (a @ b.T), 0))
