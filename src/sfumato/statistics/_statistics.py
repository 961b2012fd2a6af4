r"""Statistics of a graph, released together under one budget: counts with discrete Laplace noise of public scale.

1. *Plan.* Statistics are named before data, each with a share of the budget. Their releases stand in one fixed order.
2. *Bounds.* At edge level nothing bounds what one edge changes in triangles, wedges and stars. So the two largest degrees are
   released first, with noise and a margin; from them follows the scale of the noise of these counts, which is public then.
3. *Counts.* Every count is exact, and gets noise of scale sensitivity / epsilon.
4. *Answers* (:mod:`~sfumato.statistics._answers`) are made of the releases alone: estimates that agree with each other, and
   intervals from the laws of the noise.

**Formal guarantee.** Release i is pure, of epsilon :math:`\epsilon_i = w_i / z`, with :math:`w_i` its part of all weights. With
bounds one release fails with a probability of at most half of delta (:mod:`~sfumato.bounded._statistics` has all
sensitivities and the proof). Without them delta is not spent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import check_kind, check_real, fail, nearest
from sfumato.bounded._statistics import SCALED, by_bounds, l1_sensitivity, most_degree, noisy_totals, scaled, top_bounds
from sfumato.errors import InputError, UnsupportedUnitError
from sfumato.method.card import Audience, Card
from sfumato.method.contract import Arrays, Outcome, Planned, Session
from sfumato.method.curator import CuratorMethod
from sfumato.privacy.events import ApproximateEvent, PureEvent
from sfumato.record.ledger import Release
from sfumato.statistics._counts import COUNTS, RANGES, Counted, degree_ends

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph, PublicFacts
    from sfumato.method._plan import Plan
    from sfumato.privacy.budget import Budget
    from sfumato.privacy.units import Unit

SIZES = "group.sizes"
"""The number of nodes of each group, where it is public: float32 [2, groups], in multiples of 2^16 and what is left."""
_HALF = 1 << 16
WIDEST = 1 << 50
"""The largest scale of noise that is drawn."""


class Row(NamedTuple):
    """One statistic: what it is, and its share of the budget unless the user names another."""

    words: str
    share: float


ROWS: Mapping[str, Row] = {
    "edges": Row("number of edges, mean degree and density", 1),
    "mixing": Row("edges by the groups of both ends", 2),
    "degrees": Row("how many nodes have which degree, with quantiles", 8),
    "triangles": Row("number of triangles, with the clustering coefficient if wedges are there", 4),
    "wedges": Row("number of pairs of edges that share a node", 1),
    "stars": Row("number of triples of edges that share a node", 1),
    "mutual": Row("pairs of nodes with an arc in both directions", 1),
    "weight": Row("sum of the weights", 1),
    "weights": Row("edges by their weight", 2),
    "node-degrees": Row("the degree of every single node", 8),
    "groups": Row("how many nodes each group has, where this is protected", 0.5),
}
"""Every statistic, in the order of its release."""
AUTO = "auto"
"""The word for the usual statistics of a graph, which its public facts choose (:func:`usual`)."""
_MOST_SHARE = 1e6
_BOUNDS = 1.0  # the share of the bounds on degrees
_SKETCHED = 1e-12  # the failure of bounds before a budget says what delta is


@dataclass(frozen=True)
class Statistics(CuratorMethod):
    """Statistics release counts of a whole graph with noise of public scale, and intervals for them.

    **Formal guarantee.** At edge level (of undirected edges, or of arcs of a directed graph), and at node level with all arcs of
    a node under a promised bound on degrees. The module has the releases, :mod:`~sfumato.bounded._statistics` the proof.

    Shapes: every release is int64. ``degrees`` has a row for each group (one row if not ``grouped``) and an entry for each public
    degree; ``mixing`` has an entry for each pair of groups, of which the last is that of nodes without a label.

    Args:
        stats: names with commas between, each with a share of the budget after a colon if not the usual one, such as
            ``edges,degrees:3``. ``auto`` takes the usual ones for the unit and the public facts of the graph.
        grouped: count degrees in each group, and triangles within groups; at edge level alone, where groups are public.
        failure: the probability that bounds on degrees do not hold; 0 takes half of delta if they are needed.

    Raises:
        InputError: a name is not known or stands twice, or a share is no number above 0. ``calibrate`` raises
            UnsupportedUnitError under a unit without a proof.

    >>> from sfumato.graph._graph import PublicFacts
    >>> from sfumato.privacy.units import EdgeLevel
    >>> public = PublicFacts(1000, 750, 4, 3, directed=False)
    >>> [one.name for one in Statistics("edges,mixing").releases(EdgeLevel(directed=False), public, 1.0)]
    ['edges', 'mixing']
    """

    stats: str = AUTO
    grouped: bool = False
    failure: float = 0.0
    card: ClassVar[Card] = Card(
        name="statistics",
        summary="counts of the whole graph with intervals (sfumato describe)",
        units=("edge", "person", "node"),
        citations=("nissim2007smooth", "karwa2011private", "hay2009accurate"),
        audience=Audience(("noisy counts of the whole graph",), never=("counts before noise",)),
        controls=(),
        learns=False,
        reads_weights=True,
        notes=(
            "Triangles, wedges and stars, where they were asked for at edge level, have noise that released bounds on degrees "
            "scale. With the probability settings.failure, a part of delta, these bounds are too small, and so may this noise "
            "be. The rest of delta is left to composition.",
        ),
    )

    def __post_init__(self) -> None:
        check_kind(str, "Write names in one text with commas between, such as 'edges,degrees:3'.", stats=self.stats)
        if self.stats != AUTO:
            shares_of(self.stats)
        check_real(low=0, high=1, open_high=True, failure=self.failure)

    @property
    def shares(self) -> dict[str, Any]:
        """Return the statistics that are named with their shares, 0 where none was given."""
        return {} if self.stats == AUTO else dict(shares_of(self.stats))

    def calibrate(self, budget: Budget | None, unit: Unit, public: PublicFacts) -> Plan:
        """Find the noise for a budget before any data is seen; half of delta pays for bounds on degrees if they are needed.

        Raises:
            InputError: the budget has no delta above the failure, and bounds need one.
            UnsupportedUnitError: there is no proof under this unit.
        """
        asked = self.named(unit, public)
        if not unit.private:  # there are no releases, which would check it
            asked._check(unit, public)
        if budget is not None and unit.private and asked._bounded(unit):
            if not budget.delta:
                names = ", ".join(name for name in shares_of(asked.stats) if name in SCALED)
                raise InputError(
                    f"Expected a budget with a delta above 0 for {names}, got none: noisy bounds on degrees scale their noise, "
                    "and may fail. Give one well below 1 / (number of edges), such as 1e-7, or leave these statistics out."
                )
            if self.failure >= budget.delta:
                wanted = f"to be below delta, {budget.delta:g}, which pays for it"
                raise fail("failure", self.failure, wanted, "Leave it out: half of delta is usual.")
            asked = replace(asked, failure=self.failure or budget.delta / 2)
        return super(Statistics, asked).calibrate(budget, unit, public)

    def named(self, unit: Unit, public: PublicFacts) -> Statistics:
        """Return the same with the names of its statistics in place of ``auto``."""
        return replace(self, stats=usual(unit, public)) if self.stats == AUTO else self

    def who_may_see(self, unit: Unit) -> dict[str, list[str]]:
        """Say who may be shown what: all of it follows from the releases, and nothing is for single nodes."""
        if not unit.private:
            return super().who_may_see(unit)
        audience = self.card.audience
        return {"anyone": [*audience.outputs], "the node itself": [], "never": [*audience.never]}

    def check(self, graph: Graph) -> None:
        """Refuse a graph without weights if they are asked for; a graph itself refuses a node above its promise."""
        if graph.weights is None and {"weight", "weights"} & {*shares_of(self.stats)}:
            raise InputError(
                "Expected a graph whose edges have weights, got none. Name their column in the edge table and a public bound: "
                "--edge-weight COLUMN --max-weight W."
            )

    def check_noise(self, events: Any, unit: Unit) -> None:
        """Take any noise: the sampler of discrete noise draws all scales up to 2^50."""

    def _bounded(self, unit: Unit) -> bool:
        """Whether noisy bounds on degrees scale the noise of a count."""
        return any(by_bounds(name, unit) for name in shares_of(self.stats))

    def planned(self, unit: Unit, public: PublicFacts) -> Iterator[tuple[str, float, tuple[int, ...]]]:
        """Yield the name, share and shape of each release, in order."""
        wanted, directed = shares_of(self.stats), public.directed
        groups = public.num_classes + 1 if public.num_classes else 1
        rows = groups if self.grouped else 1
        most = most_degree(unit, public)
        if self._bounded(unit):
            yield "bounds", _BOUNDS, (2,)
        for name, row in ROWS.items():
            if name not in wanted:
                continue
            share = wanted[name] or row.share
            if name == "degrees":
                ends = len(degree_ends(most))
                for part in ("out-degrees", "in-degrees") if directed else ("degrees",):
                    yield part, share / (2 if directed else 1), (rows, ends)
            elif name == "mixing":
                yield name, share, (groups * groups if directed else groups * (groups + 1) // 2,)
            elif name == "node-degrees":
                yield name, share, (2 if directed else 1, public.num_nodes)
            elif name == "groups":
                yield name, share, (groups,)
            else:
                yield name, share, (RANGES if name == "weights" else rows if name == "triangles" else 1,)

    def releases(self, unit: Unit, public: PublicFacts, noise_multiplier: float) -> tuple[Release, ...]:
        """List a release for each statistic, and one of the bounds that some need."""
        if self.stats == AUTO:
            return self.named(unit, public).releases(unit, public, noise_multiplier)
        self._check(unit, public)
        planned = list(self.planned(unit, public))
        total = sum(share for _, share, _ in planned)
        found = []
        for name, share, shape in planned:
            epsilon = share / total / noise_multiplier
            if not by_bounds(name, unit):
                l1_sensitivity(name, unit, public)
            fails = self.failure or _SKETCHED
            event = ApproximateEvent(epsilon, fails) if name == "bounds" else PureEvent(epsilon)
            found.append(Release(name, event, shape, 0))
        return tuple(found)

    def _check(self, unit: Unit, public: PublicFacts) -> None:
        names = {*shares_of(self.stats)}
        undirected, directed = names & {*SCALED}, names & {"mutual"}
        if public.directed and undirected:
            raise UnsupportedUnitError(
                f"Statistics {', '.join(sorted(undirected))} are counted in undirected graphs, and this one has "
                "directions. Leave them out, or read each arc as an edge without a direction (--undirected)."
            )
        if not public.directed and directed:
            raise UnsupportedUnitError("Statistic mutual is counted in directed graphs. Leave it out.")
        if not public.num_classes and (self.grouped or names & {"mixing", "groups"}):
            raise InputError(
                f"Expected groups for {'degrees by group' if self.grouped else 'mixing'}, got a graph without labels. Name a "
                "public column of groups (--by COLUMN, in Python label=...), or leave it out."
            )
        if unit.private and "groups" in names and "labels" in unit.public:
            raise UnsupportedUnitError(
                f"Statistic groups is for units that protect labels: how many nodes each group has is public when the unit is "
                f"{unit.describe()}. Leave it out; sf.describe(fitted).sizes has the numbers."
            )
        if self.grouped and "labels" not in unit.public:
            raise UnsupportedUnitError(
                f"Degrees by group have no proof when the unit is {unit.describe()}: a node's group is protected with it. Drop "
                "the groups, or use --unit edge."
            )

    def run(self, plan: Planned, graph: Graph, session: Session) -> Outcome:
        """Count, and perturb each count."""
        counted, released, tops = Counted(graph), Arrays(), (0, 0)
        for name, _, shape in self.planned(plan.unit, plan.public):
            key = session.charge(name) if plan.unit.private else bytes(32)
            exact = self.exact(name, counted, plan).reshape(shape)
            scale = self._scale(plan, name, tops)
            if plan.unit.private:
                session.bind(name, exact)
            released[name] = noisy_totals(exact, scale, key) if scale <= WIDEST else np.zeros(shape, np.int64)
            if name == "bounds":
                tops = self.tops(plan, released)
        if "labels" not in plan.unit.public:
            return Outcome({}, released)
        return Outcome({SIZES: np.stack(np.divmod(counted.group_sizes(), _HALF)).astype(np.float32)}, released)

    def tops(self, plan: Planned, released: Arrays) -> tuple[int, int]:
        """Return the released bounds on the two largest degrees; (0, 0) if there are none."""
        if "bounds" not in released or not plan.unit.private:
            return 0, 0
        event = plan.event_of(ApproximateEvent, "bounds")
        return top_bounds(released["bounds"], event.epsilon, event.failure, plan.public.num_nodes)

    def scale(self, plan: Planned, name: str, released: Arrays) -> Fraction:
        """Return the scale of the noise of a released count, which is public; 0 without privacy.

        Args:
            plan: what was planned.
            name: of the release.
            released: the releases so far, of which bounds on degrees may decide the scale.
        """
        return self._scale(plan, name, self.tops(plan, released))

    def _scale(self, plan: Planned, name: str, tops: tuple[int, int]) -> Fraction:
        if not plan.unit.private:
            return Fraction(0)
        event: Any = plan.event(name)
        bounded = by_bounds(name, plan.unit)
        change = scaled(name, *tops) if bounded else l1_sensitivity(name, plan.unit, plan.public)
        return Fraction(change) / Fraction(event.epsilon)

    def exact(self, name: str, counted: Counted, plan: Planned) -> NDArray[np.int64]:
        """Return the count ``name`` before noise, which is private: as ``plan`` has it, of the graph in ``counted``."""
        if name in ("degrees", "out-degrees", "in-degrees"):
            ends = self.ends(plan)
            return counted.degrees(ends, entering=name == "in-degrees", grouped=self.grouped)
        return counted.triangles(grouped=self.grouped) if name == "triangles" else COUNTS[name](counted)

    def ends(self, plan: Planned) -> NDArray[np.int64]:
        """Return the public degrees at which nodes are counted."""
        return degree_ends(most_degree(plan.unit, plan.public))

    def scores(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> NDArray[np.float32]:
        """Refuse to classify nodes.

        Raises:
            InputError: always.
        """
        raise InputError(
            "Expected a run that learned to predict, got statistics of a whole graph. Its answers: sf.describe(fitted).answers, "
            "or `sfumato describe --from-run`."
        )


def group_sizes(weights: Arrays) -> NDArray[np.int64] | None:
    """Return how many nodes each group has, int64 [groups], if it is public.

    >>> group_sizes({SIZES: np.array([[0, 1], [7, 2]], np.float32)}).tolist()
    [7, 65538]
    """
    found = weights.get(SIZES)
    return None if found is None else np.asarray(found, np.int64).T @ np.array([_HALF, 1])


def usual(unit: Unit, public: PublicFacts) -> str:
    """Return the statistics that a run has unless it names others.

    Only undirected graphs at edge level have triangles and wedges; mixing needs groups, and weights a declared bound.

    >>> from sfumato.graph._graph import PublicFacts
    >>> from sfumato.privacy.units import EdgeLevel, NodeLevel
    >>> usual(EdgeLevel(directed=True), PublicFacts(100, 75, 0, 0, directed=True))
    'edges,degrees,mutual'
    >>> usual(NodeLevel(arcs="incident"), PublicFacts(100, 75, 0, 4, directed=False, max_degree=10))
    'edges,mixing,degrees,groups'
    """
    names = ["edges", "mixing", "degrees"] if public.num_classes else ["edges", "degrees"]
    names += ["groups"] if public.num_classes and "labels" not in unit.public else []
    if "labels" in unit.public:  # else a node goes with all its edges, and these counts need much noise
        found = ["triangles", "wedges"] if unit.edges_per_person is None else []
        names += ["mutual"] if public.directed else found
        names += [] if public.max_weight is None else ["weight", "weights"]
    return ",".join(names)


def shares_of(stats: str) -> dict[str, float]:
    """Return the named statistics with the shares that were given, 0 where none was.

    >>> shares_of("edges,degrees:3")
    {'edges': 0.0, 'degrees': 3.0}
    """
    found: dict[str, float] = {}
    for word in stats.split(","):
        name, colon, share = word.strip().partition(":")
        if name in found:
            raise fail("stats", name, "to stand once among the statistics", "Name it once, with one share.")
        if name not in ROWS:
            known = f"to name statistics, with commas between: {', '.join(ROWS)}"
            raise fail("stats", name, known, nearest(name, ROWS) or "`sfumato describe --list` explains them.")
        try:
            found[name] = float(share) if colon else 0.0
        except ValueError:
            expected = f"to have a number as the share of {name}, after the colon"
            raise fail("stats", word.strip(), expected, f"Write {name}:3.") from None
        if colon and not 0 < found[name] <= _MOST_SHARE:
            wanted = f"to give {name} a share above 0, up to {_MOST_SHARE:g}"
            raise fail("stats", word.strip(), wanted, f"Shares are relative to each other: {name}:3.")
    return found
