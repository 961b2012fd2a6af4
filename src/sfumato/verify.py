"""Check a released run without trusting the library that wrote it.

``python -m sfumato.verify DIR [--public-key FILE]`` exits 0 if the run is valid, 1 if it is not, 2 if there is nothing
to check. This file, its accountant ``_verify_epsilon.py`` and ``_verify_plan.py`` stand alone: they need Python, NumPy
and cryptography and use nothing else of Sfumato.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from sfumato._verify_epsilon import draws, epsilon_bracket
from sfumato._verify_plan import KNOWN_METHODS, sampling_faults, spec_faults, weights_faults, words_faults

TOLERANCE = 1.001
SAMPLER_TAU = 2.0**-100
_REQUIRED = ("certificate.json", "ledger.jsonl", "model.safetensors", "releases.safetensors", "spec.json")
_BYTES = {
    "F64": 8,
    "I64": 8,
    "U64": 8,
    "F32": 4,
    "I32": 4,
    "U32": 4,
    "F16": 2,
    "BF16": 2,
    "I16": 2,
    "U16": 2,
    "I8": 1,
    "U8": 1,
}


class VerifyInputError(ValueError):
    """There is nothing to verify: the folder or the key cannot be used."""


@dataclass(frozen=True)
class Verification:
    """What :func:`verify` found; ``valid`` means no problems, ``signed`` that a signature is there and holds.

    ``epsilon_low`` and ``epsilon_high`` bracket the events' epsilon at ``claim_delta`` less the sampler's share.
    """

    valid: bool
    problems: tuple[str, ...]
    epsilon_low: float | None = None
    epsilon_high: float | None = None
    claim_epsilon: float | None = None
    claim_delta: float | None = None
    unit: dict[str, Any] | None = None
    signed: bool = False


def verify(run: Path, public_key: Path | None = None) -> Verification:
    """Check the released part of a run folder: files, hash chain, epsilon, signature.

    **Formal guarantee.** The events of a valid run satisfy (1.001 * claim_epsilon, claim_delta)-DP under its unit, if
    each noise multiplier is what the run used: that the noise was really drawn cannot be seen in the output.

    Args:
        run: a run folder (it holds ``release/``) or the release folder itself.
        public_key: a file with the Ed25519 key, PEM or 64 hexadecimal digits, that must have signed the run.

    Raises:
        VerifyInputError: there is no such folder, nothing released in it, or no usable key.

    >>> verify(Path("no-such-run"))
    Traceback (most recent call last):
    sfumato.verify.VerifyInputError: Expected DIR to be a run folder, got 'no-such-run', which is not a folder.
    """
    folder = _release_folder(Path(run))
    expected_key = None if public_key is None else _read_key(Path(public_key))
    problems: list[str] = []
    contents = _check_files(folder, problems)
    signed = _check_signature(contents, expected_key, problems)
    certificate = _parse("certificate.json", contents.get("certificate.json"), _CERTIFICATE, problems)
    entries = _check_chain(contents.get("ledger.jsonl"), problems)
    if certificate is None:
        return Verification(False, tuple(problems), signed=signed)
    if entries is not None:
        _check_ledger(entries, certificate, problems)
    _check_releases(certificate, problems)
    _check_tensors(folder / "releases.safetensors", certificate["releases"], problems)
    _check_plan(folder, contents.get("spec.json"), certificate, problems)
    (low, high), claim = _check_claim(certificate, problems), certificate["claim"]
    stated = claim["epsilon"], claim["delta"], certificate["unit"]
    return Verification(not problems, tuple(problems), low, high, *stated, signed)


def _release_folder(run: Path) -> Path:
    if not run.is_dir():
        raise VerifyInputError(f"Expected DIR to be a run folder, got {str(run)!r}, which is not a folder.")
    if (run / "release").is_dir():
        return run / "release"
    if (run / "manifest.json").exists() or (run / "certificate.json").exists():
        return run
    raise VerifyInputError(f"Expected DIR to hold release/, got {str(run)!r}. Pass the folder given to train as --out.")


def _read_key(path: Path) -> bytes:
    try:
        data = path.read_bytes()
        if re.fullmatch(rb"\s*[0-9a-fA-F]{64}\s*", data):
            return bytes.fromhex(data.decode())
        key = load_pem_public_key(data)
    except (OSError, ValueError, UnsupportedAlgorithm):
        key = None
    if isinstance(key, Ed25519PublicKey):
        return key.public_bytes_raw()
    raise VerifyInputError(
        f"Expected the public key to be an Ed25519 key, PEM or 64 hexadecimal digits, got {str(path)!r}."
    )


def _check_files(folder: Path, problems: list[str]) -> dict[str, bytes]:
    """Compare every file with the manifest; return the contents of the JSON files."""
    contents: dict[str, bytes] = {}
    hashes: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            problems.append(f"{_plain(name)}: is a link or a special file; a release holds regular files only")
        elif path.is_file():
            try:
                with path.open("rb") as file:
                    hashes[name] = hashlib.file_digest(file, "sha256").hexdigest()
                if path.suffix in (".json", ".jsonl"):
                    contents[name] = path.read_bytes()
            except OSError as error:
                problems.append(f"{_plain(name)}: cannot be read: {error.strerror}")
    manifest = _parse("manifest.json", contents.get("manifest.json"), _MANIFEST, problems)
    if "manifest.json" not in contents:
        problems.append("manifest.json: is missing")
    found, listed = hashes.keys() - {"manifest.json", "signature.json"}, manifest["files"] if manifest else hashes
    for name in sorted({*found, *listed, *_REQUIRED} - {"manifest.json", "signature.json"}):
        if name not in found:
            problems.append(f"{_plain(name)}: is missing")
        elif name not in listed:
            problems.append(f"{_plain(name)}: is not listed in manifest.json")
        elif listed[name] != hashes[name]:
            problems.append(f"{_plain(name)}: its SHA-256 differs from the one in manifest.json")
    return contents


def _check_signature(contents: dict[str, bytes], expected_key: bytes | None, problems: list[str]) -> bool:
    if "signature.json" not in contents and expected_key is not None:
        problems.append("signature.json: is missing: a public key was given, but the run is not signed")
    signature = _parse("signature.json", contents.get("signature.json"), _SIGNATURE, problems)
    if signature is None:
        return False
    key = bytes.fromhex(signature["public_key"])
    if expected_key is not None and key != expected_key:
        problems.append("signature.json: public_key: is not the key that was given")
    try:
        message = contents.get("manifest.json", b"")
        Ed25519PublicKey.from_public_bytes(key).verify(bytes.fromhex(signature["signature"]), message)
    except (InvalidSignature, ValueError):
        problems.append("signature.json: signature: does not sign manifest.json")
        return False
    return True


def _check_plan(folder: Path, spec: bytes | None, certificate: dict[str, Any], problems: list[str]) -> None:
    """Check what a method's own settings imply; for a method this version does not know, spec and words alone."""
    try:
        problems.extend(spec_faults(_loads(spec), certificate) if spec is not None else ())
    except (ValueError, RecursionError):
        problems.append("spec.json: is not JSON")
    problems.extend(words_faults(certificate))
    if certificate["method"] not in KNOWN_METHODS:
        return
    problems.extend(sampling_faults(certificate))
    try:
        problems.extend(weights_faults(_tensor_shapes(folder / "model.safetensors"), certificate))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        problems.append(f"model.safetensors: header: is not a valid safetensors header: {_plain(str(error))}")


