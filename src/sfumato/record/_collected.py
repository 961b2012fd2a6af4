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
OPENED_RANDOMNESS = (
    "Noise of each server comes from AES-256 under a key of its own, drawn from its operating system, and coins of shares from "
    "the operating system of the user's own device."
)
OPENED = (
    "Both servers follow the method or only one does, and they do not collude: together they hold every label. What they opened "
    "was collected from devices, and this run read nothing else of their users' labels."
)
OPENED_CHECKED = (
    "Checked: both servers signed the agreement and what they opened, every user is in one cell, and the counts of a cell add up "
    "to its reports. Not checked, and the word of both: that each server drew its noise, opened once, and added the shares that "
    "it got and no others."
)
OPENED_EVALUATION = (
    "Evaluation: accuracies are computed from opened counts and public facts alone, which costs nothing more."
)
"""Sentences of a run on what two servers opened."""


@dataclass(frozen=True, eq=False)
class Collected:
    """Collected reports are what a fit learns from in place of asking users.

    ``facts`` are the ``name`` of the collection, its ``sha256``, that of its ``schema``, the number of ``reports``, and the
    times ``opens`` and ``closes`` between which they were taken; ``content`` is the closed file. Of what two servers opened they
    name the ``agreement`` in place of the schema, both ``servers`` by their keys, ``openings`` by their SHA-256, how many users
    were ``asked``, and how many reports were ``left_out``.
    """

    reports: Mapping[str, NDArray[Any]]
    facts: Mapping[str, Any]
    content: bytes


def is_opened(facts: Mapping[str, Any]) -> bool:
    """Tell whether these are facts of what two servers opened, and not of reports to one."""
    return "openings" in facts


def sentences(simulated: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a certificate says of randomness, assumptions and side channels.

    ``simulated`` is what it says where devices were simulated; all but the first assumption and the last side channel stays.
    """
    if is_opened(facts):
        return {
            "randomness": OPENED_RANDOMNESS,
            "assumptions": [OPENED, OPENED_CHECKED, *simulated["assumptions"][1:]],
            "side_channels": [*simulated["side_channels"][:-1], OPENED_EVALUATION],
        }
    return {
        "randomness": RANDOMNESS,
        "assumptions": [SENT, *simulated["assumptions"][1:]],
        "side_channels": [*simulated["side_channels"][:-1], EVALUATION],
    }


def words(facts: Mapping[str, Any]) -> str:
    """Return a line on which collection this was."""
    number = f"{facts['reports']} report{'s' * (facts['reports'] != 1)}"
    if is_opened(facts):
        keys = " and ".join(server["sign"][:16] for server in facts["servers"])
        return (
            f"Opened by two servers that sign with keys {keys}: {number} of {facts['asked']} users to {facts['name']}, from "
            f"{facts['opens']} to {facts['closes']}, agreement {facts['agreement'][:16]}, SHA-256 {facts['sha256'][:16]}."
        )
    return f"Collected: {number} to {facts['name']}, from {facts['opens']} to {facts['closes']}, SHA-256 {facts['sha256'][:16]}."
