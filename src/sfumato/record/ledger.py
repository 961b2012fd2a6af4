"""The ledger of a run: a hash chain of its releases, each written and synced before anything reads the release.

A ledger opens with its plan and accepts the plan's releases, each once, in order. Any other charge raises, so a run
cannot spend what was not planned. The file has one canonical JSON object on each line, which carries the hash of the
line before it. A last line without its end was never synced: its writer was still waiting, so nothing it names was computed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sfumato._files import append_line, cut_file, make_folders, remove_empty, sync_folder
from sfumato.errors import BudgetExceededError, LedgerError
from sfumato.privacy.events import Event, event_from_dict

GENESIS = "0" * 64
ANYONE, OWN = "anyone", "the node itself"
"""Who may see a release: everybody; or each node its own row, which stays out of ``release/``."""
_RESTORE = "Restore it, or start another run in a new folder, which costs anew."


@dataclass(frozen=True)
class Release:
    """A planned output of a private computation.

    Args:
        name: such as ``aggregate/1``; unique in its plan.
        event: the privacy event that accounting reads.
        shape: shape of the released array; None for a number that chance decides, such as how many arcs are released.
        affected_coordinates: how many coordinates a record can touch, for the sampler's share of delta.
        visible_to: who may see it, :data:`ANYONE` or :data:`OWN`.
        arc_change: under owned arcs, how far one arc that another node owns and that points at the record moves the release,
            over its sensitivity; of DP-SGD in which a record reaches several terms, how many more an arc reaches, over their
            number. None where no bound is proved, and under every other unit.

    >>> from sfumato.privacy.events import GaussianEvent
    >>> Release("aggregate/1", GaussianEvent(2.0), (4, 16), 32).draws
    32
    """

    name: str
    event: Event
    shape: tuple[int | None, ...]
    affected_coordinates: int
    visible_to: str = ANYONE
    arc_change: float | None = None

    @property
    def draws(self) -> int:
        """Noise draws that a record can touch over all steps of the event."""
        return self.affected_coordinates * self.event.repeats()

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready values, the form that ledger and certificate hold."""
        return {
            "name": self.name,
            "event": self.event.to_dict(),
            "shape": list(self.shape),
            "affected_coordinates": self.affected_coordinates,
            "visible_to": self.visible_to,
            **({} if self.arc_change is None else {"arc_change": self.arc_change}),
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Release:
        """Read back what :meth:`to_dict` wrote."""
        event, shape = event_from_dict(values["event"]), tuple(values["shape"])
        touched, arc_change = values["affected_coordinates"], values.get("arc_change")
        return cls(values["name"], event, shape, touched, values["visible_to"], arc_change)


def canonical_json(value: Any) -> str:
    """Return a value in the single JSON form that is hashed and written: sorted keys, no spaces.

    >>> canonical_json({"b": 1, "a": [1.5]})
    '{"a":[1.5],"b":1}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def chained(entries: Sequence[dict[str, Any]], body: dict[str, Any]) -> dict[str, Any]:
    """Return the entry that ``body`` becomes after ``entries``: with its index, the previous hash and its own hash.

    >>> entry = chained([], {"kind": "plan"})
    >>> entry["index"], entry["previous"] == GENESIS, len(entry["hash"])
    (0, True, 64)
    """
    return linked(len(entries), entries[-1]["hash"] if entries else GENESIS, body)


def linked(index: int, previous: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return the entry that ``body`` becomes at an ``index``, after the entry whose hash is ``previous``.

    >>> linked(1, GENESIS, {"kind": "plan"})["index"]
    1
    """
    entry = {"index": index, "previous": previous, **body}
    return {**entry, "hash": hashlib.sha256(canonical_json(entry).encode()).hexdigest()}


@dataclass(frozen=True)
class Chain:
    """What a ledger file holds: its sound entries, and what follows them.

    Args:
        entries: the entries up to the first line that breaks the chain.
        size: the length of these entries in bytes.
        torn: whether the last line has no end.
        problem: the first line that breaks the chain; None if none does.

    >>> Chain.parse(b"").entries
    ()
    """

    entries: tuple[dict[str, Any], ...] = ()
    size: int = 0
    torn: bool = False
    problem: str | None = None

    @classmethod
    def parse(cls, content: bytes, after: Chain | None = None) -> Chain:
        """Read a file's bytes up to the first line that is not the canonical next entry of the chain.

        Args:
            content: all bytes of the file.
            after: what the first ``after.size`` bytes were found to hold, which are not checked again; None checks all.
        """
        entries, size = ([], 0) if after is None else (list(after.entries), after.size)
        *lines, rest = content[size:].split(b"\n")
        for number, line in enumerate(lines, start=len(entries) + 1):
            problem = _line_problem(line, entries)
            if problem:
                return cls(tuple(entries), size, problem=f"line {number} {problem}")
            entries.append(json.loads(line))
            size += len(line) + 1
        return cls(tuple(entries), size, torn=bool(rest))


def _line_problem(line: bytes, entries: Sequence[dict[str, Any]]) -> str | None:
    try:
        entry = json.loads(line)
        expected = chained(entries, {k: v for k, v in entry.items() if k not in ("index", "previous", "hash")})
        if entry != expected:
            wrong = next(key for key in ("index", "previous", "hash") if entry.get(key) != expected[key])
            return f"does not continue the chain: its {wrong} is {entry.get(wrong)!r}, expected {expected[wrong]!r}"
        return None if line == canonical_json(entry).encode() else "is not in canonical form"
    except (ValueError, AttributeError, RecursionError):
        return "is not a JSON object"


@contextmanager
def new_ledger_file(path: Path) -> Iterator[None]:
    """Make an empty ledger file for one run alone. If several runs ask at once, only one of them gets it.

    If what follows fails before a line is written, the file is removed again.

    Raises:
        LedgerError: the file exists, so it is another run's.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with new_ledger_file(Path(folder, "ledger.jsonl")):
    ...         print([path.name for path in Path(folder).iterdir()])
    ['ledger.jsonl']
    """
    made = make_folders(path.parent)
    try:
        path.touch(0o644, exist_ok=False)
    except FileExistsError as error:
        raise _taken(path) from error
    try:
        yield
    except BaseException:
        with suppress(OSError):
            if not path.stat().st_size:
                path.unlink()
        remove_empty(made)
        raise


def _taken(path: Path) -> LedgerError:
    return LedgerError(f"Expected no ledger at {path} yet. A run never extends another's: choose a new folder.")


@dataclass
class Ledger:
    """An append-only record of releases, in memory or in a file.

    Args:
        plan: the plan entry: method, unit, releases, claim, delta_sampler.
        releases: what may be charged, in order.
        path: a file that must not exist yet; None keeps the ledger in memory.
        resume: take up an existing file of this same plan. Its entries are accepted again, in order, without being
            written again. This is sound only for a run that draws the same bits again, or draws none.
        computed: names of releases that were computed before; a file that lacks one of them is refused.
        before_charge: called before each charge is written. If it raises, nothing is charged.

    ``torn`` says that the file ended inside a line, which was dropped: its write never returned, so its release was not
    computed yet.

    Raises:
        BudgetExceededError: a charge is not the next planned release.
        LedgerError: the file was changed while the run went on, two releases have the same name, the file exists already, or
            (``resume``) it is not the beginning of this plan's ledger, or lacks what was computed. The file is left as it is.

    >>> from sfumato.privacy.events import GaussianEvent
    >>> ledger = Ledger({"method": "gap"}, [Release("aggregate/1", GaussianEvent(2.0), (4, 16), 32)])
    >>> ledger.complete, ledger.charge("aggregate/1").draws, ledger.complete
    (False, 32, True)
    """

    plan: dict[str, Any]
    releases: Sequence[Release]
    path: Path | None = None
    resume: bool = False
    computed: Collection[str] = ()
    before_charge: Callable[[], None] | None = field(default=None, repr=False)
    entries: list[dict[str, Any]] = field(default_factory=list, init=False)
    torn: bool = field(default=False, init=False)
    _on_disk: int = field(default=0, init=False)
    _written: bytes = field(default=b"", init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names = [release.name for release in self.releases]
        if len(set(names)) < len(names):
            raise LedgerError(f"Expected release names to be unique in a plan, got {names}.")
        if self.path is not None and self.path.exists():
            if not self.resume:
                raise _taken(self.path)
            self._take_up(self.path)
        elif self.computed:
            raise LedgerError(f"No ledger {str(self.path)!r} for what was computed. {_RESTORE}")
        self._append({"kind": "plan", "plan": {**self.plan, "releases": [r.to_dict() for r in self.releases]}})

    @property
    def head(self) -> str:
        """The hash of the last entry."""
        return str(self.entries[-1]["hash"])

    @property
    def complete(self) -> bool:
        """Whether every planned release was charged."""
        return len(self.entries) == 1 + len(self.releases)

    @property
    def recorded(self) -> tuple[str, ...]:
        """Names of the releases that the file held when it was taken up."""
        return tuple(release.name for release in self.releases[: max(0, self._on_disk - 1)])

    def charge(self, name: str) -> Release:
        """Record the next planned release, on disk, before it is computed. Anything else is refused.

        Raises:
            BudgetExceededError: ``name`` is not the next planned release.
            LedgerError: the file is not what was written to it.
        """
        done = len(self.entries) - 1
        expected = self.releases[done] if done < len(self.releases) else None
        if expected is None or expected.name != name:
            raise BudgetExceededError(
                f"Release {name!r} is not what the plan allows next ({expected.name if expected else 'nothing is left'}). "
                "Spending more needs a new plan."
            )
        if self.before_charge is not None:
            self.before_charge()
        self._append({"kind": "release", "release": expected.to_dict()})
        return expected

    def charge_all(self) -> Ledger:
        """Charge every planned release in order, and return this ledger."""
        for release in self.releases:
            self.charge(release.name)
        return self

    def _append(self, body: dict[str, Any]) -> None:
        entry = chained(self.entries, body)
        if self.path is not None and len(self.entries) >= self._on_disk:
            self._check_file(self.path)
            append_line(self.path, canonical_json(entry), new=not self.entries and not self.path.exists())
        self.entries.append(entry)
        self._written += canonical_json(entry).encode() + b"\n"

    def _check_file(self, path: Path) -> None:
        """Refuse a file that is not what was written to it: a line after it would continue nothing."""
        found = path.read_bytes() if self.entries or path.exists() else b""
        if found != self._written:
            raise LedgerError(
                f"The ledger {path} is not what this run wrote: it was changed or cut while the run went on. Nothing more was "
                f"released. {_RESTORE}"
            )

    def _take_up(self, path: Path) -> None:
        """Count the whole lines of a file, which must begin the ledger that this plan would write."""
        whole = Ledger(self.plan, self.releases).charge_all()
        content, planned = path.read_bytes(), whole.text().encode()
        if not planned.startswith(content):
            lines = zip(content.splitlines(), [*planned.splitlines(), b""], strict=False)
            number = next((n for n, (found, line) in enumerate(lines, 1) if found != line), len(whole.entries) + 1)
            raise LedgerError(
                f"Line {number} of {path} is not what this plan writes: another plan, or an altered file. "
                "Nothing was released. Start a new run; this one stays charged."
            )
        self._on_disk = content.count(b"\n")
        lost = sorted(set(self.computed) - set(self.recorded))
        if lost:
            raise LedgerError(
                f"The ledger {path} lacks charges for what was computed, {lost[0]!r}: it was cut. {_RESTORE}"
            )
        size = content.rfind(b"\n") + 1
        self.torn = size < len(content)
        if self.torn:
            cut_file(path, size)
        sync_folder(path.parent)

    def text(self) -> str:
        """Return the ledger as its file holds it."""
        return "".join(canonical_json(entry) + "\n" for entry in self.entries)
