r"""Promises of a run that hold whatever epsilon is: each finding is a sentence.

What is released must be what the ledger lists. Noise must be there in every entry, on the grid of the sums, drawn anew for
every fit and for every operand, and be the same if a fit is repeated with its key. The certificate must not show to others what
reads a protected record.

What is listed and shown, and what a retry releases, is checked exactly. Three promises are statistical. An honest run breaks
each with probability at most 1e-6 (a hop for the first, a comparison for the others), beside the confidence of the bounds:

* *Entries without noise.* Noise of the claimed law is 0 with probability p at most, so that the number of zeros among n entries
  is at most binomial; its tail is compared with the risk.
* *Noise that comes twice.* No value of the claimed law is likelier than p, so that two windows of k successive entries, also
  if they overlap, are equal with probability at most :math:`p^k`. Of M windows, over all hops and fits, two are equal with
  probability at most :math:`M^2 p^k / 2`; k is the smallest for which this is below the risk.
* *Releases that come twice.* Edges by randomized response are equal with probability at most
  :math:`(1 - 2 p (1 - p))^m` if m pairs have no edge and each comes out with probability p. For other
  :math:`\epsilon`-DP edges that treat all pairs alike, exchanging k of the s pairs that came out for k of the r others changes at
  most 2 k bits, so that one result has probability at most
  :math:`\min_k e^{2 k \epsilon} / (\binom{s}{k} \binom{r}{k})`.

Noise on a grid of two or more steps by chance has probability below :math:`2 \cdot 0.51^{64}` where it is looked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc, gammaln

from sfumato.audit._hops import Hop, Left, hops
from sfumato.loops.kernels import INT16_ONE
from sfumato.method.contract import Outcome, Session
from sfumato.noise.keys import new_key
from sfumato.privacy.events import GaussianEvent, LaplaceEvent, PureEvent, RandomizedResponseEvent
from sfumato.record.ledger import Ledger

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph
    from sfumato.method._plan import Fitted, Plan
    from sfumato.noise.keys import Key

_HALF, _LEAST = 0.5, 64
_RISK = 1e-6
_LIKELY = 0.01  # a value of noise that is this likely makes the grid, and windows of entries, say nothing
_MIX = 0x9E3779B97F4A7C15
_NOISED = (GaussianEvent, LaplaceEvent, PureEvent)
_NONE = np.iinfo(np.int64).max  # an entry about which no statement is made
_LEAVES = (
    "weights", "reports", "noisy aggregates", "noisy counts of right answers", "noisy pairs of classes",
    "noisy levels of how many senders nodes have", "the perturbed edges",
    "PageRank rows with noise", "noisy counts of the whole graph",
)  # fmt: skip
_PREDICTIONS = ("predictions", "predictions for all nodes", "scores of all pairs")
_VIEWERS = ("anyone", "the node itself", "never")


def broken_promises(fits: Sequence[tuple[Fitted, Graph]], seed: int) -> Iterator[str]:
    """Check what fits of one plan left, and yield a sentence for each promise that they break."""
    fitted, _ = fits[0]
    yield from _unlisted(fitted)
    yield from _audience(fitted)
    if len(fits) > 1:
        yield from _same_release(fits[0][0], fits[1][0], fits[0][1])
    residuals = [_residuals(one, graph, seed) for one, graph in fits]
    for name, (noise, likely) in residuals[0].items():
        yield from _bare(name, noise, likely)
    yield from _repeated(residuals)


def broken_repetition(plan: Plan, graph: Graph, other: Graph, seed: int) -> Iterator[str]:
    """Run a plan with one key: twice on one graph, and on a neighbor of it; yield a sentence for each promise broken.

    The same operand must get the same noise, so that a retry releases nothing new. Another operand must get other noise, or
    the difference of two releases is exact.
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
    """What anyone may see is on a list of what is charged; where features and labels are public, predictions are as well."""
    unit, shown = fitted.plan.unit, fitted.certificate.values["who_may_see"]
    known = _LEAVES + (_PREDICTIONS if {"features", "labels"} <= set(unit.public) else ())
    for one in shown["anyone"]:
        if one not in known:
            yield (
                f"The certificate lets anyone see {one!r}, of which it is not known whether it protects {unit.describe()}. "
                f"Known are: {', '.join(known)}."
            )
    for viewer in shown:
        if viewer not in _VIEWERS:
            yield f"The certificate names viewers {viewer!r}; known are: {', '.join(_VIEWERS)}."


def _same_release(one: Fitted, two: Fitted, graph: Graph) -> Iterator[str]:
    """Two fits of one graph: with fresh keys, nothing that is noised comes twice."""
    for name, array in one.released.items():
        other = two.released.get(name)
        same = other is not None and array.size >= _LEAST and array.any() and np.array_equal(array, other)
        if same and _log_chance_of_same(name, one, graph) < math.log(_RISK):
            yield f"Two fits of one graph release the same {name}: the key of the noise is not secret or not new."
    if "labels" not in one.plan.unit.public and one.weights:
        arrays = [(a, two.weights[name]) for name, a in one.weights.items() if a.size >= _LEAST and a.any()]
        if arrays and all(np.array_equal(a, b) for a, b in arrays):
            yield "Two fits of one graph end with the same weights: the key of the noise is not secret or not new."


