"""What happens before the first release of a fit: the state is bound, the claim is reserved, and the ledger is opened.

A second fit on one graph is a second release: where no ledger of the data set adds both up, a warning does.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import finalize

import numpy as np

from sfumato._validate import fail
from sfumato.errors import RepeatedFitWarning
from sfumato.graph._storage import features_apart
from sfumato.method._engine import PlanEntry, Spending
from sfumato.method.contract import Planned, Session, Watch
from sfumato.noise.keys import Key, derive_key, new_key, operand_mac
from sfumato.record.ledger import canonical_json

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph
    from sfumato.method._graph_key import GraphKey
    from sfumato.record._dataset_ledger import DatasetLedger
    from sfumato.record._resume import FitState

_SPENT: dict[tuple[int, str], list[float]] = {}  # the epsilons of the fits on the arcs of one graph, by what was fitted
_LIBRARY = "sfumato."  # what it fits itself, it fits to evaluate or to audit


def open_session(
    plan: Planned,
    entry: PlanEntry,
    graph: Graph,
    seed: int,
    path: Path | None,
    dataset_ledger: DatasetLedger | None,
    state: FitState | None,
    run: str,
    watch: Watch,
) -> Session:
    """Open the ledgers of a fit in the order of :mod:`sfumato.method._engine`."""
    identity, charged = plan.method.data_set(graph), charged_to(plan, graph)
    if state is None:
        key, spending = new_key(), Spending(entry, dataset_ledger, run)
    elif path is None:
        raise fail("ledger", None, "to name a file for a resumable fit", "What it charged must outlive it.")
    else:
        key = state.key
        if not state.bound("plan"):
            Spending(entry, dataset_ledger, run).begin_shared(charged)
        read = {"graph": _graph_mac(graph, identity, key)}
        spending = Spending.of_state(entry, dataset_ledger, state, _terms(plan, seed, key), read)
    ledger = spending.begin(path, charged)
    return Session(ledger, key, seed, state=state, spend=spending.spend, watch=watch)


def charged_to(plan: Planned, graph: Graph) -> dict[str, Any]:
    """Return what identifies the data set that a plan on a graph is charged to: its name, its ids, its cells and its window."""
    identity, cells = plan.method.data_set(graph), plan.method.cells_key(plan.unit, graph)
    beside = {name: value for name, value in (("cells", cells), ("window", graph.window)) if value}
    return {"name": identity.name, "ids_digest": identity.ids_digest, **beside}


def _terms(plan: Planned, seed: int, key: Key) -> dict[str, Any]:
    """What decides, beside plan entry, data and key, what a fit computes."""
    weights = {} if plan.method.origin is None else plan.method.origin.weights
    names = np.frombuffer(canonical_json(sorted(weights)).encode(), np.uint8)
    operands = (names, *(weights[name] for name in sorted(weights)))
    return {
        "settings": plan.method.settings,
        "weights": operand_mac(derive_key(key, "resume"), *operands).hex(),
        "seed": seed,
        "public": plan.public.to_dict(),
    }


def _graph_mac(graph: Graph, identity: GraphKey, key: Key) -> bytes:
    """MAC of everything that a fit reads of a graph."""
    columns = [array for array in features_apart(graph.stored_x).values() if array is not None]
    packing = getattr(graph.stored_x, "widths", None)
    targets = () if graph.targets is None else (graph.targets.values,)
    weights = () if graph.weights is None else (graph.weights.steps,)
    types = () if graph.types is None else (graph.types.marks,)
    bounds = () if graph.degree_bounds is None else (graph.degree_bounds,)
    arrays = (graph.indptr, graph.indices, graph.y, graph.roles, graph.cells)
    beside = (*columns, *targets, *weights, *types, *bounds)
    text = np.frombuffer(
        (repr(identity) + "".join(repr(one) for one in (packing, graph.types) if one)).encode(), np.uint8
    )
    return operand_mac(key, text, *(np.empty(0) if array is None else array for array in (*arrays, *beside)))


def warn_of_repeated(graph: Graph, key: str, epsilon: float, remedy: str) -> None:
    """Record a fit by the caller of this caller, and warn from the second on that every fit is spent.

    Fits that other parts of the library ask for do not count: evaluations and audits show what they found, and never a model.

    >>> from sfumato.graph._synthetic import campus
    >>> warn_of_repeated(campus(60), "plan", 1.0, "Use a ledger.")
    """
    if sys._getframe(2).f_globals.get("__name__", "").startswith(_LIBRARY):
        return
    place = (id(graph.indices), key)
    if place not in _SPENT:
        finalize(graph.indices, _SPENT.pop, place, None)
    spent = _SPENT.setdefault(place, [])
    if spent:
        warnings.warn(
            f"This is fit {len(spent) + 1} on one graph without a ledger. Every fit is a release of its own: together they cost "
            f"epsilon {sum(spent) + epsilon:.6g}. {remedy}",
            RepeatedFitWarning,
            stacklevel=3,
        )
    spent.append(epsilon)
