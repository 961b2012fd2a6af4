"""A journal with one file for each day: what came and went on it, on disk before anything of it is drawn, chained by SHA-256.

A day is written once. Whoever reads the journal compares the chain, so a file that was changed or lost is found before noise that
was drawn for it could be drawn for anything else. The files are private.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato._files import whole_file
from sfumato.errors import LedgerError

Pairs = NDArray[np.int64]


@dataclass(frozen=True)
class Changes:
    """The pairs that came and went on a day, by row number: int64 [2, m] each.

    >>> Changes.of({"came": [[0, 1], [2, 3]], "went": []}).came.tolist()
    [[0, 2], [1, 3]]
    """

    came: Pairs
    went: Pairs

    @classmethod
    def of(cls, values: dict[str, Any]) -> Changes:
        """Read what a file of the journal holds."""
        return cls(*(np.array(values[name], np.int64).reshape(-1, 2).T for name in ("came", "went")))


NOTHING = Changes(np.zeros((2, 0), np.int64), np.zeros((2, 0), np.int64))


@dataclass(frozen=True)
class Days:
    """The journal in a folder.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     days = Days(Path(folder))
    ...     days.write(1, NOTHING)
    ...     days.last, [day for day, _ in days]
    (1, [1])
    """

    folder: Path

    @property
    def last(self) -> int:
        """The last day; 0 before the first."""
        return max((int(path.stem) for path in self.folder.glob("*.json")), default=0)

    def write(self, day: int, changes: Changes) -> None:
        """Write the day after the last; it is on disk when this returns."""
        assert day == self.last + 1
        before = sha256(self._path(day - 1).read_bytes()).hexdigest() if day > 1 else ""
        pairs = {"came": changes.came.T.tolist(), "went": changes.went.T.tolist()}
        with whole_file(self._path(day), 0o600) as file:
            file.write(json.dumps({"day": day, "before": before, **pairs}).encode())

    def __iter__(self) -> Iterator[tuple[int, Changes]]:
        """Yield the days in order.

        Raises:
            LedgerError: one is missing, or was changed.
        """
        before = ""
        for day in range(1, self.last + 1):
            try:
                raw = self._path(day).read_bytes()
                values = json.loads(raw)
                found = Changes.of(values) if (values["day"], values["before"]) == (day, before) else None
            except (OSError, ValueError, KeyError, TypeError):
                found = None
            if found is None:
                raise LedgerError(
                    f"Day {day} of the history in {str(self.folder)!r} is missing or was changed. Nothing is released. Put its "
                    "file back as it was: noise that was drawn for it must not be drawn for other edges."
                )
            before = sha256(raw).hexdigest()
            yield day, found

    def _path(self, day: int) -> Path:
        return self.folder / f"{day:06}.json"
