"""What a twin keeps and what it does not: its own numbers beside those that were released. No private data is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.privacy.units import NoPrivacy
from sfumato.record._certificate import COVERS
from sfumato.statistics._answers import Answer, describe
from sfumato.statistics._estimates import Estimates
from sfumato.statistics._statistics import Statistics, shares_of
from sfumato.statistics._twin import protects_nodes
from sfumato.statistics._words import is_noise

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph
    from sfumato.method._plan import Fitted

_DEGREES = ("degrees", "out-degrees", "in-degrees")
_UNANSWERED = ("node-degrees", "weight", "weights")
NOT_KEPT = (
    "whether two given nodes are neighbors: an edge of the twin is drawn, and says nothing of an edge of the graph beyond what "
    "the released statistics say",
    "communities within groups, distances, and centralities beyond degrees: they are those of a random graph with these "
    "degrees, groups and cliques",
    "how features and edges go together beyond the groups",
    "weights of edges, and times",
    "of directed graphs triangles; arcs in both directions are as many as chance makes of the others",
)
"""What no twin keeps, since no statistic holds it."""


@dataclass(frozen=True)
class Likeness:
    """One number of a twin beside the released one.

    Args:
        released: the answer of the run, with its interval.
        twin: the same number of the twin, exactly.
    """

    released: Answer
    twin: float

    @property
    def kept(self) -> bool | None:
        """Whether the number of the twin lies in the interval; None where there is none."""
        low, high = self.released.low, self.released.high
        return None if low is None or high is None else bool(low <= self.twin <= high)

    def to_dict(self) -> dict[str, Any]:
        return {**self.released.to_dict(), "twin": self.twin, "kept": self.kept}


def likeness(run: Fitted, made: Graph, confidence: float = 0.95) -> tuple[Likeness, ...]:
    """Compare a twin with the release that it was made of, number by number; this spends nothing.

    The twin is public, so its numbers are counted exactly.

    Args:
        run: the run of statistics.
        made: its twin.
        confidence: the chance with which each interval of the release holds.
    """
    answers = describe(run, confidence).answers
    method = run.plan.method
    assert isinstance(method, Statistics)
    names = [name for name in shares_of(method.stats) if name not in _UNANSWERED]
    if not names:
        return ()
    exact = Statistics(",".join(names), grouped=method.grouped)
    most = run.plan.public.max_degree
    if most is not None and np.diff(made.indptr).max(initial=0) <= most and not made.directed:
        made = made.changed(max_degree=most)  # so that degrees have the ranges of the run
    counted = exact.calibrate(None, NoPrivacy(), made.public_facts(NoPrivacy())).fit(made)
    found = {(one.statistic, one.what): one.value for one in describe(counted, confidence).answers}
    pairs = ((one, found.get((one.statistic, one.what))) for one in answers)
    return tuple(Likeness(one, float(value)) for one, value in pairs if value is not None)


def page(run: Fitted, made: Graph, compared: Sequence[Likeness], seed: int) -> str:
    """Write what stands beside a twin: the claim it inherits, which questions it answers, and which it does not."""
    return "\n".join(_lines(run, made, compared, seed)) + "\n"


def claim(run: Fitted, seed: int) -> Mapping[str, Any]:
    """Return what identifies the release that a twin was made of, and its claim."""
    certificate = run.certificate.values
    return {"claim": certificate["claim"], "unit": certificate["unit"], "ledger_head": run.ledger.head, "seed": seed}


def _lines(run: Fitted, made: Graph, compared: Sequence[Likeness], seed: int) -> Iterator[str]:
    private = run.certificate.epsilon is not None
    kind = "arcs" if made.directed else "edges"
    yield f"A synthetic twin of {run.graph_key.name}: {made.num_nodes:,} nodes, {made.num_edges:,} {kind}"
    yield ""
    if protects_nodes(Estimates(run)):
        yield "There are as many nodes as in the graph, but none stands for one of it. Labels are dealt at random, as many of "
        yield "each as was released, and there are no features. All edges are drawn, from released statistics alone "
    else:
        yield "Nodes and labels are those of the graph. All edges are drawn, from released statistics alone "
    yield f"(public seed {seed}). The twin is post-processing of the release, so it inherits its claim:"
    yield ""
    yield run.certificate.sentence if private else "This run has no privacy: the twin must stay where the graph is."
    if private:
        yield f"{COVERS} Head of the ledger: {run.ledger.head}"
    yield ""
    inside = [one for one in compared if one.kept]
    yield f"Questions it answers as the release does: {len(inside)} of {len(compared)} numbers lie in the released intervals."
    noise, others = sum(is_noise(one.released) for one in inside), len(describe(run).answers) - len(compared)
    if noise:
        yield f"Of these, {noise} say little, since their intervals are mostly noise: they are marked."
    if others:
        yield f"{others} more numbers of the release are not compared: those of single nodes, of weights, and those not drawn."
    if any(one.kept is False for one in compared):
        yield 'Where "no" stands, take the released number.'
    yield ""
    for name, word in ((one, one.removesuffix("s")) for one in _DEGREES if run.released.get(one) is not None):
        of = made.indices if name == "in-degrees" else np.repeat(np.arange(made.num_nodes), np.diff(made.indptr))
        most = int(np.bincount(of, minlength=1).max(initial=0))
        rows = range(len(run.released[name]))
        known = max(int(Estimates(run).sequence(name, row).max(initial=0)) for row in rows)
        yield f"The largest {word} of the twin is {most:,}; the release's estimate of the largest is {known:,}."
    yield "The table of nodes has all of them; that of edges does not name those without edges."
    yield ""
    yield f"{'twin':>14} {'released':>14} {'from':>14} {'to':>14}  kept   what"
    for one in compared:
        numbers = (one.twin, one.released.value, one.released.low, one.released.high)
        kept = {True: "noise" if is_noise(one.released) else "yes", False: "no", None: "?"}[one.kept]
        yield " ".join(f"{_number(value):>14}" for value in numbers) + f"  {kept:<5}  {one.released.what}"
    yield ""
    yield "Questions it does not answer:"
    yield from (f"- {words}." for words in NOT_KEPT)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value == round(value) or abs(value) >= 1000 else f"{value:.4g}"
