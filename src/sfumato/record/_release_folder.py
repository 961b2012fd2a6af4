"""The `release/` folder of a run: certificate, ledger, weights, released arrays, spec, manifest.

Only these files may leave; the manifest is written last, so an interrupted write never verifies.

Rows that are for their own node alone stand beside it, in ``own/rows.safetensors``. They must not leave as a whole. ``spec.json``
holds the SHA-256 of that file, in which 32 secret bytes stand beside the rows: so the digest says nothing about them.

Node ids are public under every unit, but they may be names, so they leave on request alone: ``ids.txt`` has one a line, in the
order of the rows, and no newline at the end. Its SHA-256 is the digest of ids that ``spec.json`` holds.

Beside ``release/``, in ``identity.json``, stands what tells the graph of the run from others with the same node ids
(:mod:`sfumato.method._identity`). It must not leave.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from sfumato._blocks import MOST_HELD, let_go, spans
from sfumato._files import left_behind, make_folders, read_secret, remove_empty, whole_file
from sfumato._optional import require
from sfumato.errors import DataError, InputError
from sfumato.record._certificate import FORMAT
from sfumato.record._collected import FILE
from sfumato.record.ledger import Ledger, canonical_json

if TYPE_CHECKING:
    from sfumato.record._certificate import Certificate

Arrays = dict[str, NDArray[Any]]
LEDGER = "ledger.jsonl"
IDS = "ids.txt"
RELEASES = "releases.safetensors"
Parts = tuple[bytes | NDArray[np.uint8], ...]
"""What a file holds, one part after the other: arrays are written and digested where they lie, without a copy."""
OWN_ROWS = "own/rows.safetensors"
"""The file of rows that are for their own node alone, in the run folder."""
IDENTITY = "identity.json"
"""The file, in the run folder, by which the run knows its graph again, in any order of rows."""
_SALT = "salt"
_PIECE, _IDS = 1 << 26, 1 << 18
LOCK = ".sfumato.lock"
"""Held, in the run folder, by the process that makes the run (:func:`owned`)."""
_BEGUN = {LOCK, "private", "private/lock", "release", f"release/{LEDGER}"}
_TYPES = ("U64", "I64", "F64", "F32", "U32", "I32", "F16", "U16", "I16", "I8", "U8")


@dataclass(frozen=True)
class StoredRun:
    """The content of a run folder, as :func:`read_release` returns it.

    ``certificate`` is empty if there is none; ``spec`` says how to load the run: method, settings, public facts, graph key.
    ``released`` has rows for single nodes, too, if they are in the run folder. ``collection`` is the closed file whose reports
    the run learned from, if it did; ``ids`` are in the order of the rows; ``identity`` tells the graph of the run from others.
    Both are None if they are not there.
    """

    certificate: dict[str, Any]
    spec: dict[str, Any]
    weights: Arrays
    released: Arrays
    ledger_text: str
    collection: bytes | None = None
    ids: tuple[str, ...] | None = None
    identity: dict[str, Any] | None = None


def check_new_folder(directory: Path) -> None:
    """Refuse a run folder that exists and is not empty."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise InputError(
            f"Expected out to be a new folder, got {str(directory)!r}, which exists. Choose another name or remove it."
        )


def check_new_run(directory: Path) -> None:
    """Refuse a run folder that holds more than what a run leaves that was killed before it was charged.

    Such a run leaves a lock, and a ledger without a line.
    """
    begun = directory.is_dir() and all(
        (name in _BEGUN and not (path.name == LEDGER and path.stat().st_size))
        or left_behind(name, "private/state.json")
        for path in directory.rglob("*")
        for name in [path.relative_to(directory).as_posix()]
    )
    if not begun:
        check_new_folder(directory)


def write_release(
    run: Path,
    certificate: Certificate | None,
    ledger: Ledger,
    spec: dict[str, Any],
    weights: Arrays,
    released: Arrays,
    sign_key: Path | None = None,
    own: Arrays | None = None,
    collection: bytes | None = None,
    ids: str | None = None,
    identity: dict[str, Any] | None = None,
) -> Path:
    """Write the folder ``run/release/``. The run folder must be new, or hold nothing but this run's own ledger."""
    release = run / "release"
    if ledger.path != release / LEDGER:
        check_new_folder(release if ledger.path == run / LEDGER else run)
    signer = read_sign_key(sign_key) if sign_key is not None else None
    made = [] if run.exists() else [run]
    if own:
        content = _tensor_file({**own, _SALT: np.frombuffer(secrets.token_bytes(32), np.int64)})
        spec = {**spec, "own": _digest(content)}
        _write_all((run / OWN_ROWS).parent, {Path(OWN_ROWS).name: content}, None)
        (run / OWN_ROWS).chmod(0o600)
    files: dict[str, Parts] = {
        **({} if certificate is None else {"certificate.json": (certificate.to_json().encode(),)}),
        LEDGER: (ledger.text().encode(),),
        "spec.json": ((canonical_json(spec) + "\n").encode(),),
        "model.safetensors": _tensor_file(weights),
        RELEASES: _tensor_file(released),
        **({} if collection is None else {FILE: (collection,)}),
        **({} if ids is None else {IDS: (ids.encode(),)}),
    }
    digests = {name: _digest(content) for name, content in sorted(files.items())}
    manifest = (canonical_json({"format": 1, "files": digests}) + "\n").encode()
    if signer is not None:
        files["signature.json"] = ((canonical_json(signer(manifest)) + "\n").encode(),)
    try:
        if identity is not None:
            run.mkdir(parents=True, exist_ok=True)
            with whole_file(run / IDENTITY, 0o600) as file:
                file.writelines(_identity_parts(identity))
        _write_all(release, {**files, "manifest.json": (manifest,)}, ledger.path)
    except BaseException:
        with suppress(OSError):
            if own:
                (run / OWN_ROWS).unlink(missing_ok=True)
            if identity is not None:
                (run / IDENTITY).unlink(missing_ok=True)
            remove_empty([(run / OWN_ROWS).parent, *made])
        raise
    return run


