"""The file of a ledger that many runs share: its lock, its lines, and ``FILE.head`` beside it, which names the last line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from sfumato._files import append_line, cut_file, whole_file
from sfumato.errors import LedgerError
from sfumato.record.ledger import GENESIS, Chain, canonical_json, chained

_WAIT_SECONDS = 60.0
_MOST_KNOWN = 8
_known: dict[str, tuple[bytes, Chain]] = {}
"""Of each file that this process read, the bytes that were sound, and what they say."""


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


def append(path: Path, body: dict[str, Any]) -> None:
    """Append one entry, then note it as the last; the caller holds the lock and has found the file sound."""
    chain = read_chain(path)
    if chain.torn:
        cut_file(path, chain.size)
    if chain.entries and _read_head(path) == _head_of(chain.entries[:-1]):  # a process died before it noted its line
        _write_head(path, *_head_of(chain.entries))
    entry = chained(chain.entries, body)
    append_line(path, canonical_json(entry), new=not path.exists())
    _write_head(path, *_head_of([entry]))


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
    _known.pop(name, None)
    _known[name] = content[: chain.size], chain
    if len(_known) > _MOST_KNOWN:
        _known.pop(next(iter(_known)), None)
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


def _write_head(path: Path, entries: int, last: str) -> None:
    with whole_file(_head_path(path)) as head:
        head.write((canonical_json({"entries": entries, "hash": last}) + "\n").encode())


def _read_head(path: Path) -> tuple[int, str] | None:
    """The number of entries and the last hash that were noted; None if nothing was noted, and -1 if the file is damaged."""
    head = _head_path(path)
    if not head.exists():
        return None
    try:
        values = {} if head.is_dir() else json.loads(head.read_bytes())
        entries, last = values["entries"], values["hash"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return -1, ""
    return (entries, last) if type(entries) is int and isinstance(last, str) else (-1, "")
