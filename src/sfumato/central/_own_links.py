r"""Suggestions for one viewer from released noisy pairs and the links that the viewer knows: noisy friends of friends.

With :math:`q_1` and :math:`q_0` the chances that a pair with and without an edge came out,
:math:`b_{vw} = (R_{vw} - q_0) / (q_1 - q_0)` has the mean of the true bit. The score of w for a viewer with links N is
:math:`\sum_{v \in N} (c_v + \bar c / 2)\, b_{vw}`, where :math:`c_v = \sum_{v' \in N} b_{vv'}`, shrunk by its noise to its mean
:math:`\bar c` and at least 0, says how many of the viewer's links v is linked with. With equal weights it is an estimate of the
number of common neighbors, whose noise has the variance :math:`|N| q_0 (1 - q_0) / (q_1 - q_0)^2` for a w without any, which is
0.18 for each link at epsilon 2. So a number that grows with the degree has a noise that grows with its root: lists get better.

**Who may see a list.** It is made of the release, and of what the viewer knows. For any edge that does not end at the viewer it
tells no more than the release: pure epsilon. It does tell the viewer's own links, so it is for the viewer alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import scipy.sparse as sp
    from numpy.typing import NDArray

_LEAST = 0.1


def scores_for(
    released: sp.csr_matrix, neighbors: NDArray[np.integer], with_edge: float, without: float
) -> NDArray[np.float64]:
    """Return the score of every node for a viewer with these ``neighbors``, float64 [num_nodes]; higher is more likely a link.

    ``released`` is the symmetric matrix of pairs that came out, each with chance ``with_edge`` or ``without``.

    >>> import scipy.sparse as sp
    >>> path = sp.csr_matrix(np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]]))
    >>> scores_for(path, np.array([1]), 1.0, 0.0).tolist()
    [0.05, 0.0, 0.05, 0.0]
    """
    bits = (np.asarray(released[neighbors].todense(), np.float64) - without) / (with_edge - without)
    counts = bits[:, neighbors].sum(axis=1) - bits[np.arange(len(neighbors)), neighbors]
    noise = max(len(neighbors) - 1, 0) * without * (1 - without) / (with_edge - without) ** 2
    mean = float(counts.mean()) if len(counts) else 0.0
    spread = max(float(counts.var()) - noise, 0.0) if len(counts) else 0.0
    shrunk = mean + (spread / (spread + noise) if spread + noise else 1.0) * (counts - mean)
    found: NDArray[np.float64] = (np.maximum(shrunk, 0) + max(mean, _LEAST) / 2) @ bits
    return found
