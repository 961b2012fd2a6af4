r"""Logistic regression on scattering coefficients: images learn under privacy from fixed features, by DP-SGD.

1. *Coefficients.* Each image becomes 81 small pictures a channel (:mod:`~sfumato.nn._scattering`), which are scaled in groups of
   three to mean 0 and variance 1 within the image. This is a public function of one record, so it is free.
2. *Head.* Multinomial logistic regression by DP-SGD, started at zero; or a small convolutional network on the small pictures.
"""

from __future__ import annotations

import hashlib
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sfumato._validate import ABOVE_0, AT_LEAST_1, PRIVATE_LABELS, STEP_SIZE, check_fields, fail, one_of, setting
from sfumato.bounded._exact import WholeRows
from sfumato.central._heads import zero_head
from sfumato.central._learning import sgd_event, train
from sfumato.errors import InputError
from sfumato.method.card import Audience, Card, Control
from sfumato.method.contract import Arrays, Outcome, Planned, Session
from sfumato.method.curator import CuratorMethod
from sfumato.nn._scattering import CHANNELS, STRIDE, PictureHead, group_norm, scattering
from sfumato.nn._weights import load_weights, network_arrays, num_parameters, seeded
from sfumato.record.ledger import Release

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph, PublicFacts
    from sfumato.nn._training import Steps
    from sfumato.privacy.units import Unit

_PICTURES = 3  # in a group
_BLOCK = 1024
_AT_ONCE = 512  # rows of a DP-SGD step, in a few megabytes
_KEPT: dict[bytes, Coefficients] = {}