def _check_tensors(path: Path, releases: list[dict[str, Any]], problems: list[str]) -> None:
    """Check that the file holds each Gaussian release as a tensor of its shape, and nothing that was not charged."""
    if not path.is_file():
        return
    try:
        shapes = _tensor_shapes(path)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        problems.append(f"{path.name}: header: is not a valid safetensors header: {_plain(str(error))}")
        return
    for release in releases:
        name, shape = _plain(release["name"]), shapes.pop(release["name"], None)
        if shape is None and release["event"]["type"] == "gaussian":
            problems.append(f"{path.name}: {name}: the tensor of this release is missing")
        elif shape is not None and shape != release["shape"]:
            problems.append(f"{path.name}: {name}: has shape {shape}, but was charged with {release['shape']}")
    problems.extend(f"{path.name}: {_plain(name)}: this tensor belongs to no release" for name in shapes)


def _tensor_shapes(path: Path) -> dict[str, list[int]]:
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > min(size - 8, 10**8):
            raise ValueError(f"a header of {length} bytes does not fit a file of {size}")
        header = _loads(file.read(length))
    if "__metadata__" in header:
        raise ValueError("it carries __metadata__, which no release needs")
    end, shapes = 0, {name: entry["shape"] for name, entry in header.items()}
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        start, stop = entry["data_offsets"]
        if not all(_is_count(n) for n in (*entry["shape"], start, stop)) or start != end:
            raise ValueError(f"shape or data_offsets of {name}")
        end = start + _BYTES[entry["dtype"]] * math.prod(entry["shape"])
        if stop != end:
            raise ValueError(f"data_offsets of {name} do not fit its shape")
    if end != size - 8 - length:
        raise ValueError("the tensors do not fill the file")
    return shapes


