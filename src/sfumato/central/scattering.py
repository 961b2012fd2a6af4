r"""Logistic regression on scattering coefficients: images learn under privacy from fixed features, by DP-SGD.

1. *Coefficients.* Each image becomes 81 small pictures a channel (:mod:`~sfumato.nn.scattering`), which are scaled in groups of
   three to mean 0 and variance 1 within the image. This is a public function of one record, so it is free.
2. *Head.* Multinomial logistic regression by DP-SGD, started at zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sfumato._validate import check_int, check_real, fail
from sfumato.bounded.exact import ROW_BITS, WholeRows
from sfumato.central._learning import Input, sgd_event, train
from sfumato.central.linear import zero_head
from sfumato.method.card import Audience, Card, Control
from sfumato.method.contract import Arrays, Outcome, Planned, Session
from sfumato.method.curator import CuratorMethod
from sfumato.nn.scattering import CHANNELS, STRIDE, group_norm, scattering
from sfumato.nn.weights import load_weights, network_arrays, num_parameters
from sfumato.record.ledger import Release

if TYPE_CHECKING:
    from sfumato.graph.graph import Graph, PublicFacts
    from sfumato.nn.training import Steps
    from sfumato.privacy.units import Unit

_PICTURES = 3  # in a group
_BLOCK = 1024


@dataclass(frozen=True)
class Scattering(CuratorMethod):
    r"""The method learns logistic regression on scattering coefficients of images; features without a learned part cost nothing.

    The scores of image v are :math:`W s(x_v) + b`, float32 [num_nodes, num_classes], with s(x) the scattering coefficients of x,
    normalized within the image: 3,969 numbers for 28 x 28 pixels.

    **Formal guarantee.** s reads one record, and arcs are never read. So at node and record level there is one DP-SGD run
    (:mod:`~sfumato.bounded.gradients`) on rows s(x), which is a :class:`~sfumato.privacy.events.PoissonGaussianEvent`.

    Errors: ``calibrate`` raises UnsupportedUnitError under units edge, local and link, and InputError for data that are no
    images.

    Args:
        epochs: passes over the training images.
        learning_rate: step size of Adam, in (0, 10].
        batch_size: expected number of images in a Poisson sample.
        l2_clip_norm: largest L2 norm of one example's gradient.

    Raises:
        InputError: a setting is out of range.

    >>> from sfumato.graph.graph import PublicFacts
    >>> from sfumato.privacy.budget import Budget
    >>> from sfumato.privacy.units import RecordLevel
    >>> facts = PublicFacts(70000, 60000, 784, 10, directed=False, image_shape=(1, 28, 28))
    >>> plan = Scattering().calibrate(Budget(1.2, 1e-5), RecordLevel(), facts)
    >>> [release.shape for release in plan.releases], round(plan.epsilon, 2)
    ([(39700,)], 1.2)

    Source: Tramèr and Boneh (2021), Differentially private learning needs better features (or much more data), section 3.
    """

    epochs: int = 10
    learning_rate: float = 0.005
    batch_size: int = 4096
    l2_clip_norm: float = 0.1
    card: ClassVar[Card] = Card(
        name="scattering",
        summary="logistic regression on scattering coefficients of images",
        units=("node", "record"),
        candidates=({"learning_rate": 0.0025}, {"learning_rate": 0.005}, {"learning_rate": 0.01}),
        citations=("tramer2021differentially",),
        audience=Audience(("weights",), predictions="predictions"),
        controls=(
            Control("floor", "floor: pixels, same budget", "linear"),
            Control("ceiling", "ceiling: no privacy", private=False),
        ),
        reads_links=False,
    )

    def __post_init__(self) -> None:
        check_int(low=1, epochs=self.epochs)
        check_real(low=0, high=10, open_low=True, learning_rate=self.learning_rate)
        check_int(low=1, batch_size=self.batch_size)
        check_real(low=0, open_low=True, l2_clip_norm=self.l2_clip_norm)

    def releases(self, unit: Unit, public: PublicFacts, noise_multiplier: float) -> tuple[Release, ...]:
        """List one DP-SGD run.

        ``unit``, ``public`` and ``noise_multiplier`` are those of :meth:`~sfumato.method.contract.Method.releases`.
        """
        event = sgd_event(unit, public, noise_multiplier, epochs=self.epochs, batch_size=self.batch_size)
        with torch.device("meta"):
            size = num_parameters(zero_head(num_coefficients(public.image_shape), public.num_classes))
        return (Release("head", event, (size,), size, arc_change=unit.no_arc_change),)

    def check(self, graph: Graph) -> None:
        """Refuse a graph whose features are not the pixels of images."""
        num_coefficients(graph.image_shape)

    def run(self, plan: Planned, graph: Graph, session: Session) -> Outcome:
        """Compute the coefficients, then train the head.

        ``plan``, ``graph`` and ``session`` are those of :meth:`~sfumato.method.contract.Method.run`.
        """
        head = zero_head(num_coefficients(plan.public.image_shape), plan.public.num_classes)
        learned = np.flatnonzero(graph.train_mask | graph.val_mask)
        rows = _Rows(graph, learned, session.watch.stage("coefficients"), whole="labels" not in plan.unit.public)
        train(self, plan, session, "head", head, graph, rows)
        return Outcome(network_arrays("head", head), {})

    def scores(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> NDArray[np.float32]:
        """Apply the head to the coefficients of each image.

        ``plan``, ``weights``, ``released`` and ``graph`` are those of :meth:`~sfumato.method.contract.Method.scores`.
        """
        head = zero_head(num_coefficients(plan.public.image_shape), plan.public.num_classes)
        load_weights(head, weights, "head")
        nodes = np.arange(graph.num_nodes)
        with torch.no_grad():
            found = [head(coefficients(graph, nodes[at : at + _BLOCK])) for at in range(0, len(nodes), _BLOCK)]
        return torch.cat(found).numpy()


def num_coefficients(image_shape: tuple[int, int, int] | None) -> int:
    """Return how many numbers the coefficients of one image are.

    Args:
        image_shape: channels, height and width; None for data that are no images.

    Raises:
        InputError: the data are no images.

    >>> num_coefficients((1, 28, 28))
    3969
    """
    if image_shape is None:
        raise fail(
            "image_shape",
            None,
            "to be the channels, height and width of images",
            "Method 'scattering' learns from images: read them with sfumato.graph.images, or use mlp or linear.",
        )
    channels, height, width = image_shape
    return channels * CHANNELS * (height // STRIDE) * (width // STRIDE)


def coefficients(graph: Graph, ids: NDArray[np.integer]) -> Tensor:
    """Return the normalized coefficients of some images, float32 [len(ids), num_coefficients].

    Args:
        graph: the images.
        ids: node numbers.
    """
    assert graph.image_shape is not None
    assert isinstance(graph.x, np.ndarray)
    channels = graph.image_shape[0]
    images = torch.from_numpy(graph.x[ids].astype(np.float32, copy=False)).view(-1, *graph.image_shape)
    return group_norm(scattering(images), channels * CHANNELS // _PICTURES)


class _Rows:
    """Coefficients are kept as whole numbers of at most 2^16, which float32 holds exactly: half the memory of float64."""

    def __init__(self, graph: Graph, ids: NDArray[np.int64], told: Steps | None, *, whole: bool) -> None:
        self.place = np.full(graph.num_nodes, -1)
        self.place[ids] = np.arange(len(ids))
        self.matrix = torch.empty(len(ids), num_coefficients(graph.image_shape))
        self.ones, self.norms = torch.empty(2, len(ids), dtype=torch.float64)
        self.whole = whole
        for at in range(0, len(ids), _BLOCK):
            part = slice(at, at + _BLOCK)
            rows = WholeRows.of(coefficients(graph, ids[part]).double(), bias=True)
            self.matrix[part], self.ones[part], self.norms[part] = rows.matrix, rows.ones, rows.norms
            if told is not None:
                told(min(at + _BLOCK, len(ids)), len(ids))

    def __call__(self, ids: NDArray[np.integer]) -> Input:
        at = torch.from_numpy(self.place[ids])
        rows, norms = self.matrix[at], self.norms[at]
        if self.whole:
            return WholeRows(rows.double(), self.ones[at], norms)
        return rows.mul_(norms.float()[:, None] / 2**ROW_BITS)