def _write_all(release: Path, files: dict[str, Parts], ledger: Path | None) -> None:
    """Write the files in order. If one fails, leave nothing but the ledger that was there."""
    made = [folder for folder in (release, release.parent) if not folder.exists()]
    try:
        release.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            with whole_file(release / name) as file:
                file.writelines(_pieces(content))
    except BaseException:
        with suppress(OSError):
            for path in {release / name for name in files} - {ledger}:
                path.unlink(missing_ok=True)
            for folder in made:
                folder.rmdir()
        raise


def read_release(run: Path, *, certified: bool = True, others: Mapping[str, str] | None = None) -> StoredRun:
    """Read a run folder back, and refuse files that do not match the manifest."""
    refusal = require("safetensors").SafetensorError
    release = run / "release" if (run / "release").is_dir() else run
    try:
        digests = json.loads((release / "manifest.json").read_bytes())["files"]
        contents = {name: (release / name).read_bytes() for name in digests}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"Expected {str(run)!r} to be a finished run folder, but release/manifest.json or a file it lists cannot be "
            f"read ({type(error).__name__}). Train again, or check the path."
        ) from error
    for name, content in contents.items():
        if hashlib.sha256(content).hexdigest() != digests[name]:
            raise DataError(f"File release/{name} of {str(run)!r} differs from its manifest. See `sfumato verify`.")
    try:
        spec = json.loads(contents["spec.json"])
        remedy = (others or {}).get(spec.get("method"))
        if remedy is not None:
            raise InputError(
                f"Expected {str(run)!r} to be another kind of run, got one of {spec['method']!r}. {remedy}"
            )
        certificate = contents["certificate.json"] if certified else contents.get("certificate.json", b"{}")
        stored = StoredRun(
            json.loads(certificate),
            spec,
            _tensors(contents["model.safetensors"]),
            {**_tensors(contents[RELEASES]), **_own_rows(release.parent / OWN_ROWS, spec.get("own"))},
            contents[LEDGER].decode(),
            contents.get(FILE),
            tuple(contents[IDS].decode().split("\n")) if IDS in contents else None,
            json.loads(beside.read_bytes()) if (beside := release.parent / IDENTITY).is_file() else None,
        )
    except InputError:
        raise  # the folder is whole, and says of what
    except (KeyError, ValueError, TypeError, AttributeError, refusal) as error:
        raise DataError(
            f"A file of {str(release)!r} is missing or malformed: {error}. See `sfumato verify`."
        ) from error
    _check_format(run, stored.certificate)
    return stored


def _check_format(run: Path, certificate: dict[str, Any]) -> None:
    """Refuse a run whose certificate has a form that this version does not know."""
    written = certificate.get("format", FORMAT)
    if written not in range(2, FORMAT + 1):
        raise DataError(
            f"Expected {str(run)!r} to be a run of format 2 to {FORMAT}, got {written!r}, which version "
            f"{certificate.get('version')!r} of Sfumato wrote. Read it with that version, or train again, which costs again."
        )


def where_saved(run: Path, released: Arrays) -> Arrays:
    """Return those of the released arrays of a run that are too large to be held, as maps of the file that was written.

    Whoever takes them in place of what was saved lets go of a second copy on disk.
    """
    path = run / "release" / RELEASES
    with path.open("rb") as file:
        start = int.from_bytes(file.read(8), "little")
        entries = json.loads(file.read(start))
    return {
        name: np.asarray(np.memmap(path, value.dtype, "r", 8 + start + entries[name]["data_offsets"][0], value.shape))
        for name, value in released.items()
        if name in entries and value.nbytes > MOST_HELD
    }