@dataclass(frozen=True)
class _OneOf:
    """An object whose fields depend on the value of its field ``tag``."""

    tag: str
    cases: dict[str, dict[str, Any]]


def _is_real(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= 1e300


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= 2**53


def _choice(*names: str) -> tuple[str, Any]:
    return "one of " + ", ".join(names), lambda value: isinstance(value, str) and value in names


def _hex(digits: int) -> tuple[str, Any]:
    pattern = re.compile(f"[0-9a-f]{{{digits}}}")
    return f"{digits} hexadecimal digits", lambda value: isinstance(value, str) and pattern.fullmatch(value)


# The form of every file. A leaf is (what is expected, a test); a list holds the form of its items.
# fmt: off
_TEXT = ("a text", lambda v: isinstance(v, str) and v)
_OBJECT = ("an object", lambda v: isinstance(v, dict))
_FLAG = ("true or false", lambda v: isinstance(v, bool))
_COUNT = ("an integer >= 1", lambda v: _is_count(v) and v)
_COUNT_OR_NULL = ("null or an integer >= 1", lambda v: v is None or (_is_count(v) and v))
_POSITIVE = ("a finite number > 0", lambda v: _is_real(v) and v > 0)
_AMOUNT = ("a finite number >= 0", lambda v: _is_real(v) and v >= 0)
_RATE = ("a number in (0, 1]", lambda v: _is_real(v) and 0 < v <= 1)
_FORMAT = ("1, the only format known here", lambda v: type(v) is int and v == 1)
_TAU = ("2**-100", lambda v: _is_real(v) and v == SAMPLER_TAU)
_HASH, _RELATION, _READER = _hex(64), _choice("add-remove", "replace"), _choice("anyone", "the node itself")
_CLAIM = {"epsilon": ("null or a finite number >= 0", lambda v: v is None or (_is_real(v) and v >= 0)),
          "delta": ("null or a number in [0, 1)", lambda v: v is None or (_is_real(v) and 0 <= v < 1))}
_UNIT = _OneOf("name", {
    "none": {"relation": _choice("none")},
    "edge": {"relation": _choice("add-remove"), "directed": _FLAG},
    "node": {"relation": _choice("remove", "replace"), "arcs": _choice("owned", "incident"),
             "max_out_degree": _COUNT_OR_NULL},
    "record": {"relation": _RELATION}})
_EVENT = _OneOf("type", {
    "gaussian": {"noise_multiplier": _POSITIVE, "count": _COUNT},
    "poisson-gaussian": {"noise_multiplier": _POSITIVE, "sampling_prob": _RATE, "steps": _COUNT,
                         "relation": _RELATION}})
_RELEASE = {"name": _TEXT, "event": _EVENT, "shape": [_COUNT], "affected_coordinates": _COUNT, "visible_to": _READER}
_PLAN = {"method": _TEXT, "unit": _UNIT, "releases": [_RELEASE], "claim": _CLAIM, "delta_sampler": _AMOUNT}
_LINK = {"index": ("an integer >= 0", _is_count), "previous": _HASH, "hash": _HASH}
_ENTRY = _OneOf("kind", {"plan": {"plan": _PLAN, **_LINK}, "release": {"release": _RELEASE, **_LINK}})
_CERTIFICATE = {
    "format": _FORMAT, "version": _TEXT, "method": _TEXT, "settings": _OBJECT, "unit": _UNIT, "protects": _TEXT,
    "trust_model": _TEXT, "claim": _CLAIM, "budget": _CLAIM, "releases": [_RELEASE], "public_facts": _OBJECT,
    "accounting": {"method": _choice("gaussian", "pld", "none"), "delta_sampler": _AMOUNT, "sampler_tau": _TAU},
    "who_may_see": {"anyone": [_TEXT], "the node itself": [_TEXT], "never": [_TEXT]},
    "assumed_public": [_TEXT], "assumptions": [_TEXT], "ledger_head": _HASH}
_MANIFEST = {"format": _FORMAT, "files": _OBJECT}
_SIGNATURE = {"algorithm": _choice("ed25519"), "public_key": _hex(64), "signature": _hex(128)}
# fmt: on


def _plain(text: str) -> str:
    """Keep a word from the run on one line, short and free of control characters."""
    shown = ascii(text)[1:-1]
    return shown if len(shown) <= 80 else shown[:77] + "..."


def _loads(data: bytes) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError("a field appears twice")
        return dict(pairs)

    return json.loads(data.decode("utf-8"), object_pairs_hook=unique)


def _canonical(value: Any) -> bytes:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8")


def _parse(where: str, data: bytes | None, form: Any, problems: list[str]) -> Any:
    """Return the document if it is canonical JSON of that form, else None and a problem for each fault."""
    if data is None:
        return None
    try:
        value = _loads(data)
        faults = list(_faults(value, form, ""))
        if not faults and _canonical(value) + b"\n" != data:
            faults = ["is not canonical JSON (sorted keys, no spaces, one newline at the end)"]
    except (ValueError, RecursionError) as error:
        faults = [f"is not valid JSON: {_plain(str(error))}"]
    problems.extend(f"{where}: {fault}" for fault in faults)
    return None if faults else value


def _faults(value: Any, form: Any, path: str) -> Iterator[str]:
    label = f"{path}: " if path else ""
    if isinstance(form, tuple):
        if not form[1](value):
            yield f"{label}expected {form[0]}, got {_plain(repr(value))}"
    elif isinstance(form, list):
        if not isinstance(value, list):
            yield f"{label}expected a list, got {_plain(repr(value))}"
        else:
            for index, item in enumerate(value):
                yield from _faults(item, form[0], f"{path}[{index}]")
    elif not isinstance(value, dict):
        yield f"{label}expected an object, got {_plain(repr(value))}"
    elif isinstance(form, _OneOf):
        tag = value.get(form.tag)
        if isinstance(tag, str) and tag in form.cases:
            yield from _faults(value, {**form.cases[tag], form.tag: _TEXT}, path)
        else:
            yield f"{path}{'.' * bool(path)}{form.tag}: expected {_choice(*form.cases)[0]}, got {_plain(repr(tag))}"
    else:
        for key in sorted(form.keys() | value.keys()):
            inner = f"{path}.{_plain(key)}" if path else _plain(key)
            if key in form and key in value:
                yield from _faults(value[key], form[key], inner)
            else:
                yield f"{inner}: is {'missing' if key in form else 'not a known field'}"


def _differences(left: Any, right: Any, path: str) -> Iterator[str]:
    """Name the fields in which two JSON values differ; true, 1 and 1.0 are three values."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted(left.keys() | right.keys()):
            yield from _differences(left.get(key), right.get(key), f"{path}.{key}")
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for index, pair in enumerate(zip(left, right, strict=True)):
            yield from _differences(*pair, f"{path}[{index}]")
    elif _canonical(left) != _canonical(right):
        yield f"{path}: {_plain(repr(left))} differs from {_plain(repr(right))}"


def _check_chain(data: bytes | None, problems: list[str]) -> list[dict[str, Any]] | None:
    """Return the ledger's entries if each line is well formed and chained to the one before."""
    before, entries, previous = len(problems), [], "0" * 64
    lines = [] if data is None else data.splitlines(keepends=True)
    if data == b"":
        problems.append("ledger.jsonl: is empty; its first line must be the plan")
    for index, line in enumerate(lines):
        where = f"ledger.jsonl line {index + 1}"
        entry = _parse(where, line, _ENTRY, problems)
        if entry is None:
            break
        content = _canonical({key: value for key, value in entry.items() if key != "hash"})
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


def _check_ledger(entries: list[dict[str, Any]], certificate: dict[str, Any], problems: list[str]) -> None:
    plan, made = entries[0]["plan"], [entry["release"] for entry in entries[1:]]
    if len(made) != len(plan["releases"]):
        problems.append(f"ledger.jsonl: {len(made)} releases were made, but {len(plan['releases'])} were planned")
    for line, pair in enumerate(zip(made, plan["releases"], strict=False), start=2):
        problems.extend(f"ledger.jsonl line {line}: {text} in its plan" for text in _differences(*pair, "release"))
    stated = {**certificate, "delta_sampler": certificate["accounting"]["delta_sampler"]}
    for field in _PLAN:
        found = _differences(stated[field], plan[field], "accounting." * (field == "delta_sampler") + field)
        problems.extend(f"certificate.json: {text} in ledger.jsonl" for text in found)
    if certificate["ledger_head"] != entries[-1]["hash"]:
        problems.append("certificate.json: ledger_head: is not the hash of the ledger's last line")


def _check_releases(certificate: dict[str, Any], problems: list[str]) -> None:
    """Check that names are unique and that affected_coordinates follows from unit and shape."""
    unit, releases = certificate["unit"], certificate["releases"]
    rows = {"edge": 2 - unit.get("directed", 0), "node": unit.get("max_out_degree")}.get(unit["name"])
    if rows is not None and unit["relation"] == "replace":
        rows *= 2
    for index, release in enumerate(releases):
        where, event, shape = f"certificate.json: releases[{index}].", release["event"], release["shape"]
        expected = size = math.prod(shape)
        if any(release["name"] == other["name"] for other in releases[:index]):
            problems.append(f"{where}name: {_plain(release['name'])} appears twice")
        if unit["relation"] == "replace" and event.get("relation") == "add-remove":
            problems.append(f"{where}event.relation: expected replace, the unit's, got add-remove")
        if event["type"] == "gaussian" and release["name"].startswith("aggregate/"):
            if rows is None or unit.get("arcs") == "incident":
                problems.append(f"{where}name: an aggregate has no bounded sensitivity under this unit")
                continue
            if len(shape) != 2:
                problems.append(f"{where}shape: expected [nodes, columns], got {shape}")
                continue
            expected = min(rows * shape[1], size)
        elif event["type"] == "gaussian":
            expected = min(release["affected_coordinates"], size)
        if release["affected_coordinates"] != expected:
            problems.append(f"{where}affected_coordinates: expected {expected}, got {release['affected_coordinates']}")


def _check_claim(certificate: dict[str, Any], problems: list[str]) -> tuple[float | None, float | None]:
    """Hold the claim against the events; return the bracket of epsilon."""
    claim, releases, accounting = certificate["claim"], certificate["releases"], certificate["accounting"]
    events = [release["event"] for release in releases]
    faults: list[str] = []
    bracket: tuple[float | None, float | None] = (None, None)
    exact = all(event["type"] == "gaussian" for event in events)
    if accounting["method"] not in [["pld"], ["gaussian", "pld"], ["none", "gaussian", "pld"]][exact + (not events)]:
        faults.append(f"accounting.method: {accounting['method']} does not fit the events")
    if certificate["unit"]["name"] == "none":
        faults += [f"claim.{key}: expected null under unit none" for key in claim if claim[key] is not None]
        faults += ["releases: expected none under unit none"] * bool(releases)
    elif None in claim.values():
        faults += [f"claim.{key}: expected a number, got null" for key in claim if claim[key] is None]
    else:
        for key, limit in certificate["budget"].items():
            if limit is None or claim[key] > limit * (1 + 1e-9):
                faults.append(f"claim.{key}: {claim[key]:.9g} exceeds budget.{key}, which is {limit}")
        touched = sum(release["affected_coordinates"] * draws(release["event"]) for release in releases)
        sampler = (1 + math.exp(min(claim["epsilon"], 700.0))) * SAMPLER_TAU * touched
        if not math.isclose(accounting["delta_sampler"], sampler, rel_tol=1e-9):
            faults.append(f"accounting.delta_sampler: expected {sampler:.12g}, got {accounting['delta_sampler']}")
        bracket = epsilon_bracket(events, claim["delta"] - sampler)
        if bracket[0] > claim["epsilon"]:
            faults.append(f"claim.epsilon: {claim['epsilon']:.9g} is too small: the cost is at least {bracket[0]:.9g}")
        elif bracket[1] > TOLERANCE * claim["epsilon"]:
            faults.append(f"claim.epsilon: {claim['epsilon']:.9g} is not confirmed: the bound is {bracket[1]:.9g}")
    problems.extend(f"certificate.json: {fault}" for fault in faults)
    return bracket


def describe(run: Path, result: Verification) -> str:
    """A verdict in plain words, one line a finding."""
    lines = [f"{'VALID' if result.valid else 'NOT VALID'}: {run}"]
    if result.unit is not None:
        lines.append("unit: " + ", ".join(f"{key} {value}" for key, value in result.unit.items()))
    if result.unit == {"name": "none", "relation": "none"}:
        lines.append("claim: none; this run carries no privacy guarantee")
    elif result.epsilon_low is not None:
        lines.append(f"claim: epsilon {result.claim_epsilon:.9g}, delta {result.claim_delta:.9g}")
        lines.append(f"derived from the events: epsilon between {result.epsilon_low:.9g} and {result.epsilon_high:.9g}")
    lines.append(
        "signature: " + ("holds" if result.signed else "none that holds; consistency was checked, origin was not")
    )
    return "\n".join([*lines, *(f"problem: {problem}" for problem in result.problems)])


def main(argv: list[str] | None = None) -> int:
    """Print a verdict; return 0 if the run is valid, 1 if it is not, 2 if there is nothing to check."""
    parser = argparse.ArgumentParser(prog="python -m sfumato.verify", description="Check a released run.")
    parser.add_argument("run", type=Path, metavar="DIR", help="run folder, or the release folder inside it")
    parser.add_argument("--public-key", type=Path, metavar="FILE", help="Ed25519 key that must have signed the run")
    options = parser.parse_args(argv)
    try:
        result = verify(options.run, options.public_key)
    except VerifyInputError as error:
        print(error, file=sys.stderr)
        return 2
    print(describe(options.run, result))
    return 0 if result.valid else 1


if __name__ == "__main__":
    sys.exit(main())
