"""The file of a ledger that many runs share: its lock, its lines, and ``FILE.head`` beside it, which names the last line.

**A charge does not read all lines again.** Whoever appends a line has found those before it sound, and writes into the head the
sums of all claims and the SHA-256 of the whole file and of these sums. A process that finds these very bytes knows that they are
sound and what they add up to (:func:`read_tail`): it hashes them, and parses the header and the lines of its own run. Where the
hash is another one, or the head is of an earlier version, every line is checked, as ``sfumato ledger show`` and ``sfumato
verify`` always do.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from sfumato._files import append_line, cut_file, whole_file
from sfumato.errors import LedgerError
from sfumato.record.ledger import GENESIS, Chain, canonical_json, linked

_WAIT_SECONDS = 60.0
_MOST_KNOWN = 8
_known: dict[str, tuple[bytes, Chain]] = {}
"""Of each file that this process read, the bytes that were sound, and what a beginning of them says."""


@dataclass(frozen=True)
class Tail:
    r"""What a ledger says without reading every line: its bytes, which were found sound, its last line, and the sums.

    >>> Tail(b'{"a":1}\n{"b":2}\n', 2, "0" * 64, {}).lines_with(b'"b"')
    [(2, {'b': 2})]
    """

    content: bytes
    entries: int
    last: str
    sums: Mapping[str, Fraction]

    def lines_with(self, word: bytes) -> list[tuple[int, dict[str, Any]]]:
        """Return number and entry of every line with a word, in order."""
        found, at = [], self.content.find(word)
        while at >= 0:
            start, end = self.content.rfind(b"\n", 0, at) + 1, self.content.index(b"\n", at)
            found.append((1 + self.content.count(b"\n", 0, start), json.loads(self.content[start:end])))
            at = self.content.find(word, end)
        return found


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the ledger at a ``path`` for this process alone."""
    try:
        with FileLock(path.with_name(path.name + ".lock"), timeout=_WAIT_SECONDS):
            yield
    except Timeout as error:
        raise LedgerError(
            f"The ledger {path} stayed locked by another process for {_WAIT_SECONDS:g} s. Nothing was released or charged. "
            "Let the other run start, and try again."
        ) from error


def begun(path: Path) -> bool:
    """Return whether a ``path`` is taken for a ledger. It is not if nothing is there, or a process died in its first line."""
    if _read_head(path) == (0, GENESIS) and not path.is_dir():
        chain = read_chain(path)
        return bool(chain.entries or chain.problem)
    return _head_path(path).exists() or path.exists()


def begin(path: Path) -> None:
    """Write the head of a ledger without lines, so that from now on a missing head is damage; ``path`` names the ledger."""
    _known.pop(str(path.absolute()), None)
    _write_head(path, 0, GENESIS)


def append(path: Path, body: dict[str, Any], sums: Mapping[str, Fraction], tail: Tail | None = None) -> None:
    """Append one entry, then note it as the last; the caller holds the lock and has found the file sound.

    Args:
        path: the file.
        body: what the entry says.
        sums: what all claims cost together, with this entry.
        tail: what was read of the file; None reads it here.
    """
    if tail is None:
        chain = read_chain(path)
        if chain.torn:
            cut_file(path, chain.size)
        if chain.entries and _read_head(path) == _head_of(
            chain.entries[:-1]
        ):  # a process died before it noted its line
            _write_head(path, *_head_of(chain.entries))
        tail = Tail(path.read_bytes() if path.exists() else b"", *_head_of(chain.entries), {})
    entry = linked(tail.entries, tail.last, body)
    line = canonical_json(entry)
    append_line(path, line, new=not path.exists())
    noted = {name: str(amount) for name, amount in sums.items()}
    checked = {"sha256": _digest((tail.content, line.encode() + b"\n"), noted), "sums": noted}
    _write_head(path, *_head_of([entry]), checked)


def read_tail(path: Path) -> Tail | None:
    """Return what a ledger says if its bytes are those that its head was written for, else None: read every line.

    None too if this process read other bytes before: :func:`read_chain` says what is wrong.
    """
    values = _head_values(path)
    checked = values.get("checked") if values else None
    if not values or not isinstance(checked, dict) or not path.is_file():
        return None
    name, content = str(path.absolute()), path.read_bytes()
    sound, before = _known.get(name, (b"", Chain()))
    try:
        if not content.startswith(sound) or _digest((content,), checked.get("sums")) != checked.get("sha256"):
            return None
        last = json.loads(content[content[:-1].rfind(b"\n") + 1 :])
        if (last["index"] + 1, last["hash"]) != _read_head(path):
            return None
        sums = {word: Fraction(amount) for word, amount in checked["sums"].items()}
        tail = Tail(content, *_head_of([last]), sums)
    except (ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError):
        return None
    _remember(name, content, before)
    return tail


