"""The deployment record of a certificate: its flavor is no stronger than the claim. All else is the word of its author."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any

from ._documents import plain


def deployment_faults(certificate: dict[str, Any]) -> Iterator[str]:
    """Yield a problem for a record of a run that claims nothing, for texts without words, and for too strong a flavor."""
    if "deployment" not in certificate:
        return
    delta = certificate["claim"]["delta"]
    if delta is None:
        yield "certificate.json: deployment: not expected, since nothing is claimed"
        return
    try:
        date.fromisoformat(certificate["deployment"]["publication_date"])
    except ValueError:
        yield "certificate.json: deployment.publication_date: expected a day that there is"
    for name, text in certificate["deployment"].items():
        if not text.strip():
            yield f"certificate.json: deployment.{name}: expected words, got spaces alone"
    if delta > 0 and certificate["deployment"]["flavor"] == "Pure DP":
        yield "certificate.json: deployment.flavor: expected Approximate DP, since delta is above 0, got Pure DP"


def deployment_words(record: dict[str, Any]) -> str:
    """Return a line of the verdict about a deployment record, whose form was checked.

    >>> deployment_words({"product": "Friends", "curator": "A University", "publication_date": "2026-12-01"})
    'deployment record: Friends, by A University, 2026-12-01; a person wrote it, and nobody checked what it says'
    """
    return (
        f"deployment record: {plain(record['product'])}, by {plain(record['curator'])}, {record['publication_date']}; "
        "a person wrote it, and nobody checked what it says"
    )
