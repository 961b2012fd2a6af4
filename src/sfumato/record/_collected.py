"""Reports that devices sent to a collection, as a run keeps them and a certificate describes them.

A run learns from the file of a closed collection in place of asking users, so it costs them nothing more. The file stands in
``release/`` beside what was learned, and the certificate names it by its SHA-256.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

FILE = "collection.bin"
"""The file of the closed collection, in the release folder."""
COVERS = (
    "This collection: any number of runs on it cost nothing more. Other collections, and other releases about the same users, "
    "add up."
)
RANDOMNESS = (
    "Coins of every report come from AES-256 under a 256-bit key drawn from the operating system of the user's own "
    "device."
)
SENT = (
    "Every device randomizes its own values, follows the method and keeps its coins to itself. The reports were collected from "
    "devices, and this run read nothing else of their users' values."
)
EVALUATION = (
    "Evaluation: accuracies and curves are computed from reports and public facts alone, which costs nothing more."
)


@dataclass(frozen=True, eq=False)
class Collected:
    """Collected reports are what a fit learns from in place of asking users.

    ``facts`` are the ``name`` of the collection, its ``sha256``, that of its ``schema``, the number of ``reports``, and the
    times ``opens`` and ``closes`` between which they were taken; ``content`` is the closed file.
    """

    reports: Mapping[str, NDArray[Any]]
    facts: Mapping[str, Any]
    content: bytes


def sentences(simulated: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a certificate says of randomness, assumptions and side channels.

    ``simulated`` is what it says where devices were simulated; all but the first assumption and the last side channel stays.
    """
    return {
        "randomness": RANDOMNESS,
        "assumptions": [SENT, *simulated["assumptions"][1:]],
        "side_channels": [*simulated["side_channels"][:-1], EVALUATION],
    }


def words(facts: Mapping[str, Any]) -> str:
    """Return a line on which collection this was."""
    number = f"{facts['reports']} report{'s' * (facts['reports'] != 1)}"
    return f"Collected: {number} to {facts['name']}, from {facts['opens']} to {facts['closes']}, SHA-256 {facts['sha256'][:16]}."