def _digest(parts: Sequence[bytes], sums: Any) -> str:
    """Return the SHA-256 of a file and of what is noted of it, so that neither is changed without the other."""
    digest = hashlib.sha256()
    for part in (*parts, canonical_json(sums).encode()):
        digest.update(part)
    return digest.hexdigest()


def noted_sums(path: Path) -> Mapping[str, Fraction] | None:
    """Return the sums that the head of a ledger notes for the file as it is; None if it notes none."""
    tail = read_tail(path)
    return None if tail is None else tail.sums


def _remember(name: str, content: bytes, chain: Chain) -> None:
    _known.pop(name, None)
    _known[name] = content, chain
    if len(_known) > _MOST_KNOWN:
        _known.pop(next(iter(_known)), None)


def read_chain(path: Path) -> Chain:
    """Read the lines of a ledger; an absent ``path`` has none.

    Lines that this process has checked before are not checked again where the file still begins with these very bytes. Where
    it does not, and has a head, that is a problem: nothing but damage, or an older copy, changes a line that was written.
    """
    name = str(path.absolute())
    content = path.read_bytes() if path.exists() else b""
    sound, before = _known.get(name, (b"", Chain()))
    whole = content.startswith(sound)
    chain = Chain.parse(content, after=before if whole else Chain())
    if not whole and _head_path(path).exists():
        lines = zip(sound.splitlines(keepends=True), [*content.splitlines(keepends=True), b""], strict=False)
        number = next(n for n, (old, line) in enumerate(lines, 1) if old != line)
        changed = (
            f"line {number} was another one when this process read it before; restore the newest file with its head"
        )
        return replace(chain, problem=chain.problem or head_problem(path, chain) or changed)
    _remember(name, content[: chain.size], chain)
    return chain


def head_problem(path: Path, chain: Chain) -> str | None:
    """Return why the entries are not those that were noted. One more than noted is sound: its process died before the note."""
    name, head = _head_path(path).name, _read_head(path)
    if head is None:
        return f"{name}, which names its last line, is missing; restore it"
    entries, last = head
    if entries < 0 or (entries == 0) != (last == GENESIS):
        return f"{name} is damaged; restore it"
    if len(chain.entries) < entries:
        return f"line {len(chain.entries) + 1} is missing: {name} counts {entries} lines; restore the whole file"
    if entries and chain.entries[entries - 1]["hash"] != last:
        return f"line {entries} is not the one that {name} names; restore both files"
    if len(chain.entries) > entries + 1:
        found = f"{name} counts {entries} of {len(chain.entries)} lines"
        return f"{found}, and falls at most one behind: it is an older copy; restore both files"
    return None


def _head_of(entries: Sequence[dict[str, Any]]) -> tuple[int, str]:
    """What the head says after these entries, of which the last one alone may be given."""
    return (entries[-1]["index"] + 1, entries[-1]["hash"]) if entries else (0, GENESIS)


def _head_path(path: Path) -> Path:
    return path.with_name(path.name + ".head")


def _write_head(path: Path, entries: int, last: str, checked: Mapping[str, Any] | None = None) -> None:
    values = {"entries": entries, "hash": last, **({} if checked is None else {"checked": checked})}
    with whole_file(_head_path(path)) as head:
        head.write((canonical_json(values) + "\n").encode())


def _head_values(path: Path) -> dict[str, Any] | None:
    """What the head says; None if there is none, and {} if it is damaged."""
    head = _head_path(path)
    if not head.exists():
        return None
    try:
        values = {} if head.is_dir() else json.loads(head.read_bytes())
    except (ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


def _read_head(path: Path) -> tuple[int, str] | None:
    """The number of entries and the last hash that were noted; None if nothing was noted, and -1 if the file is damaged."""
    values = _head_values(path)
    if values is None:
        return None
    entries, last = values.get("entries"), values.get("hash")
    return (entries, last) if type(entries) is int and isinstance(last, str) else (-1, "")
