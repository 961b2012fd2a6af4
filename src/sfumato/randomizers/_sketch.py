"""A public low-dimensional projection before any randomizer: there are fewer columns, each reported with less noise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato._validate import check_int, fail
from sfumato.noise.coins import PublicWords, SecretWords
from sfumato.randomizers._randomizer import Estimate, Layout, Pmf, Randomizer, Reports
from sfumato.randomizers._values import Floats, Values, check_values, dense, finite, row_blocks, to_csr

if TYPE_CHECKING:
    from sfumato.randomizers._collision import Collision
    from sfumato.randomizers._direction import Capped
    from sfumato.randomizers._randomizer import Ranged


@dataclass(frozen=True)
class Sketch(Randomizer):
    r"""Public projection of d features to k, followed by a randomizer of k features. It estimates the projected features.

    The matrix P [d, k] holds :math:`\pm 1 / \sqrt k`, and depends on the collection alone. As :math:`E[P P^\top] = I`, inner
    products and norms of rows are kept on average, within about :math:`\sqrt{2 / k}` of their norms.

    **Formal guarantee.** That of ``inner``, for all d features together: the projection is a fixed function of one user's
    values and public coins.

    Args:
        num_features: number of features d.
        inner: a randomizer of k features, with a public range or norm for the projected values, which it clips to.
        collection: public name that fixes the matrix.

    Shapes: values are [n, d]; reports and estimates are those of ``inner``, [n, k]. O(k) a non-zero entry.

    Raises:
        InputError: a setting is out of range.

    >>> from sfumato.randomizers import Direction
    >>> sketch = Sketch(1433, Direction(64, epsilon=1.0, norm=5.0))
    >>> sketch.matrix.shape, sketch.bits, sketch.total_epsilon <= 1
    ((1433, 64), 1, True)

    Source: Johnson and Lindenstrauss (1984); signs, Achlioptas (2003), theorem 1.1.
    """

    num_features: int
    inner: Ranged | Capped | Collision
    collection: str = "collection"

    def __post_init__(self) -> None:
        check_int(low=1, high=2**31, num_features=self.num_features)
        if not isinstance(self.inner, Randomizer) or not hasattr(self.inner, "num_features"):
            remedy = "For example Direction(64, epsilon=1.0, norm=5.0)."
            raise fail("inner", self.inner, "to be a randomizer of features", remedy)

    @property
    def epsilon(self) -> float:  # type: ignore[override]
        """The budget that ``inner`` requests."""
        return self.inner.epsilon

    @property
    def delta(self) -> float:  # type: ignore[override]
        """The delta of ``inner``."""
        return self.inner.delta

    @property
    def realized_epsilon(self) -> float:
        """The guarantee of ``inner``, rounded upward."""
        return self.inner.realized_epsilon

    @property
    def total_epsilon(self) -> float:
        """The total that a report of ``inner`` costs a user."""
        return self.inner.total_epsilon

    @property
    def layout(self) -> Layout:
        """The layout of ``inner``."""
        return self.inner.layout

    @property
    def thresholds(self) -> dict[str, int | float]:
        """The thresholds of ``inner``."""
        return self.inner.thresholds

    @cached_property
    def matrix(self) -> Floats:
        """The public projection, [d, k]."""
        width = self.inner.num_features
        words = PublicWords(self.collection, "sketch").grid(np.arange(self.num_features), -(-width // 64))
        signs = np.unpackbits(words.astype("<u8").view(np.uint8), axis=1)[:, :width]
        matrix: Floats = (2.0 * signs - 1.0) / np.sqrt(width)
        return matrix

    def project(self, values: Values) -> Floats:
        """Project values to the k features of ``inner``, [n, k]. The result is as secret as the values."""
        values = check_values(values, self.num_features)
        if sparse.issparse(values):
            return np.asarray(to_csr(values) @ self.matrix)
        result = np.empty((values.shape[0], self.inner.num_features))
        for rows, block in row_blocks(values, self.num_features):
            result[rows] = finite(block) @ self.matrix
        return result

    def clipped(self, values: Values) -> Floats:
        """Return finite values [n, d]; ``inner`` clips their projection."""
        return finite(dense(check_values(values, self.num_features)))

    def encode(self, values: Values, source: SecretWords, users: NDArray[np.integer] | None = None) -> Reports:
        """Project the values, then randomize them by ``inner``."""
        return self.inner.encode(self.project(values), source, users)

    def estimate(self, reports: Reports) -> Estimate:
        """Return an unbiased estimate of the projected (and clipped) values."""
        return self.inner.estimate(reports)

    def variance(self, values: Values | None = None) -> Floats:
        """Return the variance of each coordinate of the projected values."""
        return self.inner.variance(None if values is None else self.project(values))

    def pmf(self, value: NDArray[np.generic], user: int = 0) -> Pmf:
        """Return the exact probability of every report on one value of d features."""
        return self.inner.pmf(self.project(dense(np.asarray(value)[None]))[0], user)
