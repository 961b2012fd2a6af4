"""What the verifier knows of statistics: which counts leave, of which shape, at which part of the budget."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ._kinds import Planned
from ._rules import Known, Rules
from ._units import edges_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ._kinds import Values
    from ._rules import Audience, Certificate, Tensors
    from ._tensors import Stored

_SHARES = {"edges": 1, "mixing": 2, "degrees": 8, "triangles": 4, "wedges": 1, "stars": 1, "mutual": 1, "weight": 1, "weights": 2,
           "node-degrees": 8, "groups": 0.5}  # fmt: skip
_SCALED, _RANGES, _EXACT = ("triangles", "wedges", "stars"), 16, 1 << 13
_NOT_OF_NODES = ("weight", "weights", "node-degrees")
SIZES, _HALF = "group.sizes", 1 << 16
_SEEN: Audience = {
    "anyone": ["noisy counts of the whole graph"],
    "the node itself": [],
    "never": ["counts before noise"],
}


@dataclass(frozen=True)
class Counts(Planned):
    """Counts with discrete Laplace noise; with a ``failure`` they are bounds that may fail. ``share`` is that of the budget."""

    share: float = field(default=1.0, kw_only=True)
    failure: float | None = field(default=None, kw_only=True)

    def faults(self, where: str, release: Values) -> Iterator[str]:
        event, kind = release["event"], "pure" if self.failure is None else "approximate"
        if event["type"] != kind or event.get("count") != 1:
            yield f"{where}event: expected one release of type {kind}"
            return
        if self.failure is not None and event["failure"] != self.failure:
            yield f"{where}event.failure: expected {self.failure:.9g}, as the settings say, got {event['failure']:.9g}"
        yield from self.size_faults(where, release)


def stats_of(text: Any) -> dict[str, float] | None:
    """Return the statistics that a setting names with their shares, or None if it is no list of them.

    >>> stats_of("edges,degrees:3"), stats_of("edges,edges"), stats_of("all")
    ({'edges': 1.0, 'degrees': 3.0}, None, None)
    """
    found: dict[str, float] = {}
    for word in text.split(",") if isinstance(text, str) and len(text) < 1000 else [""]:
        name, colon, share = word.strip().partition(":")
        if name not in _SHARES or name in found:
            return None
        try:
            found[name] = float(share) if colon else float(_SHARES[name])
        except ValueError:
            return None
        if not 0 < found[name] <= 1e6:
            return None
    return found


def num_ends(most: int) -> int:
    """Return at how many degrees nodes are counted if none is above ``most``.

    >>> num_ends(4), num_ends(10**6)
    (4, 8503)
    """
    found, last = min(most, _EXACT), _EXACT
    while last < most:
        found, last = found + 1, last + last // 64
    return found


class Statistics(Rules):
    """Rules of statistics."""

    reads_weights = True
    since = 3
    settings: ClassVar = {"stats": "name", "grouped": "flag", "failure": "fraction"}
    audience: ClassVar = {"edge": _SEEN, "person": _SEEN, "node": _SEEN}

    def setting_faults(self, certificate: Certificate) -> Iterator[str]:
        found = list(super().setting_faults(certificate))
        yield from found
        if not found and stats_of(certificate["settings"]["stats"]) is None:
            yield "certificate.json: settings.stats: expected names of statistics, each once, with shares above 0"

    def faults(self, certificate: Certificate) -> Iterator[str]:
        known = Known(certificate)
        asked, unit = {*(stats_of(known.stats) or ())}, known.unit
        if unit["name"] == "none":
            return
        where = "certificate.json: settings.stats: "
        if known.directed and asked & {*_SCALED}:
            yield f"{where}{', '.join(sorted(asked & {*_SCALED}))}: no proof for directed graphs"
        if not known.directed and "mutual" in asked:
            yield f"{where}mutual: no pairs of arcs in undirected graphs"
        if known.max_weight is None and asked & {"weight", "weights"}:
            yield f"{where}weights of edges need a declared bound"
        of_edges = edges_in(certificate) is not None
        if of_edges and unit["directed"] != known.directed:
            yield "certificate.json: unit.directed: statistics have a proof for the edges of the graph alone"
        if unit["name"] == "person" and asked & {*_SCALED}:
            yield f"{where}{', '.join(sorted(asked & {*_SCALED}))}: no proof for all edges of a person"
        if of_edges and "groups" in asked:
            yield f"{where}groups: sizes of groups are public under this unit"
        if known.num_classes == 0 and asked & {"mixing", "groups"}:
            yield f"{where}no groups in a graph without classes"
        if unit["name"] == "node":
            if unit["arcs"] != "incident" or known.max_degree is None:
                yield "certificate.json: public_facts.max_degree: expected a bound on degrees under incident arcs"
            if known.grouped or asked & {*_NOT_OF_NODES}:
                yield f"{where}no proof for single nodes and groups under this unit"
        bounded = self._bounded(known)
        if bounded and not 0 < known.failure < known.certificate["claim"]["delta"]:
            yield "certificate.json: settings.failure: expected a number above 0 and below delta"
        yield from self._share_faults(certificate)

    @staticmethod
    def _bounded(known: Known) -> bool:
        return known.unit["name"] == "edge" and bool({*_SCALED} & {*(stats_of(known.stats) or ())})

    def releases(self, certificate: Certificate) -> list[Planned]:
        known = Known(certificate)
        if known.unit["name"] == "none":
            return []
        return [*self._planned(known)]

    def _planned(self, known: Known) -> list[Counts]:
        shares, directed = stats_of(known.stats) or {}, known.directed
        groups = known.num_classes + 1 if known.num_classes else 1
        rows = groups if known.grouped else 1
        most = max(1, known.num_nodes - 1)
        if known.unit["name"] == "node" and known.max_degree is not None:
            most = min(most, known.max_degree)
        found: list[Counts] = []

        def add(name: str, share: float, *shape: int, failure: float | None = None) -> None:
            found.append(Counts(name, [*shape], 0, share=share, failure=failure))

        if self._bounded(known):
            add("bounds", 1.0, 2, failure=known.failure)
        for name in _SHARES:
            if name not in shares:
                continue
            if name == "degrees":
                for part in ("out-degrees", "in-degrees") if directed else ("degrees",):
                    add(part, shares[name] / (2 if directed else 1), rows, num_ends(most))
            elif name == "mixing":
                add(name, shares[name], groups * groups if directed else groups * (groups + 1) // 2)
            elif name == "node-degrees":
                add(name, shares[name], 2 if directed else 1, known.num_nodes)
            elif name == "groups":
                add(name, shares[name], groups)
            else:
                add(name, shares[name], _RANGES if name == "weights" else rows if name == "triangles" else 1)
        return found

    def _share_faults(self, certificate: Certificate) -> Iterator[str]:
        """Yield a problem for an epsilon of a release that is not its share of all."""
        planned = self._planned(Known(certificate))
        events = [release["event"] for release in certificate["releases"]]
        if len(events) != len(planned) or any("epsilon" not in event for event in events):
            return
        whole, total = math.fsum(event["epsilon"] for event in events), math.fsum(one.share for one in planned)
        for index, (event, one) in enumerate(zip(events, planned, strict=True)):
            expected = whole * one.share / total
            if not math.isclose(event["epsilon"], expected, rel_tol=1e-9):
                yield (
                    f"certificate.json: releases[{index}].event.epsilon: expected {expected:.9g}, its share, got "
                    f"{event['epsilon']:.9g}"
                )

    def networks(self, certificate: Certificate, found: Iterable[str] = ()) -> Tensors:
        known = Known(certificate)
        return (
            {SIZES: [2, known.num_classes + 1 if known.num_classes else 1]} if edges_in(certificate) is not None else {}
        )

    def weight_faults(self, certificate: Certificate, weights: Mapping[str, Stored]) -> Iterator[str]:
        if SIZES not in weights:
            return
        parts = weights[SIZES].array().astype(float)
        nodes, whole = certificate["public_facts"]["num_nodes"], (parts >= 0).all() and (parts == np.floor(parts)).all()
        if not whole or (parts[1] >= _HALF).any() or (np.array([_HALF, 1]) @ parts).sum() != nodes:
            yield f"model.safetensors: {SIZES}: expected sizes that add up to the number of nodes"