def _own_rows(path: Path, digest: str | None) -> Arrays:
    """Read the rows that are for their own node alone; nothing if they are not here."""
    if digest is None or not path.is_file():
        return {}
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != digest:
        raise ValueError(f"{OWN_ROWS} differs from spec.json")
    return {name: value for name, value in _tensors(content).items() if name != _SALT}


def released_digest(released: Arrays) -> str:
    """Return the SHA-256 of the file that holds these released arrays, as the manifest lists it."""
    return _digest(_tensor_file(released))


def _digest(content: Parts) -> str:
    found = hashlib.sha256()
    for piece in _pieces(content):
        found.update(piece)
    return found.hexdigest()


def _pieces(content: Parts) -> Iterator[Any]:
    """What a file holds, in pieces of a bounded size; what was read of an array that lies in a file is let go again."""
    for part in content:
        for first, last in spans(len(part), _PIECE):
            yield part[first:last]
            let_go(part)


def _identity_parts(identity: Mapping[str, Any]) -> Iterator[bytes]:
    """The canonical JSON of an identity, whose ids are written some at a time."""
    ids = identity["ids"]
    if ids is None:
        yield (canonical_json(identity) + "\n").encode()
        return
    before, _, after = canonical_json({**identity, "ids": []}).partition('"ids":[]')
    yield f'{before}"ids":['.encode()
    for first, last in spans(len(ids), _IDS):
        yield ("," * (first > 0) + canonical_json(ids[first:last].tolist())[1:-1]).encode()
    yield f"]{after}\n".encode()


def _tensor_file(arrays: Arrays) -> Parts:
    """Return the safetensors file of these arrays. Its bytes say nothing but their names, types, shapes and numbers."""
    plain = {name: np.ascontiguousarray(value, value.dtype.newbyteorder("<")) for name, value in arrays.items()}
    order = _file_order(plain)
    return _tensor_header(order), *(value.reshape(-1).view(np.uint8) for value in order.values())


def _tensors(content: bytes) -> Arrays:
    """Read a safetensors file whose header is the one of its arrays."""
    arrays: Arrays = require("safetensors.numpy").load(content)
    if not content.startswith(_tensor_header(_file_order(arrays))):
        raise ValueError("the header of a safetensors file is not in canonical form")
    return arrays


def _file_order(arrays: Arrays) -> Arrays:
    return dict(sorted(arrays.items(), key=lambda item: (_TYPES.index(_type(item[1])), item[0])))


def _tensor_header(arrays: Arrays) -> bytes:
    """Return length and JSON of a safetensors header: no spaces but those up to a multiple of 8 bytes, no metadata."""
    entries, end = {}, 0
    for name, value in arrays.items():
        start, end = end, end + value.nbytes
        entries[name] = {"dtype": _type(value), "shape": list(value.shape), "data_offsets": [start, end]}
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _type(array: NDArray[Any]) -> str:
    return f"{array.dtype.kind.upper()}{8 * array.itemsize}"


def read_sign_key(path: Path) -> Callable[[bytes], dict[str, str]]:
    """Read an Ed25519 private key (PEM). Return a function from the manifest's bytes to ``signature.json``.

    >>> read_sign_key(Path("/nonexistent/key.pem"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    sfumato.errors.InputError: Expected sign_key to be a PEM file without password, got '/nonexistent/key.pem' ...
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

    try:
        pem = read_secret(path)
    except OSError as error:
        raise InputError(
            f"Expected sign_key to be a PEM file without password, got {str(path)!r} ({error})."
        ) from error
    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError) as error:
        raise InputError(
            f"Expected sign_key to be a PEM file without password, got {str(path)!r} ({error})."
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(
            f"Expected sign_key {str(path)!r} to be an Ed25519 key. Make one with: openssl genpkey -algorithm ed25519"
        )
    public = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex()
    return lambda data: {"algorithm": "ed25519", "public_key": public, "signature": key.sign(data).hex()}


@contextmanager
def owned(run: Path, check: Callable[[Path], None]) -> Iterator[None]:
    """Hold a run folder for this process alone. The folder is made, and removed again if it stays empty.

    Only this process removes anything there. If it dies, the lock is free, and what it left belongs to the next process.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with owned(Path(folder, "run"), lambda run: None):
    ...         print([path.name for path in Path(folder, "run").iterdir()])
    ...     Path(folder, "run").exists()
    ['.sfumato.lock']
    False
    """
    if not (run / LOCK).exists():
        check(run)
    made, lock = make_folders(run), FileLock(run / LOCK, timeout=0)
    try:
        lock.acquire()
    except (Timeout, FileNotFoundError) as error:  # the second: the other run ended, and removed the folder
        raise InputError(
            f"Expected out to be a folder of this run alone, got {str(run)!r}, in which another run is at work. This one "
            "charged nothing and changed nothing there. Choose another folder, or let the other run finish."
        ) from error
    try:
        check(run)
        yield
    finally:
        (run / LOCK).unlink(missing_ok=True)
        lock.release()
        remove_empty(made)
