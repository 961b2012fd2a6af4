"""A journal with one file for each day: what came and went on it, on disk before anything of it is drawn, chained by SHA-256.

A day is written once. Its file has a seal, a MAC under the secret key, and names the file before; the first names what the
history was *begun* with. Whoever reads the journal compares both, so a file that was changed, the last one too, or lost in the
middle is found before noise that was drawn for it could be drawn for anything else. Lost last days are found by what was
released. The files are private.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterable, Iterator
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
    """The journal in a folder, of a history with a secret ``key`` that was ``begun`` with settings and tables of this digest.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     days = Days(Path(folder), bytes(32), "ab")
    ...     days.write(1, NOTHING)
    ...     days.last, [day for day, _ in days]
    (1, [1])
    """

    folder: Path
    key: bytes
    begun: str

    @property
    def last(self) -> int:
        """The last day; 0 before the first."""
        return max((int(path.stem) for path in self.folder.glob("*.json") if path.stem.isdecimal()), default=0)

    def write(self, day: int, changes: Changes) -> None:
        """Write the day after the last; it is on disk when this returns."""
        assert day == self.last + 1
        (content,) = self.following([changes])
        with whole_file(self._path(day), 0o600) as file:
            file.write(content)

    def following(self, changes: Iterable[Changes]) -> Iterator[bytes]:
        """Yield the content of the files that the days after the last would have; nothing is written."""
        last = self.last
        before = sha256(self._path(last).read_bytes()).hexdigest() if last else self.begun
        for day, one in enumerate(changes, last + 1):
            values = {"day": day, "before": before, "came": one.came.T.tolist(), "went": one.went.T.tolist()}
            content = json.dumps({**values, "seal": self._seal(values)}).encode()
            yield content
            before = sha256(content).hexdigest()

    def mark(self, content: bytes) -> str:
        """Return what names the content of a day's file, and with it all days before: pseudo-random to all who lack the key."""
        return hmac.new(self.key, b"mark " + sha256(content).digest(), sha256).hexdigest()

    def marked(self, day: int) -> str:
        """Return the mark of a day that was written."""
        return self.mark(self._path(day).read_bytes())

    def marks(self, through: int) -> Pairs:
        """Return the marks of the first days as they are published: 256 bits each, big-endian, int64 [through, 4]."""
        raw = bytes.fromhex("".join(map(self.marked, range(1, through + 1))))
        return np.frombuffer(raw, ">i8").astype(np.int64).reshape(through, 4)

    def __iter__(self) -> Iterator[tuple[int, Changes]]:
        """Yield the days in order.

        Raises:
            LedgerError: one is missing, or was changed, or the history was begun with other settings or tables.
        """
        before = self.begun
        for day in range(1, self.last + 1):
            try:
                raw = self._path(day).read_bytes()
                values = json.loads(raw)
                sealed = hmac.compare_digest(values.pop("seal"), self._seal(values))
                if sealed and day == 1 and values["before"] != before:
                    raise LedgerError(
                        "plan.json or a table of the nodes is not the one with which the history was begun. Nothing is released. "
                        "Put it back as it was: the noise of earlier days is for those settings and nodes. Another plan needs a "
                        "new history, which costs again."
                    )
                found = Changes.of(values) if sealed and (values["day"], values["before"]) == (day, before) else None
            except (OSError, ValueError, KeyError, TypeError):
                found = None
            if found is None:
                raise LedgerError(
                    f"Day {day} of the history in {str(self.folder)!r} is missing or was changed. Nothing is released. Put its "
                    "file back as it was: noise that was drawn for it must not be drawn for other edges."
                )
            before = sha256(raw).hexdigest()
            yield day, found

    def _seal(self, values: dict[str, Any]) -> str:
        return hmac.new(self.key, json.dumps(values).encode(), sha256).hexdigest()

    def _path(self, day: int) -> Path:
        return self.folder / f"{day:06}.json"
