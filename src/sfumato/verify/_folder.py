"""The folder of a release: its files, its manifest, and the hash chain of its ledger."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ._documents import canonical, parse, plain

_REQUIRED = ("certificate.json", "ledger.jsonl", "model.safetensors", "releases.safetensors", "spec.json")
IDS = "ids.txt"
_OPTIONAL = {"collection.bin", IDS}
_UNLISTED = {"manifest.json", "signature.json"}


class VerifyInputError(ValueError):
    """There is nothing to verify, because the folder or the key cannot be used."""


def release_folder(run: Path) -> Path:
    if not run.exists():
        raise VerifyInputError(f"Expected a run folder or the file of a ledger, got {str(run)!r}: no such file.")
    if not run.is_dir():
        raise VerifyInputError(f"Expected DIR to be a run folder, got {str(run)!r}, which is not a folder.")
    if (run / "release").is_dir():
        return run / "release"
    if (run / "manifest.json").exists() or (run / "certificate.json").exists():
        return run
    raise VerifyInputError(
        f"Expected DIR to hold release/, got {str(run)!r}. A run that was stopped or held back has none; otherwise pass the "
        "folder given as --out."
    )


def read_files(folder: Path, problems: list[str]) -> dict[str, bytes]:
    """Compare every file with the manifest and the known names; return the contents of the JSON files."""
    contents: dict[str, bytes] = {}
    hashes: dict[str, str] = {}
    if folder.is_symlink():
        problems.append(f"{plain(folder.name)}: is a link; a release is a folder of its own")
    for path in sorted(folder.iterdir()):
        name = path.name
        if path.is_symlink() or not path.is_file():
            problems.append(f"{plain(name)}: is a link, a folder or a special file; a release holds regular files only")
        elif name not in {*_REQUIRED, *_OPTIONAL, *_UNLISTED}:
            problems.append(f"{plain(name)}: is not a file of a release; remove it")
        else:
            try:
                with path.open("rb") as file:
                    hashes[name] = hashlib.file_digest(file, "sha256").hexdigest()
                if path.suffix in (".json", ".jsonl"):
                    contents[name] = path.read_bytes()
            except OSError as error:
                problems.append(f"{plain(name)}: cannot be read: {error.strerror}")
    manifest = parse("manifest.json", contents, "manifest", problems)
    if "manifest.json" not in contents:
        problems.append("manifest.json: is missing")
    listed = manifest["files"] if manifest else hashes
    for name in (*_REQUIRED, *sorted(_OPTIONAL & {*hashes, *listed})):
        if name not in hashes:
            problems.append(f"{plain(name)}: is missing")
        elif name not in listed:
            problems.append(f"{plain(name)}: is not listed in manifest.json")
        elif listed[name] != hashes[name]:
            problems.append(f"{plain(name)}: its SHA-256 differs from the one in manifest.json")
    for name in sorted(listed.keys() - {*_REQUIRED, *_OPTIONAL}) if manifest else ():
        problems.append(f"manifest.json: files.{plain(name)}: must not be listed")
    return contents


def id_faults(folder: Path, spec: dict[str, Any]) -> Iterator[str]:
    """Yield a problem if the list of ids is there and is not the one whose digest the ``spec`` holds."""
    if not (folder / IDS).is_file():
        return
    content, graph = (folder / IDS).read_bytes(), spec.get("graph") or {}
    if hashlib.sha256(content).hexdigest() != graph.get("ids_digest"):
        yield f"{IDS}: its SHA-256 differs from graph.ids_digest in spec.json"
        return
    lines = content.decode(errors="replace").split("\n")
    if len(lines) != graph["num_nodes"]:
        yield f"{IDS}: holds {len(lines)} lines, expected {graph['num_nodes']}"
    if not all(map(str.isprintable, lines)):
        yield f"{IDS}: expected printable characters"


def read_chain(data: bytes | None, problems: list[str]) -> list[dict[str, Any]] | None:
    """Return the ledger's entries if each line is well formed and chained to the line before."""
    before, entries, previous = len(problems), [], "0" * 64
    if data == b"":
        problems.append("ledger.jsonl: is empty; its first line must be the plan")
    for index, line in enumerate((data or b"").splitlines(keepends=True)):
        where = f"ledger.jsonl line {index + 1}"
        entry = parse(where, {where: line}, "ledger_entry", problems)
        if entry is None:
            break
        content = canonical({key: value for key, value in entry.items() if key != "hash"})
        if entry["index"] != index:
            problems.append(f"{where}: index: expected {index}, got {entry['index']}")
        if entry["kind"] != ("release" if index else "plan"):
            problems.append(f"{where}: kind: the first line must be the plan and every other line a release")
        if entry["previous"] != previous:
            problems.append(f"{where}: previous: is not the hash of the line before")
        if entry["hash"] != hashlib.sha256(content).hexdigest():
            problems.append(f"{where}: hash: is not the hash of this line")
        previous = entry["hash"]
        entries.append(entry)
    return None if len(problems) > before or not entries else entries
