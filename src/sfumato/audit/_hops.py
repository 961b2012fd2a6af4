r"""What each noisy sum of a run would be without its noise, on any graph, given what was released before.

An attacker who knows all records but one computes these sums for both neighbors: he holds the weights and the earlier
releases, and messages are functions of them and of the sender's record. Which arcs a degree cap keeps is secret, so no cap is
applied here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.bounded._counting import from_senders, to_count_steps, unrouted_sensitivity
from sfumato.bounded._incoming import incoming, owned, regrouped
from sfumato.bounded._routing import (
    needs_one_way,
    one_way,
    outward,
    public_order,
    receiving,
    routed_sensitivity,
    share,
)
from sfumato.bounded.aggregation import Arcs, hop_sensitivity, neighborhood_sum, normalize_rows, to_steps
from sfumato.central._counts import count_deviation, laplace_scale, one_hot
from sfumato.central._gap import GAP, encode
from sfumato.central._learning import Features
from sfumato.central._lpgnet import LPGNet
from sfumato.central._progap import Cache, ProGAP
from sfumato.central._shares import simplex
from sfumato.method._gaussian import multiplier_of
from sfumato.method.hops import reads_released
from sfumato.privacy.events import PureEvent

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph
    from sfumato.method._plan import Plan
    from sfumato.method.contract import Arrays


class Run(Protocol):
    """What the auditor reads of a run: its plan, and what left."""

    @property
    def plan(self) -> Plan: ...
    @property
    def weights(self) -> Arrays: ...
    @property
    def released(self) -> Arrays: ...


@dataclass(frozen=True)
class Left:
    """What left a run that made no certificate: its ``plan``, and the arrays ``weights`` and ``released`` by name."""

    plan: Plan
    weights: Arrays
    released: Arrays


@dataclass(frozen=True)
class Hop:
    """A hop is one noisy sum: what it would be without noise, and the noise that its claim needs.

    ``sums`` are int64 [num_nodes, width], in steps of 1 / 32767; ``noise`` is the standard deviation of Gaussian noise, or the
    scale of Laplace noise, in full rows. ``columns`` says which columns of the released array these are.
    """

    name: str
    sums: NDArray[np.int64]
    noise: float
    columns: slice = field(default_factory=lambda: slice(None))


def hops(run: Run, graph: Graph, seed: int) -> list[Hop]:
    """Compute every noisy sum of a run without its noise; empty if the auditor cannot."""
    replay = REPLAYS.get(run.plan.method.name)
    return [] if replay is None or not run.plan.releases else list(replay(run, graph, seed))


def _gap(run: Run, graph: Graph, _: int) -> Iterator[Hop]:
    method: Any = run.plan.method
    assert isinstance(method, GAP)
    encoder = method.trained(run.weights, run.plan.public)[0]
    yield from _chained(run, graph, encode(encoder, Features(graph)), method.hops(run.plan.unit))


def _own_network(run: Run, graph: Graph, _: int) -> Iterator[Hop]:
    """Sums of features, beside which a network of the user's own was trained."""
    method: Any = run.plan.method
    yield from _chained(run, graph, encode(None, Features(graph)), method.num_hops)


def _chained(run: Run, graph: Graph, rows: NDArray[np.float32], num_hops: int) -> Iterator[Hop]:
    """Hops that each send the released rows of the one before."""
    for hop in range(1, num_hops + 1):
        yield _plain(run, graph, hop, rows)
        rows = normalize_rows(run.released[f"aggregate/{hop}"])


def _progap(run: Run, graph: Graph, _: int) -> Iterator[Hop]:
    method: Any = run.plan.method
    assert isinstance(method, ProGAP)
    cache = Cache(method, graph)
    networks = method.trained(run.weights, run.plan.unit, run.plan.public)
    for hop, network in enumerate(networks[:-1], start=1):
        yield _plain(run, graph, hop, cache.messages(network))
        cache.add(run.released[f"aggregate/{hop}"])


def _plain(run: Run, graph: Graph, hop: int, rows: NDArray[np.float32]) -> Hop:
    """A hop along all arcs."""
    name, unit = f"aggregate/{hop}", run.plan.unit
    noise = multiplier_of(run.plan, name) * hop_sensitivity(unit, released_messages=reads_released(unit, hop))
    return Hop(name, neighborhood_sum(incoming(graph), to_steps(rows)), noise)


def _labels(run: Run, graph: Graph, seed: int) -> Iterator[Hop]:
    return (_counts if "labels" in run.plan.unit.public else _routed)(run, graph, seed)


def _counts(run: Run, graph: Graph, seed: int) -> Iterator[Hop]:
    """Counts of known labels; those of others follow from a head that is not kept, so they are left out."""
    plan, classes = run.plan, run.plan.public.num_classes
    rows, known = one_hot(graph, classes)
    arcs, rank = incoming(graph), public_order(known, seed)
    arcs = one_way(arcs, rank) if needs_one_way(plan.unit) else outward(arcs, known)
    sums = neighborhood_sum(from_senders(arcs, known), to_count_steps(rows))
    pure = isinstance(plan.event("aggregate/1"), PureEvent)
    noise = float(laplace_scale(plan)) if pure else count_deviation(plan)
    yield Hop("aggregate/1", sums, noise, slice(0, classes))


def _routed(run: Run, graph: Graph, seed: int) -> Iterator[Hop]:
    method: Any = run.plan.method
    plan = run.plan
    sends = graph.train_mask
    receives = ~sends | method.learners(plan.unit, sends, public_order(sends, seed))
    lists = receiving(owned(graph), sends, receives)
    messages = np.zeros((graph.num_nodes, plan.public.num_classes), np.float32)
    assert graph.y is not None
    known = np.flatnonzero(sends & (graph.y >= 0))
    messages[known] = simplex(plan.public.num_classes)[graph.y[known]]
    sums = neighborhood_sum(regrouped(lists), to_steps(share(messages, np.diff(lists.offsets))))
    for name in sorted(run.released):
        if name.startswith("aggregate/") and run.released[name].any():
            yield Hop(name, sums, multiplier_of(run.plan, name) * routed_sensitivity(plan.unit))


def _lpgnet(run: Run, graph: Graph, _: int) -> Iterator[Hop]:
    method: Any = run.plan.method
    assert isinstance(method, LPGNet)
    found: list[Hop] = []
    arcs, unit = Arcs(*graph.transpose()), run.plan.unit

    def counts(k: int, rows: NDArray[np.float32]) -> NDArray[np.int64]:
        name = f"aggregate/{k}"
        event = run.plan.event(name)
        assert isinstance(event, PureEvent)
        noise = unrouted_sensitivity(unit) / event.epsilon
        found.append(Hop(name, neighborhood_sum(arcs, to_count_steps(rows)), noise))
        return run.released[name]

    method.replay(run.plan, run.weights, graph, counts)
    yield from found


REPLAYS: Mapping[str, Callable[[Any, Any, int], Iterator[Hop]]] = {
    "gap": _gap,
    "dpsgd-hops": _own_network,
    "progap": _progap,
    "label-messages": _labels,
    "piloted-messages": _labels,
    "lpgnet": _lpgnet,
}
