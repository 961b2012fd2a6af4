r"""Label messages under bounded degrees: hops that protect a node with every arc in or out of it.

Training nodes send their class, and all other nodes receive (:mod:`~sfumato.bounded._promise`). In this order:

1. *Features.* Center and head of :mod:`~sfumato.central._linear`, with a share f of :math:`\mu^2`.
2. *Levels*, where no node's degree is public: two numbers with 12 %, of how many nodes have how many senders. They give a
   bound that few nodes exceed (:mod:`~sfumato.bounded._found_bound`). They are left out where the promised bound, or else the
   number of nodes, is at most 24 times the margin of the second: that is taken as it is.
3. *Pairs.* One noisy matrix of the classes at both ends of arcs between training nodes, with 5 %. It says what a neighbor's
   class says about one's own, and how many arcs there are (:mod:`~sfumato.central._compatibility`).
4. *Test.* How many training and validation nodes the head has right, after a third of its steps and at the end; 1 %.
5. *The rest* goes to the hop, or to more steps for the head if a forecast (:func:`~sfumato.central._compatibility.forecast`)
   says that rows and features together would stay below features alone at the whole budget: the accuracy at the end, and
   :math:`0.55 \log(1 / f)` times what the later steps added.
6. *Prediction.* The head's log probabilities, and the log-likelihood of the node's row.

f is :math:`30 z \sqrt F / n` between 0.1 and 0.5, with z the noise multiplier of the whole budget, F features and n training
nodes: noise moves the head by about that much.

**Formal guarantee** (:class:`~sfumato.privacy.units.NodeLevel` with ``arcs="incident"``). Center, head, levels, pairs, test
and rest are Gaussian events of sensitivity 1 (2 if records are replaced), adaptively composed: which of two the rest is
follows from earlier releases, and both have the same event.

* *A training node is removed.* Its features and label leave center, head and test, its arcs to training nodes leave the pairs,
  its copies leave the rows, and levels fall by at most 1.
* *Another node is removed.* Center, head and pairs never read it; a validation node leaves the test. Levels fall by at most 1.
  Rows of others move by at most 1 together.
* *Outcomes of the second level* on which the bound would not hold have a chance below :math:`2^{-100}`. Each level counts as
  two draws of noise for this.
* *Its own row* goes to the node itself alone, as its prediction does (joint differential privacy). So rows are not in
  ``release/``: whoever held all of them could see a receiver by its own row, which nothing bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import ABOVE_0, AT_LEAST_1, PRIVATE_LABELS, STEP_SIZE, check_fields, fail, setting
from sfumato.bounded._promise import GRID, declared_divisors, promised_sensitivity, rounding_slack
from sfumato.central._compatibility import Expected, log_likelihood
from sfumato.central._heads import CLIP, apply, head_size, plain, train_further, train_head, zero_head
from sfumato.central._learning import train
from sfumato.central._linear import center_release, find_center, full_batch
from sfumato.central._piloted import FEATURES_CHOSEN
from sfumato.central._promised_releases import (
    HOP,
    LEAST_FEATURES,
    LEVELS,
    PAIRS,
    TEST,
    bounds_of,
    code_norm,
    degrees_of,
    divisors_of,
    features_share,
    hop_pays,
    is_found,
    learned,
    noise_of,
    release_hop,
    release_levels,
    release_pairs,
    release_test,
    row_stddev,
)
from sfumato.central._rows import centered_rows
from sfumato.errors import InputError
from sfumato.graph._bounds import most_arcs
from sfumato.graph._targets import softmax
from sfumato.method._gaussian import multiplier_of, part_of
from sfumato.method.card import Audience, Card
from sfumato.method.contract import Arrays, Outcome, Planned, Session
from sfumato.method.curator import CuratorMethod
from sfumato.nn._weights import load_weights, network_arrays
from sfumato.noise.gaussian import MOST_STDDEV
from sfumato.privacy._splitting import MOST_SGD_NOISE
from sfumato.record.ledger import OWN, Release

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph, PublicFacts
    from sfumato.method._plan import Plan
    from sfumato.privacy.budget import Budget
    from sfumato.privacy.events import PoissonGaussianEvent
    from sfumato.privacy.units import Unit

_CENTER, _EPOCHS, _LEAST_PROBABILITY = 0.02, 100, 1e-9
MOST_NOISE = MOST_SGD_NOISE * float(np.sqrt(LEAST_FEATURES * (1 - _CENTER) / _EPOCHS)) / 2
"""Noise multiplier of the whole run up to which DP-SGD can add what the head is charged, under both relations."""


@dataclass(frozen=True)
class PromisedMessages(CuratorMethod):
    r"""Promised messages send labels along arcs that are protected at both ends, by bounds on degrees.

    Bounds are public, or one is found within the budget.

    The scores of node v are :math:`\log p(y \mid x_v) + \log p(H_v \mid y)`: the head's, and those of its own noisy row. Rows and
    predictions are for their own node alone.

    The rows are int64 [num_nodes, num_classes], the pairs int64 [num_classes, num_classes], in steps of 1 /
    :data:`~sfumato.bounded._promise.GRID`.

    Args:
        epochs: full-batch steps of the head, and again where the rest goes to it.
        learning_rate: step size of Adam.
        l2_clip_norm: clip of an example's gradient.

    >>> from sfumato.graph._graph import PublicFacts
    >>> from sfumato.privacy.budget import Budget
    >>> from sfumato.privacy.units import NodeLevel
    >>> facts = PublicFacts(20000, 15000, 400, 6, directed=False, max_degree=500)
    >>> plan = PromisedMessages().calibrate(Budget(4.0, 1e-5), NodeLevel(arcs="incident"), facts)
    >>> [release.name for release in plan.releases if release.visible_to == "anyone"]
    ['center', 'head', 'pairs', 'test']
    >>> free = PublicFacts(20000, 15000, 400, 6, directed=False)
    >>> [release.name for release in PromisedMessages().calibrate(Budget(4.0, 1e-5), NodeLevel(arcs="incident"), free).releases]
    ['center', 'head', 'typical', 'bound', 'pairs', 'test', 'aggregate/1']
    """

    epochs: int = _EPOCHS
    learning_rate: float = 0.05
    l2_clip_norm: float = setting(CLIP, PRIVATE_LABELS)
    card: ClassVar[Card] = Card(
        name="promised-messages",
        summary="label messages under promised degrees (node level, incident arcs)",
        units=("node",),
        audience=Audience(
            ("weights", "noisy pairs of classes", "noisy counts of right answers"),
            never=("sums before noise",),
            own=("its noisy row of neighbors' classes",),
        ),
        notes=(
            "Constants of the method were chosen on Rutgers89, UCSC68, Cora-ML and Amazon Computers; those of a bound that is "
            "found on degrees alone, of these but Rutgers89, four other schools and two graphs of pages.",
        ),
    )

    def __post_init__(self) -> None:
        check_fields(self, epochs=AT_LEAST_1, learning_rate=STEP_SIZE, l2_clip_norm=ABOVE_0)

    def releases(self, unit: Unit, public: PublicFacts, noise_multiplier: float) -> tuple[Release, ...]:
        """List center, head, pairs, and the rest under the name of the hop."""
        promised_sensitivity(unit)
        size = head_size(public.num_features, public.num_classes)
        features, classes, nodes = features_share(public, noise_multiplier), public.num_classes, public.num_nodes
        centers = center_release(unit, public, _CENTER * features, noise_multiplier)
        head = full_batch(unit, features * (1 - _CENTER * len(centers)), self.epochs, noise_multiplier)
        levels = LEVELS if is_found(unit, public, noise_multiplier) else {}
        rest = part_of(1 - features - PAIRS - TEST - sum(levels.values()), noise_multiplier)
        return (
            *centers,
            Release("head", head, (size,), size),
            *(Release(name, part_of(share, noise_multiplier), (1, 1), 2) for name, share in levels.items()),
            Release("pairs", part_of(PAIRS, noise_multiplier), (classes, classes), classes**2),
            Release("test", part_of(TEST, noise_multiplier), (1, 2), 2),
            Release(HOP, rest, (nodes, classes), nodes * classes + self.epochs * size, OWN),
        )

    def calibrate(self, budget: Budget | None, unit: Unit, public: PublicFacts) -> Plan:
        plan = super().calibrate(budget, unit, public)
        if unit.private:
            noise = GRID * max(noise_of(plan, "pairs"), code_norm(public) * noise_of(plan, HOP))
            if noise >= MOST_STDDEV or self._last_steps(plan).noise_multiplier > MOST_SGD_NOISE:
                raise fail("budget", budget, "to need less noise than can be drawn", "Raise epsilon or delta.")
        return plan

    def check(self, graph: Graph) -> None:
        """Refuse a graph with bounds of single nodes so large that rounding takes half of every copy."""
        if graph.degree_bounds is not None:
            rounding_slack(bounds_of(graph))

    def run(self, plan: Planned, graph: Graph, session: Session) -> Outcome:
        head, center = zero_head(plan.public.num_features, plan.public.num_classes), find_center(plan, graph, session)
        inputs = centered_rows(graph, center)
        classes = np.where(graph.train_mask, -1 if graph.y is None else graph.y, -1)
        if not plan.unit.private:
            bounds = most_arcs(graph.indptr, graph.indices)
            divisors = declared_divisors(bounds, graph.indptr, graph.indices)
            train(self, plan, session, "head", head, graph, plain(inputs))
            pairs = release_pairs(plan, graph, session, classes, divisors)
            hop = release_hop(plan, graph, session, classes, divisors)
            return Outcome({**center, **network_arrays("head", head), **_kept(bounds)}, {"pairs": pairs, HOP: hop})
        early = train_head(self, plan, session, head, graph, inputs)
        answers = [apply(one, inputs).argmax(axis=1) for one in (early, head)]
        levels = release_levels(plan, graph, session) if any(one.name in LEVELS for one in plan.releases) else {}
        bounds = bounds_of(graph)
        degrees = degrees_of(plan, graph.num_nodes, levels, bounds)
        divisors = divisors_of(degrees, graph)
        pairs = release_pairs(plan, graph, session, classes, divisors)
        test = release_test(plan, graph, session, answers)
        if hop_pays(plan, pairs, test, degrees, graph):
            hop = release_hop(plan, graph, session, classes, divisors)
        else:
            hop = np.zeros((graph.num_nodes, plan.public.num_classes), np.int64)
            key = session.charge(HOP)
            session.bind(HOP, train_further(self, self._last_steps(plan), key, session, head, graph, inputs))
        weights = {**center, **network_arrays("head", head), **_kept(bounds)}
        return Outcome(weights, {**levels, "pairs": pairs, "test": test, HOP: hop})

    def audience_of(self, plan: Planned) -> dict[str, list[str]]:
        """Add the levels by which a bound is found, where one is."""
        seen = self.who_may_see(plan.unit)
        more = ["noisy levels of how many senders nodes have"] * any(one.name in LEVELS for one in plan.releases)
        return {**seen, "anyone": [*seen["anyone"], *more]}

    def unused(self, plan: Planned, weights: Arrays, released: Arrays) -> tuple[str, ...]:
        """Say where the charged test chose features; nothing if the nodes' own rows are not there."""
        dropped = plan.unit.private and HOP in released and not released[HOP].any()
        return (FEATURES_CHOSEN,) * dropped

    def scores(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> NDArray[np.float32]:
        """Add the log probabilities of the head and, where the hop was released, the log-likelihood of rows."""
        if HOP not in released:
            raise InputError(
                "Expected the folder own/ beside release/, which holds each node's row, got none. Put it there."
            )
        head, hop = zero_head(plan.public.num_features, plan.public.num_classes), released[HOP]
        load_weights(head, weights, "head")
        says = np.log(np.maximum(softmax(apply(head, centered_rows(graph, weights))), _LEAST_PROBABILITY))
        received = np.asarray(hop.any(axis=1))  # every row that was released has noise, and no other
        if received.any():
            degrees = degrees_of(plan, len(hop), released, weights["bounds"].astype(np.int64))
            law, expected = learned(plan, released["pairs"], degrees, ~received)
            own = Expected(expected.weight, expected.totals[received])
            rows = hop[received] / (GRID * plan.public.num_classes)
            says[received] += log_likelihood(rows, row_stddev(plan), law, own, degrees.bounds[received])
        return says.astype(np.float32)

    def _last_steps(self, plan: Planned) -> PoissonGaussianEvent:
        """The steps of the head that take the rest where the hop does not pay."""
        return full_batch(plan.unit, 1.0, self.epochs, multiplier_of(plan, HOP))


def _kept(bounds: NDArray[np.int64]) -> Arrays:
    """Public bounds as they are kept with the weights, which are float32: exact up to 2^24, and larger ones are refused."""
    return {"bounds": bounds.astype(np.float32)}
