r"""Promises of a run that need no statistics to check: each finding is a sentence.

What is released must be what the ledger lists. Noise must be there in every entry, on the grid of the sums, drawn anew for
every fit and for every operand, and be the same if a fit is repeated with its key. The certificate must not show to others what
reads a protected record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.hops import Left, hops
from sfumato.method.contract import Outcome, Session
from sfumato.noise.keys import new_key
from sfumato.record.ledger import Ledger

if TYPE_CHECKING:
    from sfumato.graph.graph import Graph
    from sfumato.method.plan import Fitted, Plan
    from sfumato.noise.keys import Key

_HALF, _FEW, _LEAST = 0.5, 0.001, 64
_PRIVATE_WORDS = ("prediction", "feature", "encoding", "embedding", "before noise", "raw", "label", "true")


def broken_promises(fits: Sequence[tuple[Fitted, Graph]], seed: int) -> Iterator[str]:
    """Check what fits of one plan left, and yield a sentence for each promise that they break.

    Args:
        fits: runs of one plan, each with the graph that was fitted; the first two are of the same graph.
        seed: their public seed.
    """
    fitted, _ = fits[0]
    yield from _unlisted(fitted)
    yield from _audience(fitted)
    if len(fits) > 1:
        yield from _same_noise(fits[0][0], fits[1][0])
    residuals = [_residuals(one, graph, seed) for one, graph in fits]
    for name, first in residuals[0].items():
        yield from _bare(name, first)
        later = [other[name] for other in residuals[1:] if name in other and other[name].shape == first.shape]
        for second, noise in residuals[0].items():
            if second > name and noise.shape == first.shape and _alike(first, noise):
                yield f"The noise of {name} comes again in {second}: their difference is exact."
        if any(_alike(first, other) for other in later):
            yield f"Two fits share the noise of {name}: their difference is exact."


def broken_repetition(plan: Plan, graph: Graph, other: Graph, seed: int) -> Iterator[str]:
    """Run a plan with one key: twice on one graph, and on a neighbor of it; yield a sentence for each promise broken.

    The same operand must get the same noise, so that a retry releases nothing new. Another operand must get other noise, or
    the difference of two releases is exact.

    Args:
        plan: what is run three times.
        graph: the data of two of the runs.
        other: a neighbor of it.
        seed: the public seed.
    """
    key = new_key()
    first, again, moved = (_rerun(plan, data, key, seed) for data in (graph, graph, other))
    for name, array in first.released.items():
        if not np.array_equal(array, again.released[name]):
            yield f"A retry with the same key releases a second draw of {name}."
    for name, sums in _sums(plan, first, graph, seed).items():
        later = _sums(plan, moved, other, seed).get(name)
        if later is None or np.array_equal(sums, later):
            continue
        if _alike(first.released[name][:, : sums.shape[1]] - sums, moved.released[name][:, : later.shape[1]] - later):
            yield f"Two graphs under one key share the noise of {name}: their difference is exact."


def _rerun(plan: Plan, graph: Graph, key: Key, seed: int) -> Outcome:
    ledger = Ledger(plan.entry.to_dict(), plan.releases)
    return plan.method.run(plan, graph, Session(ledger, key, seed))


def _unlisted(fitted: Fitted) -> Iterator[str]:
    """Arrays that are released and not charged, or in another shape; weights beyond those that were charged."""
    planned = {release.name: release for release in fitted.plan.releases}
    for name, array in fitted.released.items():
        if name not in planned:
            yield f"Array {name!r} is released, but the ledger does not list it."
            continue
        shape = planned[name].shape
        if len(shape) != array.ndim or any(b not in (None, a) for a, b in zip(array.shape, shape, strict=True)):
            yield f"Release {name!r} has the shape {array.shape}, but the ledger lists {shape}."
    if "labels" not in fitted.plan.unit.public:
        charged = sum(
            int(np.prod([size for size in release.shape if size is not None]))
            for name, release in planned.items()
            if name not in fitted.released
        )
        trained = sum(array.size for name, array in fitted.weights.items() if name != "bounds")
        if trained != charged:
            yield f"{trained} trained numbers leave, but the ledger lists {charged}."


def _audience(fitted: Fitted) -> Iterator[str]:
    """What anyone may see must not read a protected record."""
    unit = fitted.plan.unit
    shown = fitted.certificate.values["who_may_see"]["anyone"]
    if {"features", "labels"} <= set(unit.public):
        shown = [one for one in shown if "before noise" in one or "true" in one.split()]
    for one in shown:
        words = [word for word in _PRIVATE_WORDS if word in one and "noisy" not in one and "with noise" not in one]
        if words:
            yield f"The certificate lets anyone see {one!r}, which reads protected records of {unit.describe()}."


def _same_noise(one: Fitted, two: Fitted) -> Iterator[str]:
    """Two fits of one graph: with fresh keys, nothing that is noised comes twice."""
    for name, array in one.released.items():
        other = two.released.get(name)
        if other is not None and array.size >= _LEAST and array.any() and np.array_equal(array, other):
            yield f"Two fits of one graph release the same {name}: the key of the noise is not secret or not new."
    if "labels" not in one.plan.unit.public and one.weights:
        arrays = [(a, two.weights[name]) for name, a in one.weights.items() if a.size >= _LEAST and a.any()]
        if arrays and all(np.array_equal(a, b) for a, b in arrays):
            yield "Two fits of one graph end with the same weights: the key of the noise is not secret or not new."


def _residuals(fitted: Fitted, graph: Graph, seed: int) -> dict[str, NDArray[np.int64]]:
    """The noise of each hop, for rows where no cap hides which arcs were kept."""
    sure = _sure(fitted.plan, graph)
    found = {}
    for hop in hops(fitted, graph, seed):
        seen = fitted.released[hop.name][:, hop.columns]
        noise = seen - hop.sums
        noise[~(seen.any(axis=1) & sure)] = np.iinfo(np.int64).max  # no statement
        found[hop.name] = noise
    return found


def _sums(plan: Plan, outcome: Outcome, graph: Graph, seed: int) -> dict[str, NDArray[np.int64]]:
    return {hop.name: hop.sums for hop in hops(Left(plan, outcome.weights, outcome.released), graph, seed)}


def _sure(plan: Plan, graph: Graph) -> NDArray[np.bool_]:
    """Rows all of whose messages come from owners below the cap."""
    cap = plan.unit.max_out_degree
    sure = np.ones(graph.num_nodes, bool)
    if cap is not None:
        degree = np.diff(graph.indptr)
        sure[graph.indices[np.repeat(degree > cap, degree)]] = False
    return sure


def _bare(name: str, noise: NDArray[np.int64]) -> Iterator[str]:
    """Entries without noise, and noise on a coarser grid than the sums."""
    values = noise[noise != np.iinfo(np.int64).max]
    if len(values) < _LEAST:
        return
    missing = float(np.mean(values == 0))
    if missing > _FEW and np.count_nonzero(values == 0) > 1:
        yield f"{missing:.1%} of the entries of {name} have no noise."
    step = int(np.gcd.reduce(np.abs(values)))
    if step > 1:
        yield f"The noise of {name} lies on a grid of {step} steps: what is left of an entry on it is exact."


def _alike(one: NDArray[np.int64], two: NDArray[np.int64]) -> bool:
    told = (one != np.iinfo(np.int64).max) & (two != np.iinfo(np.int64).max)
    return bool(told.sum() >= _LEAST and (one == two)[told].mean() > _HALF)
