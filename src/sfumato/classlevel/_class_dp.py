r"""Class-level and subclass-level DP-SGD: the record is a whole class, or a cell of one.

Each of K cells enters a step with probability q. A drawn cell gives the gradient of its mean loss,
:math:`g_k = \frac{1}{|C_k|} \sum_{i \in C_k} \nabla \ell_i`, from one pass over a weighted loss; no gradient of a single record
is computed. The step is :math:`\frac{1}{q K} (\sum_k g_k \min(1, S / \|g_k\|) + \sigma S Z)`, with Z standard normal
(:mod:`~sfumato.bounded._classes`). Where a cell is large, a secret random part of its records stands for it.

**As published.** Algorithm 5 takes all records of a cell, trains all layers, by plain descent, on the loss itself:
``records_per_cell=None, learn_filters=True, optimizer="sgd", loss_scale=1``. These change neither event nor bound: the sum moves
by what the one cell adds, which is clipped whatever it is made of.

**What the published account gets wrong.** The published text composes N(0, sigma^2) against its mixture with N(2, sigma^2), but
if a class is exchanged *both* sides are mixtures. The event here is the exact pair
(:class:`~sfumato.privacy.events.PoissonGaussianEvent`, relation ``replace``). Its Theorem 5 is in
:mod:`~sfumato.privacy._class_bounds`, and no certificate uses it. Its subclasses are clusters of the private images, which one
image can move: the default here is a public rule for each record.

Source: chapter 4 of the thesis on class-level privacy, algorithm 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import AT_LEAST_1, PRIVATE, check_fields, fail, flag, integer, optional, real, setting
from sfumato.bounded._classes import check_cells, class_steps, members
from sfumato.bounded._clip_kernel import LEAST_CLIP, MOST_CLIP
from sfumato.bounded._gradients import PrivateSGD
from sfumato.classlevel._cells import cells_key, cells_of, check_partition
from sfumato.classlevel._images import CONTROLS, ImageMethod
from sfumato.method.card import Audience, Card
from sfumato.nn._dense import mean_gradient
from sfumato.privacy.events import PoissonGaussianEvent

if TYPE_CHECKING:
    from torch import Tensor, nn

    from sfumato.classlevel._images import Training
    from sfumato.graph._graph import Graph, PublicFacts
    from sfumato.method.contract import Arrays, Planned, Session
    from sfumato.privacy.units import Unit

_AUDIENCE = Audience(("weights",), predictions="predictions")


@dataclass(frozen=True)
class CellMethod(ImageMethod):
    """Noisy steps on the mean gradients of cells; the unit says what a cell is.

    Args:
        steps: T, the number of steps.
        sampling_prob: q, the probability with which a cell enters a step.
        records_per_cell: the most records of a cell that stand for it at a step; None takes all of them, as published.
        loss_scale: what the loss is multiplied with before a gradient is clipped; a large one gives each cell the norm S.
    """

    steps: int = setting(245, PRIVATE)
    sampling_prob: float = setting(0.2, PRIVATE)
    records_per_cell: int | None = setting(32, PRIVATE)
    loss_scale: float = setting(1000.0, PRIVATE)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, steps=AT_LEAST_1, sampling_prob=real(0, 1, above=True))
        check_fields(self, records_per_cell=optional(AT_LEAST_1))
        check_fields(self, loss_scale=real(0, 1e9, above=True), l2_clip_norm=real(LEAST_CLIP, MOST_CLIP))

    def cells(self, unit: Unit, graph: Graph) -> tuple[NDArray[np.int64], Arrays]:
        """Return the cell of every training record, int64 [num_nodes], -1 for none, and the public arrays that decide it."""
        return cells_of(unit, graph)

    def event(self, unit: Unit, public: PublicFacts, noise_multiplier: float) -> PoissonGaussianEvent:
        check_cells(unit)
        relation = "replace" if unit.relation == "replace" else "add-remove"
        return PoissonGaussianEvent(self.sampling_prob, noise_multiplier, self.steps, relation)

    def train(self, plan: Planned, graph: Graph, session: Session, head: nn.Module, data: Training) -> Arrays:
        event = plan.event("network")
        assert isinstance(event, PoissonGaussianEvent)
        cells, public = self.cells(plan.unit, graph)  # first: what it refuses costs nothing
        key = session.charge("network")
        cells = cells[data.rows]
        total = plan.unit.num_cells(plan.public.num_classes)
        order = np.argsort(cells, kind="stable")
        starts = np.searchsorted(cells[order], np.arange(total + 1))

        def mean_of(cell: int, step: int) -> Tensor | None:
            own = order[starts[cell] : starts[cell + 1]]
            places = members(key, step, cell, own, self.records_per_cell or len(own))
            if not len(places):
                return None
            inputs, targets = data.take(places)
            return mean_gradient(head, inputs, targets, self.loss_scale)

        settings = PrivateSGD(
            event.sampling_prob, event.steps, self.l2_clip_norm, event.noise_multiplier, self.learning_rate
        )
        optimizer = self.stepper(head, event.steps)
        progress = session.watch.stage("network")
        operands = class_steps(optimizer, mean_of, total, settings, key, progress)
        session.bind("network", np.frombuffer(operands, np.uint8))
        return public


@dataclass(frozen=True)
class ClassDP(CellMethod):
    """DP-SGD in which the record is a whole class: models of a class look the same whatever its images are.

    The scores of an image are those of the network, float32 [num_nodes, num_classes]. Settings are those of
    :class:`CellMethod`.

    **Formal guarantee.** One run of :func:`~sfumato.bounded._classes.class_steps`, under
    :class:`~sfumato.privacy.units.ClassLevel`.

    Errors: ``calibrate`` raises UnsupportedUnitError under every unit but class and none.

    >>> from sfumato.graph._graph import PublicFacts
    >>> from sfumato.privacy.budget import Budget
    >>> from sfumato.privacy.units import ClassLevel
    >>> facts = PublicFacts(4000, 2800, 784, 40, directed=False, image_shape=(1, 28, 28))
    >>> plan = ClassDP(network="softmax").calibrate(Budget(8.0, 1e-3), ClassLevel(), facts)
    >>> plan.event("network").relation, round(plan.epsilon, 2)
    ('replace', 7.99)

    Source: chapter 4 of the thesis on class-level privacy, algorithm 5.
    """

    card: ClassVar[Card] = Card(
        name="class-dp",
        summary="image classifier that hides whole classes",
        options={"network": "network", "steps": "steps", "augment": "augment"},
        units=("class",),
        audience=_AUDIENCE,
        controls=CONTROLS,
        reads_links=False,
    )


@dataclass(frozen=True)
class SubclassDP(CellMethod):
    """DP-SGD in which the record is a cell: a part of one class, found by a public rule for each record.

    The scores of an image are those of the network, float32 [num_nodes, num_classes]. Other settings are those of
    :class:`CellMethod`. How cells are found is part of the unit, :class:`~sfumato.privacy.units.SubclassLevel`:

    * ``directions``: public random directions, which need no data;
    * ``centroids``: k-means of the first ``public_rows`` training images, which are declared public and are not trained on;
    * ``declared``: the ``cells`` of the data, such as users; or with ``kmeans`` clusters of the private images, as published.
      What these tell is then *not* protected, and the certificate says so.

    **Formal guarantee.** One run of :func:`~sfumato.bounded._classes.class_steps`, under the unit. The cell of a record is a
    function of this record and public values (:mod:`~sfumato.bounded._partitions`), or declared public.

    Errors: ``calibrate`` raises UnsupportedUnitError under every unit but subclass and none.

    Args:
        public_rows: how many training images, the first ones, are public (``centroids`` only).
        kmeans: whether declared cells are clusters of the private images.

    Raises:
        InputError: a setting is out of range.

    >>> SubclassDP().sampling_prob
    0.2

    Source: chapter 4 of the thesis on class-level privacy, section 4.4.3.
    """

    public_rows: int = 0
    kmeans: bool = False
    card: ClassVar[Card] = Card(
        name="subclass-dp",
        summary="image classifier that hides parts of classes",
        options={
            "network": "network",
            "steps": "steps",
            "augment": "augment",
            "public_rows": "public_rows",
            "partition": "kmeans",
        },
        units=("subclass",),
        audience=_AUDIENCE,
        controls=CONTROLS,
        reads_links=False,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, public_rows=integer(0), kmeans=flag())

    @classmethod
    def _asked(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """The settings that a command line gives; of partitions one is a setting, and the unit has the others."""
        asked = super()._asked(options)
        return {**asked, **({"kmeans": asked["kmeans"] == "kmeans"} if "kmeans" in asked else {})}

    @property
    def limits(self) -> tuple[str, ...]:
        """Return what the way in which cells are found leaves unprotected."""
        clustered = (
            "The cells are clusters of the private images by k-means: which image is in which cell, and what the clusters tell, "
            "is not protected."
        )
        declared = (
            f"The first {self.public_rows} training images are declared public, and centroids are fitted on them."
        )
        return (clustered,) * self.kmeans + (declared,) * bool(self.public_rows)

    def event(self, unit: Unit, public: PublicFacts, noise_multiplier: float) -> PoissonGaussianEvent:
        """Describe all steps as one event, if the settings fit the partition of the unit.

        Raises:
            InputError: public images or clusters are missing, or without use, or no other image is left.
            UnsupportedUnitError: a record of the unit is not one cell.
        """
        check_partition(unit, self.public_rows, self.kmeans)
        if self.public_rows >= max(public.num_train, 1):
            expected = f"to be below the number of training images, {public.num_train}"
            raise fail("public_rows", self.public_rows, expected, "Nothing is trained on public images.")
        if self.kmeans and unit.num_cells(1) % max(public.num_classes, 1):
            expected = f"to be a multiple of the number of classes, {public.num_classes}"
            raise fail("cells", unit.num_cells(1), expected, "Each class is divided into as many clusters.")
        return super().event(unit, public, noise_multiplier)

    def cells(self, unit: Unit, graph: Graph) -> tuple[NDArray[np.int64], Arrays]:
        """Return the cell of every training record, -1 for none, and the centroids, if there are any."""
        return cells_of(unit, graph, self.public_rows, kmeans=self.kmeans)

    def cells_key(self, unit: Unit, graph: Graph) -> str:
        """Return a digest of the public values that decide cells."""
        return cells_key(unit, graph, self.public_rows, kmeans=self.kmeans)
