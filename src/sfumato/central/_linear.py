r"""The graph-free linear model: logistic regression on centered features, by full-batch DP-SGD where labels are private.

1. *Center.* :math:`m = \frac{1}{n} (\sum_v \hat x_v + \sigma Z)`, with :math:`\hat x_v` the training nodes' features scaled
   to norm 1, shrunk by the part of its square that noise explains. Then node v has the row :math:`\hat x_v - m`, scaled to
   norm 1. Columns that all nodes share would else take most of each clipped gradient. Matrices that would be too large if
   dense (a public count) keep their zeros and are not centered.
2. *Head.* Multinomial logistic regression on these rows, all training nodes at every step (:mod:`~sfumato.central._heads`).
3. *Scale*, where labels are private: one number that scores are multiplied by, by the labels of validation nodes
   (:mod:`~sfumato.central._weighing`). Clipped gradients make a head too sure or not sure enough; no answer changes.

With few features a full batch is the cheap regime: noise on a mean gradient falls with the number of nodes, not of a batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import ABOVE_0, AT_LEAST_1, PRIVATE_LABELS, STEP_SIZE, check_fields, setting
from sfumato.bounded._gradients import check_examples
from sfumato.bounded._grouping import group_sensitivity, noisy_group_sums
from sfumato.bounded._owners import count_of, owners_of
from sfumato.central._heads import CLIP, LENGTH, OnLongRows, apply, chosen, for_long_rows, head_size, plain, zero_head
from sfumato.central._learning import train
from sfumato.central._rows import centered_rows, normalized
from sfumato.central._weighing import STEPS, learn_scale
from sfumato.loops.kernels import INT16_ONE
from sfumato.method._gaussian import multiplier_of, part_of
from sfumato.method.card import Audience, Card
from sfumato.method.contract import Arrays, Outcome, Planned, Session
from sfumato.method.curator import CuratorMethod
from sfumato.nn._weights import load_weights, network_arrays
from sfumato.privacy.events import PoissonGaussianEvent
from sfumato.record.ledger import Release

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph, PublicFacts
    from sfumato.privacy.units import Unit

_MOST_DENSE = 30_000_000
_CENTER_SHARE, _SCALE_SHARE = 0.02, 0.03


@dataclass(frozen=True)
class Linear(CuratorMethod):
    r"""The graph-free linear model is logistic regression on features around a noisy center.

    The scores of node v are :math:`s (W (\hat x_v - m) / \|\hat x_v - m\| + b)`.

    **Formal guarantee.** Arcs are never read, so at edge level epsilon is 0. Where labels are private, two Gaussian releases
    of :func:`~sfumato.bounded._grouping.noisy_group_sums` (the center and the scale) with 2 and 3 % of :math:`\mu^2`, and one
    DP-SGD run over all training nodes (:mod:`~sfumato.bounded._gradients`), for any number of arcs. Where a record is a person of
    several nodes, each person counts as the mean of its nodes in all three (:mod:`~sfumato.bounded._owners`).

    Args:
        epochs: number of full-batch steps.
        learning_rate: step size of Adam.
        l2_clip_norm: clip of an example's gradient (private labels only).

    Source of DP-SGD: Abadi et al. (2016), Deep Learning with Differential Privacy, algorithm 1.
    """

    epochs: int = 100
    learning_rate: float = 0.05
    l2_clip_norm: float = setting(CLIP, PRIVATE_LABELS)
    card: ClassVar[Card] = Card(
        name="linear",
        summary="graph-free linear model",
        units=("edge", "person", "node", "person-nodes", "record"),
        candidates=({"learning_rate": 0.02}, {"learning_rate": 0.05}, {"learning_rate": 0.1}),
        audience=Audience(("weights",), predictions="predictions"),
        reads_links=False,
        explains=True,
    )

    def __post_init__(self) -> None:
        check_fields(self, epochs=AT_LEAST_1, learning_rate=STEP_SIZE, l2_clip_norm=ABOVE_0)

    def releases(self, unit: Unit, public: PublicFacts, noise_multiplier: float) -> tuple[Release, ...]:
        """List nothing where features and labels are public; the center, one DP-SGD run and the scale otherwise."""
        if {"features", "labels"} <= set(unit.public):
            return ()
        centers = center_release(unit, public, _CENTER_SHARE, noise_multiplier, by_person=True)
        size = head_size(public.num_features, public.num_classes)
        share, still = 1 - _CENTER_SHARE * len(centers) - _SCALE_SHARE, unit.no_arc_change
        event = full_batch(unit, share, self.epochs, noise_multiplier, by_person=True)
        scale = part_of(_SCALE_SHARE, noise_multiplier)
        return (
            *centers,
            Release("head", event, (size,), size, arc_change=still),
            Release("scale", scale, (1,), STEPS, arc_change=still),
        )

    def run(self, plan: Planned, graph: Graph, session: Session) -> Outcome:
        head = zero_head(plan.public.num_features, plan.public.num_classes)
        center = find_center(plan, graph, session)
        inputs = centered_rows(graph, center)
        if "labels" in plan.unit.public:
            train(self, plan, session, "head", head, graph, plain(inputs))
            return Outcome({**center, **network_arrays("head", head)}, {})
        with for_long_rows(head):
            train(OnLongRows(self), plan, session, "head", head, graph, chosen(inputs, LENGTH), bias_pace=LENGTH)
        weights = {**center, **network_arrays("head", head)}
        key = session.charge("scale")
        assert graph.y is not None
        read = np.flatnonzero(graph.val_mask)
        noise = multiplier_of(plan, "scale") * float(np.sqrt(STEPS)) * group_sensitivity(plan.unit, by_person=True)
        owners = owners_of(plan.unit, graph, read)
        scale, mac = learn_scale(apply(head, inputs)[read], graph.y[read], noise, key, owners)
        session.bind("scale", np.frombuffer(mac, np.uint8))
        return Outcome({**weights, "scale": scale}, {})

    def scores(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> NDArray[np.float32]:
        head = zero_head(plan.public.num_features, plan.public.num_classes)
        load_weights(head, weights, "head")
        scores = apply(head, centered_rows(graph, weights))
        return scores * weights["scale"] if "scale" in weights else scores  # runs that were saved without one

    def linear_head(self, weights: Arrays, graph: Graph) -> tuple[Any, NDArray[Any], NDArray[Any]]:
        """Return the rows of a ``graph`` that the head reads, and its map and offset, with the scale among ``weights``."""
        scale = weights.get("scale", np.ones(1, np.float32))
        return centered_rows(graph, weights), weights["head.weight"] * scale, weights["head.bias"] * scale


def full_batch(
    unit: Unit, share: float, steps: int, noise_multiplier: float, *, by_person: bool = False
) -> PoissonGaussianEvent:
    r"""Describe DP-SGD over all training nodes with a share of the :math:`\mu^2` of one Gaussian release.

    With ``by_person`` persons are the examples where they are the records.
    """
    check_examples(unit, by_person=by_person)
    relation = "replace" if unit.relation == "replace" else "add-remove"
    noise = noise_multiplier * np.sqrt(steps / share) * (1 + (relation == "replace"))
    return PoissonGaussianEvent(1.0, float(noise), steps, relation)


def is_centered(public: PublicFacts) -> bool:
    """Return whether rows are centered, which makes them dense: if public counts say that they are few enough."""
    return 0 < public.num_nodes * public.num_features <= _MOST_DENSE


def center_release(
    unit: Unit, public: PublicFacts, share: float, noise_multiplier: float, *, by_person: bool = False
) -> tuple[Release, ...]:
    """List the release of the center, or nothing if rows are not centered."""
    group_sensitivity(unit, by_person=by_person)
    if not is_centered(public):
        return ()
    columns = public.num_features
    return (Release("center", part_of(share, noise_multiplier), (columns,), columns, arc_change=unit.no_arc_change),)


def find_center(plan: Planned, graph: Graph, session: Session) -> Arrays:
    """Release the mean of training nodes' normalized features, shrunk by what noise explains of it, if rows are centered."""
    if not is_centered(plan.public):
        return {}
    ids = np.flatnonzero(graph.train_mask)
    rows = normalized(graph)[ids]
    if "features" in plan.unit.public:
        return {"center": rows.mean(axis=0, dtype=np.float64).astype(np.float32)}
    owners = owners_of(plan.unit, graph, ids)
    noise = multiplier_of(plan, "center") * group_sensitivity(plan.unit, by_person=True)
    key = session.charge("center")
    session.bind("center", rows)
    sums = noisy_group_sums(rows, np.zeros(len(rows), np.int64), 1, noise, key, owners)[0] / INT16_ONE
    square = float(np.square(sums).sum())
    kept = max(0.0, 1 - len(sums) * noise**2 / square) if square else 0.0
    return {"center": (sums * (kept / count_of(owners, len(ids)))).astype(np.float32)}
