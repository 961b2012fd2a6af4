"""A second fit on one graph is a second release: where no ledger of the data set adds both up, a warning does."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING
from weakref import finalize

from sfumato.errors import RepeatedFitWarning

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph

_SPENT: dict[tuple[int, str], list[float]] = {}  # the epsilons of the fits on the arcs of one graph, by what was fitted
_LIBRARY = "sfumato."  # what it fits itself, it fits to evaluate or to audit


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
