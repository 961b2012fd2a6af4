"""The ledger: what was released, hash-chained, written and synced before anything reads the release.

A ledger opens with its plan and accepts the plan's releases, each once, in order. Any other charge raises, so a run
cannot spend what was not planned. File form: one canonical JSON object a line, each carrying the hash of the one
before it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sfumato.errors import BudgetExceededError, LedgerError
from sfumato.privacy.events import Event, event_from_dict, event_to_dict

GENESIS = "0" * 64


@dataclass(frozen=True)
class Release:
    """One planned output of a private computation.

    Args:
        name: such as ``aggregate/1``; unique in its plan.
        event: what accounting sees.
        shape: of the released array.
        affected_coordinates: how many coordinates one record can touch, for the sampler's share of delta.
        visible_to: who may see it.

    >>> from sfumato.privacy.events import GaussianEvent
    >>> Release("aggregate/1", GaussianEvent(2.0), (4, 16), 32).draws
    32
    """

    name: str
    event: Event
    shape: tuple[int, ...]
    affected_coordinates: int
    visible_to: str = "anyone"

    @property
    def draws(self) -> int:
        """Noise draws that one record can touch over all steps of the event."""
        repeats = self.event.count if self.event.type == "gaussian" else self.event.steps  # type: ignore[union-attr]
        return self.affected_coordinates * repeats

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values, the form that ledger and certificate hold."""
        return {
            "name": self.name,
            "event": event_to_dict(self.event),
            "shape": list(self.shape),
            "affected_coordinates": self.affected_coordinates,
            "visible_to": self.visible_to,
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Release:
        """Read back what :meth:`to_dict` wrote."""
        event, shape = event_from_dict(values["event"]), tuple(values["shape"])
        return cls(values["name"], event, shape, values["affected_coordinates"], values["visible_to"])


def canonical_json(value: Any) -> str:
    """The one JSON form that is hashed and written.

    >>> canonical_json({"b": 1, "a": [1.5]})
    '{"a":[1.5],"b":1}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


@dataclass
class Ledger:
    """An append-only record of releases, in memory or in a file.

    Args:
        plan: the plan entry: method, unit, releases, claim, delta_sampler.
        releases: what may be charged, in order.
        path: a file that must not exist yet; None keeps the ledger in memory.

    Raises:
        BudgetExceededError: a charge is not the next planned release.
        LedgerError: the file exists already.
    """

    plan: dict[str, Any]
    releases: Sequence[Release]
    path: Path | None = None
    entries: list[dict[str, Any]] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        names = [release.name for release in self.releases]
        if len(set(names)) < len(names):
            raise LedgerError(f"Expected release names to be unique in a plan, got {names}.")
        if self.path is not None and self.path.exists():
            raise LedgerError(
                f"Expected no ledger at {self.path} yet. A run never extends another's: choose a new folder."
            )
        self._append({"kind": "plan", "plan": {**self.plan, "releases": [r.to_dict() for r in self.releases]}})

    @property
    def head(self) -> str:
        """Hash of the last entry."""
        return str(self.entries[-1]["hash"])

    @property
    def complete(self) -> bool:
        """Whether every planned release was charged."""
        return len(self.entries) == 1 + len(self.releases)

    def charge(self, name: str) -> Release:
        """Record the next planned release, on disk, before it is computed; anything else is refused."""
        done = len(self.entries) - 1
        expected = self.releases[done] if done < len(self.releases) else None
        if expected is None or expected.name != name:
            raise BudgetExceededError(
                f"Release {name!r} is not what the plan allows next ({expected.name if expected else 'nothing is left'}). "
                "Spending more needs a new plan."
            )
        self._append({"kind": "release", "release": expected.to_dict()})
        return expected

    def _append(self, body: dict[str, Any]) -> None:
        entry = {"index": len(self.entries), "previous": self.entries[-1]["hash"] if self.entries else GENESIS, **body}
        entry["hash"] = hashlib.sha256(canonical_json(entry).encode()).hexdigest()
        if self.path is not None:
            with self.path.open("a" if self.entries else "x", encoding="utf-8") as file:
                file.write(canonical_json(entry) + "\n")
                file.flush()
                os.fsync(file.fileno())
        self.entries.append(entry)

    def text(self) -> str:
        """The file form."""
        return "".join(canonical_json(entry) + "\n" for entry in self.entries)
