"""Check a released run without trusting the library that wrote it.

``python -m sfumato.verify DIR [--public-key FILE]`` exits 0 if the run is valid, 1 if it is not, 2 if there is nothing
to check. This file, the files ``_verify_*.py`` beside it and the JSON Schema ``verify/certificate-2.schema.json`` stand
alone: they need Python, NumPy and cryptography and use nothing else of Sfumato.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from . import pate
from .caveats import implausible
from .claim import claim_faults
from .documents import canonical, differences, form_faults, forms, parse, plain
from .local import LOCAL_UNITS
from .plan import disagreements
from .signature import binds, fingerprint, signs
from .tensors import answer_faults, tensor_shapes, unreal_faults, whole_numbers
from .words import round_up

_REQUIRED = ("certificate.json", "ledger.jsonl", "model.safetensors", "releases.safetensors", "spec.json")
_UNLISTED = {"manifest.json", "signature.json"}


class VerifyInputError(ValueError):
    """There is nothing to verify: the folder or the key cannot be used."""


@dataclass(frozen=True)
class Verification:
    """What :func:`verify` found; ``valid`` means no problems.

    ``epsilon_low`` and ``epsilon_high`` bracket the events' epsilon at ``claim_delta`` less the sampler's share.
    ``key`` is the public key (64 hexadecimal digits) whose signature is there and holds: anyone's, unless ``origin_checked``
    says that it is the key that was given. ``builds_on`` are the runs that the weights come from, which the claim excludes.
    ``caveats`` say what is implausible about claim and public facts, derived anew.
    """

    valid: bool
    problems: tuple[str, ...]
    epsilon_low: float | None = None
    epsilon_high: float | None = None
    claim_epsilon: float | None = None
    claim_delta: float | None = None
    unit: dict[str, Any] | None = None
    key: str | None = None
    origin_checked: bool = False
    builds_on: tuple[dict[str, Any], ...] = ()
    caveats: tuple[str, ...] = ()

    @property
    def signed(self) -> bool:
        """Whether a signature is there and holds, whosever it is."""
        return self.key is not None


def verify(run: Path, public_key: Path | None = None) -> Verification:
    """Check the released part of a run folder: files, form, hash chain, words, sizes, epsilon, signature.

    **Formal guarantee.** The events of a valid run satisfy (1.001 * claim_epsilon, claim_delta)-DP under its unit, if
    the noise multipliers, the settings and the public facts (among them ``num_train``, the direction and the degree cap)
    are what the run used. Outputs show none of it, nor that the noise was drawn. Runs in ``builds_on`` come on top.

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
    key = _check_signature(contents, expected_key, problems)
    signer, checked = None if key is None else key.hex(), key is not None and key == expected_key
    certificate, spec = (parse(f"{name}.json", contents, name, problems) for name in ("certificate", "spec"))
    entries = _check_chain(contents.get("ledger.jsonl"), problems)
    released, weights = (tensor_shapes(folder / f"{name}.safetensors", problems) for name in ("releases", "model"))
    if certificate is None:
        return Verification(False, tuple(problems), key=signer, origin_checked=checked)
    bracket: tuple[float | None, float | None] = (None, None)
    try:
        strange = list(_method_form_faults(certificate))
        if strange:
            return Verification(False, (*problems, *strange), key=signer, origin_checked=checked)
        problems.extend(_sentence_faults(certificate))
        problems.extend(disagreements(certificate, spec, entries, released, weights))
        found, bracket = claim_faults(certificate)
        problems.extend(found)
        if not problems and certificate["unit"]["name"] in LOCAL_UNITS:
            problems.extend(answer_faults(folder / "releases.safetensors", certificate))
        if not problems and certificate["method"] == pate.METHOD and released is not None:
            queries, answers = (whole_numbers(folder / "releases.safetensors", name) for name in ("queries", "answers"))
            found = list(pate.answer_faults(queries, answers, certificate))
            problems.extend(f"releases.safetensors: {text}" for text in found)
        if not problems:
            problems.extend(unreal_faults(folder / "model.safetensors"))
    except RecursionError:
        problems.append("certificate.json: is nested too deep to be compared")
    stated = certificate["claim"]["epsilon"], certificate["claim"]["delta"], certificate["unit"]
    origins = tuple(certificate["composition"]["builds_on"])
    caveats = tuple(text for _, text in implausible(certificate))
    return Verification(not problems, tuple(problems), *bracket, *stated, signer, checked, origins, caveats)


def _method_form_faults(certificate: dict[str, Any]) -> Iterator[str]:
    """Public facts of a graph where there is none or the reverse, and settings of PATE that are none."""
    is_pate = certificate["method"] == pate.METHOD
    due = {"public_facts": "pate_facts", "settings": "pate_settings"} if is_pate else {"public_facts": "graph_facts"}
    for field, form in due.items():
        yield from (f"certificate.json: {text}" for text in form_faults(certificate[field], forms()[form], field))


