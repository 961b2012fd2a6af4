"""What a run says of the population that it is charged to: its name, and the totals of the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ._documents import one_line, plain, round_up
from ._windows import CAVEATS, RECORDS, window_faults

if TYPE_CHECKING:
    from ._rules import Certificate

STATED = ("total_epsilon", "total_delta")
COVERS = (
    "This run alone. The ledger of its population adds up all releases that are charged there: through all of them, one record "
    "costs at most the totals of the population."
)
HISTORY_COVERS = (
    "All releases of one history of edges, and every model that is trained on them. The ledger of their population adds it up "
    "once, with all else that is charged there: through all of it, one record costs at most the totals of the population."
)
METHOD = "daily-messages"
"""The method whose histories are charged once."""


def population_faults(certificate: Certificate) -> Iterator[str]:
    """Yield a problem for a run that claims nothing, or more than its population may spend."""
    found, where = certificate.get("population"), "certificate.json: population"
    if "history" in certificate and (found is None or certificate["method"] != METHOD):
        yield f"certificate.json: history: expected none but of method {METHOD} in the ledger of a population"
    if found is None:
        return
    if found["name"] != found["name"].strip():
        yield f"{where}.name: expected a name without spaces around, got {plain(found['name'])}"
    yield from window_faults(found, where)
    if "window" in found and certificate["unit"]["name"] not in CAVEATS:
        yield f"{where}.window: not expected under unit {plain(certificate['unit']['name'])}, whose records last through all"
    if "collection" in certificate:
        yield f"{where}: not expected of reports that devices sent, which have ledgers of their own"
    for name, claimed in certificate["claim"].items():
        total = found[f"total_{name}"]
        if claimed is None or claimed > total:
            yield f"{where}.total_{name}: {total} is less than the claim of this run, {claimed}"


def population_words(found: dict[str, Any], unit: str = "edge") -> str:
    """Return what a verdict of a run under a ``unit`` says of it.

    >>> population_words({"name": "members", "total_epsilon": 4.0, "total_delta": 1e-5})[:76]
    'population: members, through all releases in its ledger at most epsilon 4, d'
    """
    of = ""
    if "window" in found:
        period, column = found["windows"]["period"], one_line(found["windows"]["column"])
        of = f", for {RECORDS.get(unit, 'one record')} in one {period} (here {found['window']}, by column {column})"
    return (
        f"population: {one_line(found['name'])}, through all releases in its ledger at most epsilon "
        f"{round_up(found['total_epsilon'])}, delta {found['total_delta']:.9g}{of}; that the ledger holds this run and adds up "
        "is checked by `sfumato verify LEDGER`"
    )
