"""The private state of a resumable fit: its key, and MACs that show whether a repetition computes the same.

A killed fit can be repeated with the same key: equal operands give equal noise, so the same bits come out and nothing
more is learned. The state makes that sound: the graph, the plan and every release's operand are bound to it by MACs as
they are first seen, and a repetition that computes another operand stops before anything is released.

An old copy of the state lacks what was bound later. A data set's ledger keeps a mark of each
(:mod:`sfumato.record._dataset_ledger`), so that such a copy draws the same bits or is refused. Without that ledger
an old copy cannot be recognized: never put an old copy back.

Everyone who can read the state can remove the noise. It is in its own folder that only its owner can read, never under
`release/`, and is removed when the run has finished.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as package_version
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from sfumato._files import left_behind, sync_folder, whole_file
from sfumato._threads import numba_threads
from sfumato._version import __version__
from sfumato.errors import InputError, LedgerError
from sfumato.noise.keys import Key, derive_key, new_key
from sfumato.record.ledger import canonical_json

_FILE, _LOCK = "state.json", "lock"
_COMPUTES = ("numpy", "scipy", "numba", "torch")


def versions() -> dict[str, str]:
    """Return the versions that decide the bits of a computation: this package, Python, the processor, numeric packages.

    >>> sorted(versions())[:3]
    ['machine', 'numba', 'numpy']
    """
    found = {"sfumato": __version__, "python": platform.python_version(), "machine": platform.machine()}
    for package in _COMPUTES:
        try:
            found[package] = package_version(package)
        except PackageNotFoundError:
            found[package] = "absent"
    return found


def threads() -> dict[str, int | None]:
    """Return how many threads Torch and Numba compute with; None for a package that is not loaded. Neither is loaded here."""
    of_numba = numba_threads() if "numba" in sys.modules else None
    torch = sys.modules.get("torch")
    return {"numba": of_numba, "torch": None if torch is None else int(torch.get_num_threads())}


@dataclass
class FitState:
    """The private state of one resumable fit, locked while this process holds it.

    **Formal guarantee.** A repetition with the same state draws the same noise for the same operand. For another operand it
    raises :class:`~sfumato.errors.LedgerError` before that release is computed (a DP-SGD run: before it is stored). So
    a repeated fit reveals what an uninterrupted fit would, and is charged once.

    ``options`` is for the caller (the command line keeps its arguments there); ``run`` names the run in a data set's
    ledger.
    """

    directory: Path
    values: dict[str, Any]
    _lock: FileLock = field(repr=False)

    @classmethod
    def create(cls, directory: Path, options: Mapping[str, Any] | None = None) -> FitState:
        """Start a state with a fresh key in a new folder (mode 0700, its files 0600).

        A folder counts as new if a process was killed in it before it had written a state.
        """
        directory.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            directory.mkdir(mode=0o700)
        _check_new(directory)
        lock = _locked(directory)
        try:
            _check_new(directory)  # now that no other process can write there
            return cls._created(directory, options, lock)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def _created(cls, directory: Path, options: Mapping[str, Any] | None, lock: FileLock) -> FitState:
        directory.chmod(0o700)
        sync_folder(directory.parent)
        values = {
            "format": 1,
            "key": new_key().hex(),
            "run": os.urandom(16).hex(),
            "versions": versions(),
            "options": dict(options or {}),
            "bound": {},
        }
        state = cls(directory, values, lock)
        state._write()
        return state

    @classmethod
    def open(cls, directory: Path) -> FitState:
        path = directory / _FILE
        if not path.exists():
            raise InputError(
                f"Expected the private state of a resumable run at {str(directory)!r}, got none. Only a run that was "
                "started as resumable and has not finished can be resumed; any other stays charged. Start a new run."
            )
        lock = _locked(directory)
        try:
            values = json.loads(path.read_bytes())
            bytes.fromhex(values["key"]), values["bound"], values["options"], values["run"]
            made_by = dict(values["versions"])
        except (ValueError, KeyError, TypeError) as error:
            raise LedgerError(f"The private state {str(path)!r} is damaged ({error}). Start a new run.") from error
        for name, found in versions().items():
            if made_by.get(name) != found:
                raise LedgerError(
                    f"Expected {name} {made_by.get(name)}, with which this run was started, got {found}: the same bits "
                    f"need the same versions. Install {name} {made_by.get(name)}, or start a new run."
                )
        return cls(directory, values, lock)

    @property
    def key(self) -> Key:
        """The fit key, which is secret."""
        return bytes.fromhex(self.values["key"])

    @property
    def run(self) -> str:
        """A random name of this run; not secret."""
        return str(self.values["run"])

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.values["options"])

    def bound(self, name: str) -> bool:
        return name in self.values["bound"]

    def bind(self, name: str, content: bytes) -> None:
        """Bind ``content`` to a name: store a MAC of it on disk. From then on nothing else is accepted under this name."""
        mac = self._mac(name, content)
        bound = self.values["bound"]
        if name not in bound:
            bound[name] = mac
            self._write()
        elif bound[name] != mac:
            raise LedgerError(
                f"The repeated run differs from the stopped one in {name!r}: data or the order of its rows, settings, code or "
                "threads changed. Nothing was released. Restore them and resume again, or start a new run; this one stays "
                "charged."
            )

    def bind_plan(self, terms: Mapping[str, Any]) -> None:
        """Bind everything that decides what is computed, under the name ``plan``: ``terms``, the threads and the versions.

        The terms are kept beside the MAC, so that a refusal can name what to restore; the MAC alone decides.
        """
        terms = json.loads(canonical_json({**terms, "threads": threads(), "versions": versions()}))
        content = canonical_json(terms).encode()
        kept = self.values.get("terms", {})
        if not self.bound("plan"):
            self.values["terms"] = terms
        elif self.values["bound"]["plan"] != self._mac("plan", content):
            changed = "; ".join(_differences(kept, terms)) or "a term that the private state does not show"
            raise LedgerError(
                f"The repeated run differs from the stopped one in 'plan'. Nothing was released. Restore {changed}, and "
                "resume again, or start a new run; this one stays charged."
            )
        self.bind("plan", content)

    def mark(self, *names: str) -> str:
        """Return the mark of what is bound under these names, which a data set's ledger may hold.

        Without the key the mark is pseudo-random.
        """
        return derive_key(self.key, "mark", *names, *(self.values["bound"][name] for name in names)).hex()

    def remove(self) -> None:
        """Delete the state, and with it the key."""
        for path in self.directory.iterdir():
            path.unlink()
        self.directory.rmdir()
        sync_folder(self.directory.parent)
        self.close()

    def close(self) -> None:
        """Let another process open the state."""
        self._lock.release()

    def _mac(self, name: str, content: bytes) -> str:
        return derive_key(self.key, "resume", name, content).hex()

    def _write(self) -> None:
        with whole_file(self.directory / _FILE, 0o600) as file:
            file.write((canonical_json(self.values) + "\n").encode())


def _differences(kept: Any, found: Any, name: str = "") -> list[str]:
    """Return what differs between two JSON values, by name, each with what it was."""
    if isinstance(kept, dict) and isinstance(found, dict):
        names = sorted({*kept, *found})
        parts = (_differences(kept.get(one), found.get(one), f"{name}.{one}" if name else one) for one in names)
        return [line for part in parts for line in part]
    return [] if kept == found else [f"{name} {json.dumps(kept)} (now {json.dumps(found)})"]


def _check_new(directory: Path) -> None:
    """Refuse a folder that holds more than a lock and a state that was never whole."""
    if not directory.is_dir() or any(
        path.name != _LOCK and not left_behind(path.name, _FILE) for path in directory.iterdir()
    ):
        raise InputError(
            f"Expected a new folder for the private state, got {str(directory)!r}, which exists. Resume that run."
        )


def _locked(directory: Path) -> FileLock:
    lock = FileLock(directory / _LOCK, timeout=0, mode=0o600)
    try:
        lock.acquire()
    except Timeout as error:
        raise InputError(
            f"Expected the private state {str(directory)!r} to be free, but another process holds it. Let it finish."
        ) from error
    return lock
