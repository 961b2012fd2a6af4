"""What the verifier knows of method set-calibration. Part of the verifier: it needs the standard library."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from ._central import OWN, no_arc_change
from ._kinds import Matrix
from ._rules import Rules

if TYPE_CHECKING:
    from ._kinds import Planned
    from ._rules import Certificate

_BINS = 32


class SetCalibration(Rules):
    """The rules of method set-calibration: one histogram of validation nodes, by a trained run's probability of their class.

    A record is in one bin; if it is replaced, it may leave one for another.
    """

    settings: ClassVar = {"bins": "count"}
    audience: ClassVar = {
        "node": {
            "anyone": ["noisy counts of validation nodes"],
            "the node itself": OWN,
            "never": ["counts before noise"],
        }
    }
    inductive = True
    reads_links = False

    def faults(self, certificate: Certificate) -> Iterator[str]:
        """Yield a problem if no trained run is named, or for another number of bins."""
        where = "certificate.json: "
        if not certificate["composition"]["builds_on"]:
            yield f"{where}composition.builds_on: expected the run whose probabilities were counted, got none"
        if certificate["settings"]["bins"] != _BINS:
            yield f"{where}settings.bins: expected {_BINS}, got {certificate['settings']['bins']}"

    def releases(self, certificate: Certificate) -> list[Planned]:
        """Return the histogram, the only release."""
        if certificate["unit"]["name"] == "none":
            return []
        return [Matrix("counts", [_BINS], 0, event="pure", arc_change=no_arc_change(certificate))]
