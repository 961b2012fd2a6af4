r"""A population: the data set of a ledger is a name that its curator declares, and people join, leave and change under it.

**Histories.** Let :math:`G_1, G_2, \dots` be the graphs (*snapshots*) that the releases of a ledger read, in their order. A
*record* is what the ledger's unit says, known by its public ids: the edge between two ids, the node of one id, the row of one id.
It may be absent from some snapshots, and change from one to the next. Two histories are *neighbors* if there is one record
such that :math:`G_t` and :math:`G'_t` are equal, or neighbors under the unit that differ in this record, for every t. What the
unit calls public is the same in both: so who is in a snapshot, and when a person joined or left, is public.

**Formal guarantee.** If every release reserves its claim in the ledger, all releases together are (total epsilon, total
delta)-DP for neighboring histories. It holds against an adversary who sees each release and then chooses how the next pair of
snapshots differs in that record, what changes beside it, and which method and budget come next.

*Proof.* The filters of :mod:`sfumato.privacy._filters` are proved by induction over releases. The step for release t uses
one fact: given all earlier outcomes, its laws on both sides are within its charge. Here the two sides are :math:`M_t(G_t)` and
:math:`M_t(G'_t)`, where earlier outcomes fix mechanism and snapshots. The graphs are neighbors, so the claim of the run is
that fact, or equal, so both laws are. No step uses that two releases read the same graph. :math:`\square`

**Who joins late has paid nothing before.** Let the record be absent from the first k snapshots on both sides: they are equal,
so the first k releases have one law. Given their outcomes, the induction runs over the others alone. So such a record pays
at most the sum of the charges after the k-th, and one that left pays none of those after its last snapshot. The totals hold for
who was in all of them. (A pair of histories in which the record is in an early snapshot of one side only differs there, and pays:
whether an edge existed in January is protected by the January release.)

**Deletion.** If k records are deleted from every snapshot, the histories are k steps apart. So the probability of any conclusion
from all releases changes by at most :func:`group_price`. A release that was made stays: it cannot be taken back, and this is
what it can tell.

A log of deletions (:meth:`~sfumato.record._dataset_ledger.DatasetLedger.delete`) holds how many, and when, and never who.

**What is compared.** A run's unit and cells must be those of the ledger; its ids are not compared. Nothing but the curator's word
says that a run reads this population. A person under two ids is two records and pays twice; an id that is given to another person
makes both one record. A run on a part of the population is charged to all of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from sfumato._validate import check_int, check_real, fail
from sfumato.privacy.units import class_named
from sfumato.record._shown import claim_words

COVERS = (
    "This run alone. The ledger of its population adds up all releases that are charged there: through all of them, one record "
    "costs at most the totals of the population."
)
HISTORY_COVERS = (
    "All releases of one history of edges, and every model that is trained on them. The ledger of their population adds it up "
    "once, with all else that is charged there: through all of it, one record costs at most the totals of the population."
)
_LONGEST = 80


def check_name(name: str) -> str:
    """Return the name of a population, one line of printable characters; anything else is refused.

    >>> check_name("customers of the north")
    'customers of the north'
    """
    if not isinstance(name, str) or not name.isprintable() or not 0 < len(name.strip()) == len(name) <= _LONGEST:
        remedy = "Say who is meant, such as 'customers of the bank'."
        raise fail(
            "population", name, f"to be a name of 1 to {_LONGEST} printable characters without spaces around", remedy
        )
    return name


def declared(name: str, dataset: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a ledger's header says of its data set if that is a population: its name, and the cells of the unit.

    >>> declared("members", {"name": "january", "ids_digest": "ab"})
    {'name': 'members', 'population': True}
    """
    cells = {"cells": dataset["cells"]} if "cells" in dataset else {}
    return {"name": check_name(name), "population": True, **cells}


def is_population(header: Mapping[str, Any]) -> bool:
    return header["dataset"].get("population") is True


def stated(header: Mapping[str, Any], window: str | None = None) -> dict[str, Any] | None:
    """Return what plans and certificates say of the population of a ledger; None if its data set is a list of ids.

    ``window`` is that to which a run is charged, in a ledger of windows (:mod:`sfumato.record._windows`).
    """
    if not is_population(header):
        return None
    totals = {name: header[name] for name in ("total_epsilon", "total_delta")}
    windows = {} if window is None else {"windows": dict(header["windows"]), "window": window}
    return {"name": header["dataset"]["name"], **totals, **windows}


def words(population: Mapping[str, Any], unit: str = "edge") -> str:
    """Say in a sentence what a certificate of a ``unit`` states of a population.

    >>> words({"name": "members", "total_epsilon": 4.0, "total_delta": 1e-5})[:78]
    'Population members: through all releases in its ledger, one record costs at mo'
    """
    cost = claim_words(population["total_epsilon"], population["total_delta"])
    if "window" in population:
        period, column = population["windows"]["period"], population["windows"]["column"]
        return (
            f"Population {population['name']}, {period} {population['window']} by column {column}: through all releases in its "
            f"ledger, whichever {period} they read, {class_named(unit).in_window} in one {period} costs at most {cost}."
        )
    return (
        f"Population {population['name']}: through all releases in its ledger, one record costs at most {cost}; who joined after "
        "a release has paid nothing for it."
    )


def group_price(epsilon: float, delta: float, records: int) -> tuple[float, float]:
    r"""Return what k records cost together: :math:`(k \epsilon, \delta (e^{k \epsilon} - 1) / (e^\epsilon - 1))`.

    **Formal guarantee.** An (epsilon, delta)-DP release of one record is this private for k. *Proof.* Along a chain of k
    neighbors, :math:`P_0(S) \le e^\epsilon P_1(S) + \delta \le \dots \le e^{k \epsilon} P_k(S) + \delta \sum_{i < k}
    e^{i \epsilon}`. :math:`\square` Numbers are rounded up; delta is at most 1, where nothing is promised.

    >>> group_price(1.0, 1e-6, 1), tuple(round(number, 8) for number in group_price(0.5, 1e-6, 3))
    ((1.0, 1e-06), (1.5, 5.37e-06))

    Source: Vadhan 2017, lemma 2.2.
    """
    epsilon, delta = check_real(low=0, epsilon=epsilon), check_real(low=0, high=1, delta=delta)
    records = check_int(low=1, high=10**9, records=records)
    if records == 1:
        return epsilon, delta
    together = Decimal(repr(epsilon)) * records
    whole = _up(float(together), together)
    if not delta:
        return whole, 0.0
    log = math.log(delta) + _log_expm1(whole) - _log_expm1(epsilon) if epsilon else math.log(delta * records)
    return whole, 1.0 if log >= 0 else min(1.0, math.exp(log) * (1 + 1e-12))


def _log_expm1(value: float) -> float:
    return value + math.log(-math.expm1(-value))


def _up(value: float, exact: Decimal) -> float:
    return value if Decimal(repr(value)) >= exact else math.nextafter(value, math.inf)


def deletion_words(records: int, epsilon: float, delta: float) -> str:
    """Say what releases that were made can still tell of records that are deleted now.

    >>> deletion_words(2, 1.0, 0.0)[:64]
    'What was released so far tells of 2 records together at most eps'
    """
    one = f" (of one, {claim_words(epsilon, delta)})" if records > 1 else ""
    noun = f"{records} records together" if records > 1 else "one record"
    together = claim_words(*group_price(epsilon, delta, records))
    return (
        f"What was released so far tells of {noun} at most {together}{one}, to whoever saw it, and it stays charged. Leave the "
        "records out of every later table; a model that is trained without them costs its claim anew."
    )
