r"""Prediction sets are calibrated under the guarantee, where labels are protected: one noisy histogram of validation nodes.

A trained model gives node v the probability :math:`p_v(y_v)` of its own class. Each validation node with a label adds one to
the bin of this number (:func:`~sfumato.method._choosing.bins_of`), and discrete Laplace noise is added to every bin. From the
noisy bins, any coverage is post-processing (:func:`~sfumato.method._choosing.sets_from_counts`): one release serves all of them.

**Formal guarantee.** *Node level.* Roles are public. Given what the trained run released, the probabilities of a node read its
own features alone: so emptying one record moves the count of one bin by one at most (L1 sensitivity 1), and replacing it those
of two (L1 sensitivity 2). With discrete Laplace noise of scale b times this, the release is pure, of :math:`\epsilon = 1 / b`.
It adds up with the run that it builds on, which its certificate names.

Refused are runs whose predictions read more: rows that are for their own node alone (these rows are no release, and the
histogram would tell others of them), and values that a run declared public.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import DataError, InputError, UnsupportedUnitError
from sfumato.graph._facts import ROLES, by_ids
from sfumato.graph._splits import DEFAULT_FRACTIONS
from sfumato.method._choosing import BINS, NoisyCounts, bins_of
from sfumato.method.card import Audience, Card
from sfumato.method.contract import Arrays, Origin, Outcome, Planned, Session
from sfumato.method.curator import CuratorMethod
from sfumato.noise._geometric import keyed_discrete_laplace
from sfumato.noise.keys import derive_key, operand_mac
from sfumato.privacy.events import PureEvent
from sfumato.record.ledger import OWN, Release

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph, PublicFacts
    from sfumato.method._plan import Fitted, Plan
    from sfumato.privacy.budget import Budget
    from sfumato.privacy.units import Unit

NAME = "counts"


@dataclass(frozen=True)
class SetCalibration(CuratorMethod):
    """Set calibration releases how many validation nodes get which probability of their own class, int64 [32].

    It has a proof at node level alone: where labels are public, sets cost nothing. ``trained`` is the run that is counted.
    """

    trained: Fitted
    card: ClassVar[Card] = Card(
        name="set-calibration",
        summary="noisy counts that calibrate prediction sets of a trained run",
        units=("node",),
        audience=Audience(("noisy counts of validation nodes",), never=("counts before noise",)),
        controls=(),
        reads_links=False,
    )

    @property
    def settings(self) -> dict[str, Any]:
        return {"bins": BINS}

    @property
    def origin(self) -> Origin:
        """Return the trained run, without its weights: they do not leave again."""
        return Origin({}, self.trained.graph_key, self.trained.origins())

    def view(self, graph: Graph) -> Graph:
        """Return the graph; roles that are known to be those of training are drawn or given as they were there."""
        facts, known = self.trained.plan.public, self.trained.graph_key.identity
        if ROLES in facts.assumed or known is None or not known.roles or not self.trained.has_roles(graph):
            return graph
        assert graph.roles is not None
        return by_ids(graph, graph.roles, facts.split or self.trained.plan.unit.split or DEFAULT_FRACTIONS)

    def releases(self, unit: Unit, public: PublicFacts, noise_multiplier: float) -> tuple[Release, ...]:
        if any(one.visible_to == OWN for one in self.trained.plan.releases) or self.trained.plan.method.limits:
            raise UnsupportedUnitError(
                f"Prediction sets of a run of {self.trained.plan.method.name!r} have no proof under unit {unit.name}: its "
                "predictions read rows that are for their own node alone, or values that were declared public. Train linear or "
                "piloted messages (auto without a promised degree)."
            )
        return (Release(NAME, PureEvent(1 / noise_multiplier), (BINS,), 0, arc_change=unit.no_arc_change),)

    def check(self, graph: Graph) -> None:
        """Refuse another graph than that of the run, other roles, and a graph without validation nodes or labels."""
        self.trained.check_fitted(graph)
        if not self.trained.has_roles(graph):
            raise DataError(
                "Expected the graph with the roles of training, got others. Split it as it was for the fit."
            )
        if graph.y is None or not graph.val_mask.any():
            raise DataError(
                "Expected a graph with labels and validation nodes, got one without. Check label and split."
            )

    def run(self, plan: Planned, graph: Graph, session: Session) -> Outcome:
        scale, key = l1_sensitivity(plan.unit) / Fraction(plan.event_of(PureEvent, NAME).epsilon), session.charge(NAME)
        counts = self.counted(graph)
        session.bind(NAME, counts)
        noise = keyed_discrete_laplace(derive_key(key, operand_mac(key, counts)), scale, 0, BINS)
        return Outcome({}, {NAME: counts + noise})

    def counted(self, graph: Graph) -> NDArray[np.int64]:
        """Count validation nodes by the probability of their own class, int64 [32], before noise: private."""
        assert graph.y is not None
        seen = np.flatnonzero(graph.val_mask & (graph.y >= 0))
        own = self.trained.predict_proba(graph)[seen, graph.y[seen]]
        return np.bincount(bins_of(own), minlength=BINS).astype(np.int64)

    def noisy(self, released: Arrays, epsilon: float) -> NoisyCounts:
        """Return the ``released`` counts with the scale of their noise, which follows from the ``epsilon`` that they cost."""
        return NoisyCounts(released[NAME], float(l1_sensitivity(self.trained.plan.unit)) / epsilon)

    def scores(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> NDArray[np.float32]:
        """Refuse the call: the trained run predicts."""
        raise InputError("Expected a run that predicts, got counts that calibrate sets. Predict with the trained run.")


def calibrate_sets(fitted: Fitted, budget: Budget) -> Plan:
    """Make a plan for the counts that calibrate prediction sets of a run at node level; no data is seen.

    ``counts = plan.fit(graph)`` charges and releases them, and ``fitted.predictions(graph, counts, coverage=0.9)`` makes sets of
    them, at any coverage, for nothing more.

    Args:
        fitted: the trained run.
        budget: the most that may be spent, beside what the run cost.

    Raises:
        InputError: labels are public, so that sets cost nothing, or the run predicts no classes.
        UnsupportedUnitError: there is no proof for this run.
    """
    unit = fitted.plan.unit
    if "labels" in unit.public or fitted.plan.public.target is not None:
        raise InputError(
            "Expected a run with protected labels that predicts classes, got another: where labels are public, sets cost nothing."
        )
    return SetCalibration(fitted).calibrate(budget, unit, fitted.plan.public)


def l1_sensitivity(unit: Unit) -> Fraction:
    """Return by how much the counts of neighboring graphs differ, summed over bins: 1, or 2 if records are replaced."""
    return Fraction(2 if unit.relation == "replace" else 1)
