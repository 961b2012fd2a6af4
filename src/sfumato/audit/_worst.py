"""Pairs of data sets that differ in one record, made so that noisy sums tell as much of it as the unit allows.

All other training records are empty, so no other gradient is there. Settings keep the weights where they start: a
learning rate of nearly nothing, and a clip norm below every gradient. The record's gradient then has the clip norm and one
direction at every step, and what is sent along its arcs has the largest norm. What the record itself receives is so much that
noise does not turn it: 1,500 nodes send it the same. Where a record is a person of several nodes, all of them hold the same.
A claim holds for all data and settings, so it holds for these. For DP-GNN
first weights are the worst ones too (:mod:`~sfumato.audit._worst_subgraphs`).

Which of several pairs is the worst is found from exact sums before any noise is scored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.audit._canaries import owned_by
from sfumato.audit._worst_subgraphs import WorstStart, worst_subgraphs
from sfumato.bounded._classes import check_cells
from sfumato.bounded._gradients import check_examples
from sfumato.bounded._promise import promised_sensitivity
from sfumato.bounded._routing import can_route
from sfumato.central._dpgnn import DPGNN
from sfumato.errors import DataError, InputError, UnsupportedUnitError
from sfumato.graph._graph import Graph
from sfumato.privacy.events import GaussianEvent, PoissonGaussianEvent, RepeatedGaussianEvent

if TYPE_CHECKING:
    from sfumato.method._plan import Plan
    from sfumato.method.contract import Listed
    from sfumato.privacy.budget import Budget
    from sfumato.privacy.events import Event
    from sfumato.privacy.units import Unit

_STILL = {"epochs": 2, "steps": 2, "learning_rate": 1e-6, "l2_clip_norm": 0.01, "sampling_prob": 1.0}
_SAMPLED = {"batch_size": 15, "sampling_prob": 0.25, "steps": 8}
_PIXELS, _SENDERS, _FEW, _MANY = (1, 16, 16), 1500, 60, 1000
_FREE_ARCS, _BOUND = 4, 20
_TRAIN, _TEST = 0, 2


@dataclass(frozen=True)
class Record:
    """What a record holds: its features are those of all records, turned by ``sign``; ``label`` is -1 if it is empty."""

    label: int
    sign: int = 1
    moved: bool = False


def still(method: Listed, *, sampled: bool = False) -> Listed:
    """Return a method with settings under which weights stay where they start, and gradients are longer than the clip norm.

    Steps read all records, or a quarter of them if ``sampled``.
    """
    named: Any = method
    known = {one.name for one in fields(named)}
    settings = {**_STILL, **(_SAMPLED if sampled else {})}
    kept: Listed = replace(named, **{name: value for name, value in settings.items() if name in known})
    return kept


def pairs(
    method: Listed, unit: Unit, budget: Budget, *, sampled: bool = False
) -> Iterator[tuple[Plan, tuple[Graph, Graph]]]:
    """Yield pairs of neighboring data sets under a unit, the one with the record first, and the plan for them.

    Nothing is yielded if a release is not normal, or if steps do not read a random sample where they should be ``sampled``, or
    read one where they should not.
    """
    named: Any = method
    if sampled and {"batch_size", "sampling_prob"}.isdisjoint(one.name for one in fields(named)):
        return
    try:
        if unit.partition:
            check_cells(unit)
        else:
            check_examples(unit, by_person=True)
    except UnsupportedUnitError:
        return
    if isinstance(method, DPGNN):
        if not sampled:
            start = WorstStart.of(still(method))
            both = worst_subgraphs(start, unit)
            yield start.calibrate(budget, unit, both[0].public_facts(unit, assume_public=True)), both
        return
    others = [Record(-1)]
    if unit.partition and unit.relation == "replace":
        others = [Record(0, -1)]  # a cell keeps its label
    elif unit.relation == "replace":
        others = [Record(1, sign, moved) for sign in (1, -1) for moved in (False, True)]
    quiet = still(method, sampled=sampled)
    for other, empty, beside in product(others, (_FEW,) if sampled else (_MANY, _FEW), (True, False)):
        for shape in (None, _PIXELS):
            worlds = [_world(unit, one, shape, empty, beside=beside) for one in (Record(0), other)]
            try:
                plan: Plan = quiet.calibrate(budget, unit, worlds[0].public_facts(unit, assume_public=True))
            except (InputError, DataError):
                continue
            chances = [chance_of(release.event) for release in plan.releases]
            if chances and min(chances) > 0 and (min(chances) < 1) == sampled:
                yield plan, (worlds[0], worlds[1])


def chance_of(event: Event) -> float:
    """Return with which probability a normal release reads a record; 0 if it is not normal, or reads several by chance.

    >>> chance_of(GaussianEvent(1.0)), chance_of(PoissonGaussianEvent(0.5, 1.0, 10, "replace"))
    (1.0, 0.5)
    """
    match event:
        case GaussianEvent():
            return 1.0
        case PoissonGaussianEvent():
            return event.sampling_prob
        case RepeatedGaussianEvent() if event.sampling_prob == 1:
            return 1.0
    return 0.0


def _world(unit: Unit, record: Record, shape: tuple[int, int, int] | None, empty: int, *, beside: bool) -> Graph:
    """A record, empty training records, and one labeled node; ``beside`` them two sets of targets and who sends to the record."""
    routed = can_route(unit)
    arcs, senders = (_arcs(unit) if beside else 0), _SENDERS if beside and routed else 0
    own_nodes = unit.nodes_per_person or 1  # of a person, who says the same by all of them
    first = own_nodes + empty
    last = first + 2 * arcs
    count = last + senders + 1
    width = 2 if shape is None else int(np.prod(shape))
    shown = np.zeros(width, np.float32)
    shown[: width // 2] = 1
    x, y, roles = np.zeros((count, width), np.float32), np.full(count, -1), np.full(count, _TEST, np.uint8)
    x[last:] = shown
    if record.label >= 0:
        x[:own_nodes] = shown if record.sign > 0 else (-shown if shape is None else 1 - shown)
    y[:own_nodes], y[-1], roles[:first] = record.label, 0, _TRAIN
    start = first + arcs * record.moved
    own = np.arange(start, start + arcs * (record.label >= 0))
    sources = np.concatenate([np.zeros(len(own), np.int64), np.arange(last, last + senders)])
    targets = np.concatenate([own, np.zeros(senders, np.int64)])
    bound = None if routed else _BOUND
    persons = np.maximum(np.arange(count) - own_nodes + 1, 0)
    owned = {} if unit.nodes_per_person is None else owned_by(persons, own_nodes)
    return Graph.from_arcs(
        sources,
        targets,
        count,
        directed=True,
        x=x,
        y=y,
        classes=("0", "1"),
        roles=roles,
        image_shape=shape,
        max_degree=bound,
        **owned,
    )


def _arcs(unit: Unit) -> int:
    """The most arcs of a record: those that it owns, or as many as are promised; none if a record has no arcs."""
    if can_route(unit):
        return unit.max_out_degree or _FREE_ARCS
    try:
        promised_sensitivity(unit)
    except UnsupportedUnitError:
        return 0
    return _BOUND