def _sentence_faults(certificate: dict[str, Any]) -> Iterator[str]:
    """Sentences that are those of another trust model: the schema offers the curator's, the local ones, those of links.

    PATE's, where they are not the curator's, come fourth.
    """
    unit, is_pate = certificate["unit"]["name"], certificate["method"] == pate.METHOD
    own = 3 if is_pate else LOCAL_UNITS.index(unit) + 1 if unit in LOCAL_UNITS else 0
    for field, form in forms()["certificate"]["properties"].items():
        if "anyOf" in form:
            cases = form["anyOf"]
            case = cases[own] if own < len(cases) else cases[0 if is_pate else -1]
            found = differences(certificate[field], case["const"], field)
            yield from (f"certificate.json: {text} (compared with what the unit implies)" for text in found)


def _release_folder(run: Path) -> Path:
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


def _read_key(path: Path) -> bytes:
    try:
        data = path.read_bytes()
        digits = re.fullmatch(rb"\s*([0-9a-fA-F]{64})\s*", data)
        raw = bytes.fromhex(digits[1].decode()) if digits else b""
        key = Ed25519PublicKey.from_public_bytes(raw) if raw else load_pem_public_key(data)
    except (OSError, ValueError, UnsupportedAlgorithm):
        key = None
    if isinstance(key, Ed25519PublicKey) and binds(key.public_bytes_raw()):
        return key.public_bytes_raw()
    weak = ", of small order or misspelled, so that anybody can sign for it" * isinstance(key, Ed25519PublicKey)
    raise VerifyInputError(
        f"Expected the public key to be an Ed25519 key, PEM or 64 hexadecimal digits, got {str(path)!r}{weak}."
    )


def _check_files(folder: Path, problems: list[str]) -> dict[str, bytes]:
    """Compare every file with the manifest and the known names; return the contents of the JSON files."""
    contents: dict[str, bytes] = {}
    hashes: dict[str, str] = {}
    for path in sorted(folder.iterdir()):
        name = path.name
        if path.is_symlink() or not path.is_file():
            problems.append(f"{plain(name)}: is a link, a folder or a special file; a release holds regular files only")
        elif name not in _REQUIRED and name not in _UNLISTED:
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
    for name in _REQUIRED:
        if name not in hashes:
            problems.append(f"{plain(name)}: is missing")
        elif name not in listed:
            problems.append(f"{plain(name)}: is not listed in manifest.json")
        elif listed[name] != hashes[name]:
            problems.append(f"{plain(name)}: its SHA-256 differs from the one in manifest.json")
    for name in sorted(listed.keys() - {*_REQUIRED}) if manifest else ():
        problems.append(f"manifest.json: files.{plain(name)}: must not be listed")
    return contents


def _check_signature(contents: dict[str, bytes], expected_key: bytes | None, problems: list[str]) -> bytes | None:
    """Return the key whose signature holds."""
    if "signature.json" not in contents and expected_key is not None:
        problems.append("signature.json: is missing: a public key was given, but the run is not signed")
    signature = parse("signature.json", contents, "signature", problems)
    if signature is None:
        return None
    key = bytes.fromhex(signature["public_key"])
    if expected_key is not None and key != expected_key:
        problems.append("signature.json: public_key: is not the key that was given")
    if not binds(key):
        problems.append("signature.json: public_key: is of small order or misspelled, so that anybody can sign for it")
    elif signs(key, bytes.fromhex(signature["signature"]), contents.get("manifest.json", b"")):
        return key
    else:
        problems.append("signature.json: signature: does not sign manifest.json")
    return None


def _check_chain(data: bytes | None, problems: list[str]) -> list[dict[str, Any]] | None:
    """Return the ledger's entries if each line is well formed and chained to the one before."""
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


def describe(run: Path, result: Verification) -> str:
    """A verdict in plain words, one line a finding."""
    lines = [f"{'VALID' if result.valid else 'NOT VALID'}: {run}"]
    if result.unit is not None:
        lines.append("unit: " + ", ".join(f"{key} {value}" for key, value in result.unit.items()))
    if result.unit == {"name": "none", "relation": "none"}:
        lines.append("claim: none; this run carries no privacy guarantee")
    elif result.epsilon_low is not None:
        lines.append(f"claim: epsilon {result.claim_epsilon:.9g}, delta {result.claim_delta:.9g}")
        if result.unit is not None and result.unit["name"] == "link" and result.claim_epsilon is not None:
            both = round_up(2 * result.claim_epsilon)
            lines.append(f"claim for a relationship that both ends report: epsilon {both}")
        lines.append(f"derived from the events: epsilon between {result.epsilon_low:.9g} and {result.epsilon_high:.9g}")
    lines.extend(
        f"not in this claim: weights come from the run with ledger head {one['ledger_head']}, epsilon {one['epsilon']}, "
        f"delta {one['delta']}, which was not checked here; if its data are the same people's, the costs add up"
        for one in result.builds_on
    )
    lines.extend(f"caveat: {text}" for text in result.caveats)
    if result.key is None:
        lines.append("signature: none that holds; consistency was checked, origin was not")
    else:
        lines.append(f"signature: holds, by key {result.key}, fingerprint {fingerprint(result.key)}")
        if result.origin_checked:
            lines.append("origin: checked, this is the key that was given")
        elif not any(text.startswith("signature.json: public_key: ") for text in result.problems):
            lines.append(
                "origin: not checked, since anyone can sign with a key of their own; pass the publisher's as --public-key"
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
