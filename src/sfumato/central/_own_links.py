r"""Suggestions for one viewer from released noisy pairs and the links that the viewer knows: noisy friends of friends.

With :math:`q_1` and :math:`q_0` the chances that a pair with and without an edge came out,
:math:`b_{vw} = (R_{vw} - q_0) / (q_1 - q_0)` has the mean of the true bit, and the variance
:math:`s = q_0 (1 - q_0) / (q_1 - q_0)^2` where there is no edge: 0.18 at epsilon 2. For a viewer with links N:

1. *Templates.* A new friend is linked with N as some friend is: with a family, a class, a team. The rows of N among
   itself are noisy, so they are replaced by what their eigenvalues beyond those of noise (:math:`2 \sqrt{s |N|}`) say, shrunk
   (:math:`(\lambda + \sqrt{\lambda^2 - 4 s |N|}) / 2`): :math:`t_v` for each v in N, from 0 to 1.
2. *Links.* Another node w has the likelihood ratio of a friend by its own row among N, the mean over the templates of
   :math:`e^{(t_v^\top b_w - |t_v|^2 / 2) / s}`.
3. *Likeness.* How alike w is to the viewer, by public features and labels, is replaced by how rare that is among all
   nodes, :math:`\phi`. If it is :math:`1 / t` times as frequent on average among friends, its log ratio is
   :math:`(1 - 1 / \bar\phi) \phi`, counted less for viewers of few links.

The number of links to N has a noise that grows with the root of the degree, while the number itself grows with the degree: so
lists get better with it.

**Who may see a list.** It is made of the release, of public values, and of what the viewer knows. For any edge that does not end
at the viewer it tells no more than the release: pure epsilon. It does tell the viewer's own links: it is for the viewer alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import scipy.sparse as sp
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_FEW = 5.0  # links of a viewer that say half of what likeness is worth
_LEAST = 1e-3  # of the variance of a bit, where no noise was added


def scores_for(
    released: sp.csr_matrix,
    neighbors: NDArray[np.integer],
    with_edge: float,
    without: float,
    likeness: Floats | None = None,
) -> Floats:
    """Return the score of every node for a viewer with these ``neighbors``, float64 [num_nodes]; higher is more likely a link.

    ``released`` is the symmetric matrix of pairs that came out, each with chance ``with_edge`` or ``without``. ``likeness`` says
    how alike each node is to the viewer, by public values.

    >>> import scipy.sparse as sp
    >>> fan = sp.csr_matrix(np.array([[0, 1, 1, 0, 0], [1, 0, 1, 1, 0], [1, 1, 0, 1, 0], [0, 1, 1, 0, 1], [0, 0, 0, 1, 0]]))
    >>> int(scores_for(fan, np.array([1, 2]), 1.0, 0.0)[3:].argmax())
    0
    """
    size = released.shape[0]
    if len(neighbors) == 0:
        return np.zeros(size)
    bits = (np.asarray(released[neighbors].todense(), np.float64) - without) / (with_edge - without)
    variance = max(without * (1 - without) / (with_edge - without) ** 2, _LEAST)
    templates = _templates(bits[:, neighbors], variance)
    ratios = (templates @ bits - np.square(templates).sum(axis=1)[:, None] / 2) / variance
    most = ratios.max(axis=0)
    found: Floats = most + np.log(np.exp(ratios - most).mean(axis=0))
    if likeness is not None:
        reached = np.searchsorted(np.sort(likeness), likeness, side="left")
        rarity = np.log((size + 1) / (size - reached + 1))
        mean = max(float(rarity[neighbors].mean()), 1.0)
        found += (1 - 1 / mean) * len(neighbors) / (len(neighbors) + _FEW) * rarity
    return found


def _templates(bits: Floats, variance: float) -> Floats:
    """The rows of a symmetric matrix with noise of this variance, by its eigenvalues beyond the noise."""
    among = bits.copy()
    np.fill_diagonal(among, 0)
    values, vectors = np.linalg.eigh(among)
    edge = 4 * variance * len(bits)
    beyond = np.sqrt(np.maximum(values**2 - edge, 0))
    shrunk = np.where(values**2 > edge, (values + beyond) / 2, 0) * (values > 0)
    if not shrunk.any():
        shrunk[-1] = max(values[-1], 0) / 2
    return np.clip((vectors * shrunk) @ vectors.T, 0, 1)