def _log_chance_of_same(name: str, fitted: Fitted, graph: Graph) -> float:
    """Bound the log-probability that another fit releases the same; the module has the proof. 0 where none is known."""
    plan, edges = fitted.plan, fitted.released[name]
    if name != "edges":
        noised = name in {release.name for release in plan.releases} and isinstance(plan.event(name), _NOISED)
        return -math.inf if noised else 0.0
    halves = 1 if graph.directed else 2
    pairs = graph.num_nodes * (graph.num_nodes - 1) // halves
    event = plan.event(name)
    if isinstance(event, RandomizedResponseEvent):
        method: Any = plan.method
        p = float(method.chance(plan, fitted.released))
        return (pairs - len(graph.indices) // halves) * math.log1p(-2 * p * (1 - p))
    if not isinstance(event, PureEvent):
        return 0.0
    out, rest = len(edges), pairs - len(edges)
    k = np.arange(min(out, rest) + 1)
    ways = sum(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1) for n in (out, rest))
    return float((2 * k * event.epsilon - ways).min())


def _residuals(fitted: Fitted, graph: Graph, seed: int) -> dict[str, tuple[NDArray[np.int64], float]]:
    """The noise of each hop, for rows where no cap hides which arcs were kept, and how likely its likeliest value is."""
    sure = _sure(fitted.plan, graph)
    found = {}
    for hop in hops(fitted, graph, seed):
        seen = fitted.released[hop.name][:, hop.columns]
        noise = seen - hop.sums
        noise[~(seen.any(axis=1) & sure)] = _NONE
        found[hop.name] = noise, _likeliest(fitted, hop)
    return found


def _likeliest(fitted: Fitted, hop: Hop) -> float:
    """The probability of 0, which no value of rounded or of discrete noise exceeds."""
    steps = hop.noise * INT16_ONE
    return math.tanh(0.5 / steps) if isinstance(fitted.plan.event(hop.name), PureEvent) else math.erf(0.5**1.5 / steps)


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


def _bare(name: str, noise: NDArray[np.int64], likely: float) -> Iterator[str]:
    """Entries without noise, and noise on a coarser grid than the sums."""
    values = noise[noise != _NONE]
    if len(values) < _LEAST:
        return
    missing = int(np.count_nonzero(values == 0))
    if missing and bdtrc(missing - 1, len(values), likely) <= _RISK:
        yield f"{missing / len(values):.2%} of the entries of {name} have no noise."
    step = int(np.gcd.reduce(np.abs(values)))
    if step > 1 and likely < _LIKELY:
        yield f"The noise of {name} lies on a grid of {step} steps: what is left of an entry on it is exact."


def _repeated(fits: Sequence[dict[str, tuple[NDArray[np.int64], float]]]) -> Iterator[str]:
    """Windows of noise that come again: in one hop, in another hop, or in another fit."""
    parts = [
        (number, name, noise[noise != _NONE]) for number, one in enumerate(fits) for name, (noise, _) in one.items()
    ]
    total = sum(len(values) for _, _, values in parts)
    likely = max((likely for one in fits for _, likely in one.values()), default=1.0)
    if not total or likely >= _LIKELY:
        return
    width = math.ceil(math.log(2 * _RISK / total**2) / math.log(likely))
    parts = [part for part in parts if len(part[2]) >= width]
    if not parts:
        return
    windows = np.concatenate([np.lib.stride_tricks.sliding_window_view(values, width) for _, _, values in parts])
    source = np.repeat(np.arange(len(parts)), [len(values) - width + 1 for _, _, values in parts])
    mixed = np.zeros(len(windows), np.uint64)
    for column in windows.T:
        mixed = mixed * np.uint64(_MIX) + column.astype(np.uint64)
    _, place, count = np.unique(mixed, return_inverse=True, return_counts=True)
    again = np.flatnonzero(count[place] > 1)
    _, group = np.unique(windows[again], axis=0, return_inverse=True)
    order = np.argsort(group.ravel(), kind="stable")
    group, source = group.ravel()[order], source[again][order]
    same = group[1:] == group[:-1]
    for before, after in sorted(set(zip(source[:-1][same].tolist(), source[1:][same].tolist(), strict=True))):
        (one, name, _), (two, second, _) = parts[before], parts[after]
        if one != two:
            yield f"Two fits share the noise of {name}: their difference is exact."
        elif name != second:
            yield f"The noise of {name} comes again in {second}: their difference is exact."
        else:
            yield f"Noise comes more than once in {name}: the difference of such entries is exact."


def _alike(one: NDArray[np.int64], two: NDArray[np.int64]) -> bool:
    told = (one != _NONE) & (two != _NONE)
    return bool(told.sum() >= _LEAST and (one == two)[told].mean() > _HALF)
