r"""Link messages find missing links from noisy counts of neighbors by class, and from public features and labels.

1. *Parts.* A public draw for each pair of nodes (:func:`~sfumato.bounded._pairs.public_draws`) divides edges into counted ones
   and learners.
2. *Counts.* Each counted edge adds the label of either end to the row of the other: :math:`S = A^\top Y + N`.
3. *Sums.* S and public values give four numbers for any pair of nodes (:mod:`~sfumato.central._evidence`). Their sums over the
   learners, and the number of learners, are released with noise of the same scale.
4. *Weights* of the four numbers follow from the sums and from random pairs. The score of a pair is the weighted sum.

Learners are not among the counted edges, so they are to the counts what an unknown link is: the weights are not too sure.

**Formal guarantee.** Features and labels are public. Counts and sums together are one release of L1 sensitivity 2 messages
(:func:`~sfumato.bounded._pairs.pair_sensitivity`), with discrete Laplace noise of scale :math:`2 / \epsilon` messages on every
entry: pure :math:`\epsilon`, delta is 0. Weights and scores of all pairs are post-processing of it and of public values.

*Two sides.* In a bipartite graph a public column says which side each node is on (:mod:`~sfumato.graph._sides`). Rows then have
one more column, the number of neighbors without a label, so that each message still has norm 1. All else is about pairs across.

*Held-out links.* A caller who deletes pairs by a public draw before training (:mod:`sfumato.evaluation._links`) keeps the
guarantee for all edges, deleted ones included: an edge of a deleted pair changes nothing, any other changes the release as
above. Scores of how well deleted links are found read them, and are outside the guarantee.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato._blocks import in_blocks, let_go, room, spans
from sfumato._validate import check_real, fail
from sfumato.bounded._counting import noisy_counts
from sfumato.bounded._pairs import drawn, edges_among, noisy_pair_sums, pair_sensitivity, row_steps
from sfumato.bounded._routing import kept
from sfumato.bounded.aggregation import Arcs
from sfumato.central._counts import laplace_scale
from sfumato.central._evidence import NAMES, Evidence, fit_weights
from sfumato.central._finding import EvidenceFinder
from sfumato.graph._sides import check_sides, sides_of
from sfumato.loops.kernels import INT16_ONE
from sfumato.method.card import Audience, Card
from sfumato.method.contract import Arrays, Outcome, Planned, Session
from sfumato.method.curator import CuratorMethod
from sfumato.noise.keys import derive_key, new_key
from sfumato.privacy.events import PureEvent
from sfumato.record.ledger import Release

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph, PublicFacts
    from sfumato.method._suggesting import Scorer
    from sfumato.privacy.units import Unit

NAME, WEIGHT = "links", "link.weight"
_SUMS = len(NAMES) + 1


@dataclass(frozen=True)
class LinkMessages(CuratorMethod):
    """Link messages release noisy counts of neighbors by class, from which any pair of nodes gets a score.

    The module gives the steps.

    **Formal guarantee.** At edge level, of undirected edges, one Laplace release of L1 sensitivity 2 messages: pure epsilon. All
    other units are refused. The module says under which conditions.

    Shapes: the release is int64 [num_nodes num_columns + 5]: the counts row by row in steps of 1 / 32767, then four sums and the
    number of learners in steps of 1 / 13106. Rows have a column for each class, and one more with ``sides``. Weights are
    float32 [4].

    Args:
        learner_share: share of the pairs of nodes whose edges train the weights and are not counted.
        sides: the column that says which of two sides a node of a bipartite graph is on, or ``COLUMN=VALUE`` if suggestions
            are for that side alone; ``label`` for the two classes.

    Raises:
        InputError: the share is out of range. ``calibrate`` raises UnsupportedUnitError under a unit without a proof.

    >>> from sfumato.graph._graph import PublicFacts
    >>> from sfumato.privacy.units import EdgeLevel
    >>> public = PublicFacts(1000, 750, 4, 3, directed=False)
    >>> LinkMessages().releases(EdgeLevel(directed=False), public, 1.0)[0].shape
    (3005,)
    """

    learner_share: float = 0.2
    sides: str | None = None
    card: ClassVar[Card] = Card(
        name="link-messages",
        summary="scores of pairs of nodes from noisy counts of neighbors (with --task link)",
        units=("edge", "person"),
        options={"sides": "sides"},
        scores_pairs=True,
        citations=("dwork2006calibrating",),
        audience=Audience(
            ("noisy aggregates", "weights"), predictions="scores of all pairs", never=("sums before noise",)
        ),
        controls=(),
    )

    def __post_init__(self) -> None:
        check_real(low=0, high=1, open_low=True, open_high=True, learner_share=self.learner_share)
        if self.sides is not None and (not isinstance(self.sides, str) or not self.sides.partition("=")[0]):
            raise fail("sides", self.sides, "to be COLUMN or COLUMN=VALUE", "Name a column of the node table.")

    def releases(self, unit: Unit, public: PublicFacts, noise_multiplier: float) -> tuple[Release, ...]:
        """List the one release: counts and sums."""
        pair_sensitivity(unit)
        shape = (public.num_nodes * self._width(public) + _SUMS,)
        return (Release(NAME, PureEvent(1 / noise_multiplier), shape, 0),)

    def run(self, plan: Planned, graph: Graph, session: Session) -> Outcome:
        """Count, sum over the learners, and find the weights."""
        check_sides(graph, self.sides)  # before anything is charged
        key = session.charge(NAME) if plan.unit.private else new_key()
        scale = laplace_scale(plan, NAME, pair_sensitivity)
        every = Arcs(graph.indptr, graph.indices)
        learns = drawn(every, "learners", self.learner_share, loops=True)
        rows, arcs = self._messages(graph), _counted(every, learns)
        if plan.unit.private:
            session.bind(NAME, rows, arcs.offsets, arcs.sources)
        counts = noisy_counts(arcs, rows, scale, derive_key(key, "counts"))
        del rows, arcs
        found = self._evidence(plan, graph, counts)
        numbers = _of_learners(found, every, learns)
        if plan.unit.private:
            session.bind(f"{NAME}/learners", numbers)
        sums = noisy_pair_sums(numbers, scale, derive_key(key, "learners"))
        *of_numbers, count = sums / row_steps(_SUMS)
        stddev = float(scale) * np.sqrt(2) * INT16_ONE / row_steps(_SUMS)
        weights = fit_weights(np.array(of_numbers), count, stddev, found.reference)
        return Outcome({WEIGHT: weights.astype(np.float32)}, {NAME: _joined(counts.ravel(), sums)})

    def scores(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> NDArray[np.float32]:
        """Refuse to classify nodes.

        Raises:
            InputError: always.
        """
        raise fail("task", "node", f"to be link for method {self.name!r}", "Score pairs: `sfumato predict --pairs`.")

    def pair_scorer(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> Scorer:
        """Return what computes the score of each pair; a higher one is more likely to be a link. No edge is read.

        Raises:
            InputError: the graph has no labels, or other classes than in training; or, later, a pair is within a side.
        """
        evidence = self._known(plan, released, graph)

        def scores(pairs: NDArray[np.integer]) -> NDArray[np.float64]:
            if evidence.sides is not None and not evidence.sides.apart(pairs).all():
                raise fail(
                    "pairs",
                    "two nodes of one side",
                    f"to join the two sides that {self.sides!r} declares",
                    "Others are never linked.",
                )
            found: NDArray[np.float64] = evidence.of(pairs) @ weights[WEIGHT]
            return found

        return scores

    def finder(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> EvidenceFinder:
        """Return what finds the best others of nodes, those of the other side if there are sides. No edge is read.

        ``plan``, ``weights``, ``released`` and ``graph`` are those of :meth:`pair_scorer`.
        """
        return EvidenceFinder(self._known(plan, released, graph), weights[WEIGHT])

    def released_rows(self, plan: Planned, weights: Arrays, released: Arrays) -> NDArray[np.float32]:
        """Return the noisy counts of neighbors by class, float32 [num_nodes, num_classes]."""
        counts = self._counts(plan, released)
        return in_blocks(lambda first, last: (counts[first:last] / INT16_ONE).astype(np.float32), len(counts))

    def _known(self, plan: Planned, released: Arrays, graph: Graph) -> Evidence:
        if graph.y is None or graph.num_classes != plan.public.num_classes:
            classes = f"to have labels of {plan.public.num_classes} classes, as in training"
            raise fail("graph", graph.name, classes, "Name the column with `label`.")
        return self._evidence(plan, graph, self._counts(plan, released))

    def _width(self, public: PublicFacts) -> int:
        """How many columns rows have."""
        return public.num_classes + (self.sides is not None)

    def _counts(self, plan: Planned, released: Arrays) -> NDArray[np.int64]:
        found: NDArray[np.int64] = released[NAME][:-_SUMS].reshape(plan.public.num_nodes, self._width(plan.public))
        return found

    def _messages(self, graph: Graph) -> NDArray[np.float32]:
        """The message of each node: its known label, whatever its role, since labels are public."""
        assert graph.y is not None
        rows = room((graph.num_nodes, graph.num_classes + (self.sides is not None)), np.float32)
        rows[:] = 0
        sent = np.flatnonzero(graph.y >= 0) if self.sides is None else np.arange(graph.num_nodes)
        rows[sent, graph.y[sent]] = 1  # -1 is the last column
        return rows

    def _evidence(self, plan: Planned, graph: Graph, counts: NDArray[np.int64]) -> Evidence:
        stddev = float(laplace_scale(plan, NAME, pair_sensitivity)) * float(np.sqrt(2))
        return Evidence(graph, counts, stddev, sides_of(graph, self.sides), INT16_ONE)


def _counted(arcs: Arcs, learns: NDArray[np.bool_]) -> Arcs:
    """Both arcs of the counted edges; loops are no links, and are among those that do not count."""
    return kept(arcs, ~learns)


def _of_learners(found: Evidence, arcs: Arcs, learns: NDArray[np.bool_]) -> NDArray[np.float64]:
    """A row for each learner: its four numbers, and a 1."""
    rows, at = room((sum(pairs.shape[1] for pairs in edges_among(arcs, learns)), _SUMS), np.float64), 0
    for pairs in edges_among(arcs, learns):
        own = rows[at : at + pairs.shape[1]]
        own[:, :-1], own[:, -1] = found.of(pairs), 1
        at += len(own)
        let_go(rows)
    return rows


def _joined(counts: NDArray[np.int64], sums: NDArray[np.int64]) -> NDArray[np.int64]:
    found = room(len(counts) + len(sums), np.int64)
    found[len(counts) :] = sums
    for first, last in spans(len(counts), 1 << 22):
        found[first:last] = counts[first:last]
        let_go(found)
        let_go(counts)
    return found