@dataclass(frozen=True)
class Scattering(CuratorMethod):
    """The method learns logistic regression on scattering coefficients of images; features without a learned part cost nothing.

    The scores of image v are :math:`W s(x_v) + b`, with s(x) the scattering coefficients of x, normalized within the image: 3,969
    numbers for 28 x 28 pixels. With ``head="cnn"`` they are those of :class:`~sfumato.nn._scattering.PictureHead`.

    **Formal guarantee.** s reads one record, and arcs are never read. So at node and record level there is one DP-SGD run
    (:mod:`~sfumato.bounded._gradients`) on rows s(x), which is a :class:`~sfumato.privacy.events.PoissonGaussianEvent`. Gradients
    of a convolutional head are computed image by image (:mod:`~sfumato.bounded._example_gradients`).

    Args:
        epochs: passes over the training images.
        learning_rate: step size of Adam, in (0, 10].
        batch_size: expected number of images in a Poisson sample.
        l2_clip_norm: largest L2 norm of one example's gradient.
        head: "linear" (logistic regression) or "cnn" (two convolutions and two dense layers, computed image by image: slow).

    Source: Tramèr and Boneh (2021), Differentially private learning needs better features (or much more data), section 3.
    """

    epochs: int = 20
    learning_rate: float = 0.006
    batch_size: int = setting(4096, PRIVATE_LABELS)
    l2_clip_norm: float = setting(1.0, PRIVATE_LABELS)
    head: str = "linear"
    card: ClassVar[Card] = Card(
        name="scattering",
        summary="logistic regression on scattering coefficients of images",
        units=("node", "record"),
        candidates=({"learning_rate": 0.003}, {"learning_rate": 0.006}, {"learning_rate": 0.012}),
        citations=("tramer2021differentially",),
        audience=Audience(("weights",), predictions="predictions"),
        controls=(
            Control("floor", "floor: pixels, same budget", "linear"),
            Control("ceiling", "ceiling: no privacy", private=False),
        ),
        reads_links=False,
    )

    def __post_init__(self) -> None:
        check_fields(self, head=one_of("linear", "cnn"))
        check_fields(self, epochs=AT_LEAST_1, learning_rate=STEP_SIZE, batch_size=AT_LEAST_1, l2_clip_norm=ABOVE_0)

    def releases(self, unit: Unit, public: PublicFacts, noise_multiplier: float) -> tuple[Release, ...]:
        event = sgd_event(unit, public, noise_multiplier, epochs=self.epochs, batch_size=self.batch_size)
        size = num_parameters(self._build(public))
        return (Release("head", event, (size,), size, arc_change=unit.no_arc_change),)

    def check(self, graph: Graph) -> None:
        """Refuse a graph whose features are not the pixels of images, or are not dense."""
        num_coefficients(graph.image_shape)
        if not isinstance(graph.x, np.ndarray):
            raise InputError(f"Expected the pixels of {graph.name!r} as a dense array, got a sparse one. Convert them.")

    def run(self, plan: Planned, graph: Graph, session: Session) -> Outcome:
        with seeded(session.seed):
            head = self._build(plan.public)
        found, alone = coefficients(graph, session.watch.stage("coefficients")), self.head == "cnn"
        rows = found.plain if alone or "labels" in plan.unit.public else found.whole
        train(self, plan, session, "head", head, graph, rows, block=_AT_ONCE, alone=alone)
        return Outcome(network_arrays("head", head), {})

    def scores(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> NDArray[np.float32]:
        head = self._build(plan.public)
        load_weights(head, weights, "head")
        found, nodes = coefficients(graph), np.arange(graph.num_nodes)
        with torch.no_grad():
            parts = [head(found.plain(nodes[at : at + _BLOCK])) for at in range(0, len(nodes), _BLOCK)]
        return torch.cat(parts).numpy()

    def _build(self, public: PublicFacts) -> nn.Module:
        inputs = num_coefficients(public.image_shape)
        if self.head == "linear":
            return zero_head(inputs, public.num_classes)
        assert public.image_shape is not None
        channels, *sides = public.image_shape
        height, width = (side // STRIDE for side in sides)
        return PictureHead((channels * CHANNELS, height, width), public.num_classes)


@dataclass(frozen=True)
class Coefficients:
    """Normalized coefficients of images are kept as integers of 16 bits, with their bias inputs: half of float32."""

    rows: WholeRows

    def whole(self, ids: NDArray[np.integer]) -> WholeRows:
        """Return the rows of some images as DP-SGD takes them."""
        return self.rows[torch.from_numpy(ids)]

    def plain(self, ids: NDArray[np.integer]) -> Tensor:
        """Return the rows of some images as numbers."""
        return self.whole(ids).plain()


def coefficients(graph: Graph, progress: Steps | None = None) -> Coefficients:
    """Compute the coefficients of all images of a graph, or take those that were found before for the same pixels."""
    assert graph.image_shape is not None
    x = np.ascontiguousarray(graph.x, np.float32)
    key = hashlib.sha256(repr(graph.image_shape).encode() + x.data).digest()
    if key in _KEPT:
        return _KEPT[key]
    count, groups = len(x), graph.image_shape[0] * CHANNELS // _PICTURES
    parts: list[WholeRows] = []
    images = torch.from_numpy(x).view(-1, *graph.image_shape)
    for at in range(0, count, _BLOCK):
        part = slice(at, at + _BLOCK)
        parts.append(WholeRows.of(group_norm(scattering(images[part]), groups).double(), bias=True))
        if progress is not None:
            progress(min(at + _BLOCK, count), count)
    _KEPT[key] = found = Coefficients(WholeRows.joined(parts))
    weakref.finalize(graph.x, _KEPT.pop, key, None)
    return found


def num_coefficients(image_shape: tuple[int, int, int] | None) -> int:
    """Return how many numbers the coefficients of one image are."""
    if image_shape is None:
        raise fail(
            "image_shape",
            None,
            "to be the channels, height and width of images",
            "Method 'scattering' learns from images: read them with sfumato.datasets.images, or use mlp or linear.",
        )
    channels, height, width = image_shape
    if min(height, width) < 2 * STRIDE:
        raise fail(
            "image_shape", image_shape, f"to be at least {2 * STRIDE} x {2 * STRIDE} pixels", "Use mlp or linear."
        )
    return channels * CHANNELS * (height // STRIDE) * (width // STRIDE)
