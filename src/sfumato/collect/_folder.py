"""The files in the folder of a device: its secret keys, and for each schema the code to enrol with, and the one-time token."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sfumato._files import left_behind, make_folders, read_secret, sync_folder, whole_file
from sfumato._validate import fail
from sfumato.collect._journal import LEDGER, LOCK, append_entry, locked, read_entries
from sfumato.collect._keys import DeviceKeys
from sfumato.errors import InputError, LedgerError

_DEVICE, _CODES, _TOKENS = "device.json", "codes.json", "tokens.json"


def write_device(folder: Path, about: Mapping[str, Any], keys: DeviceKeys, *, unless_there: bool = False) -> None:

    def stays() -> bool:
        if unless_there and (folder / _DEVICE).exists():
            return True
        _check_unused(folder)
        return False

    if stays():
        return
    made = make_folders(folder)
    folder.chmod(0o700)
    with locked(folder):
        if stays():
            return
        (folder / LEDGER).unlink(missing_ok=True)
        append_entry(folder, [], {"kind": "device", **about})
        secret = {"signing": keys.signing.hex(), "agreeing": keys.agreeing.hex()}
        with whole_file(folder / _DEVICE, 0o600) as file:
            file.write(json.dumps({"format": 1, **about, **secret}, indent=1).encode() + b"\n")
    for one in made:
        sync_folder(one.parent)


def read_device(folder: Path) -> tuple[dict[str, Any], DeviceKeys]:
    """Read user, caps and keys of a device, whose ledger must begin with the same user and caps."""
    try:
        secret = read_secret(folder / _DEVICE)
    except FileNotFoundError as error:
        raise fail("state", str(folder), "to be the folder of a device", "Make one first.") from error
    try:
        values = json.loads(secret)
        keys = DeviceKeys(bytes.fromhex(values["signing"]), bytes.fromhex(values["agreeing"]))
        about = {name: values[name] for name in ("user", "epsilon_cap", "delta_cap")}
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError(f"Expected {_DEVICE} to hold the keys of a device. Restore it.") from None
    head = (read_entries(folder) or [{}])[0]
    if any(head.get(name) != value for name, value in {"kind": "device", **about}.items()):
        raise LedgerError(f"Expected {LEDGER} to be the ledger of this device, got another or none. Restore it.")
    return about, keys


def read_codes(folder: Path) -> dict[str, str]:
    """Read the code of each schema that a device enrolled for, by its SHA-256."""
    try:
        secret = read_secret(folder / _CODES)
    except FileNotFoundError:
        return {}
    try:
        codes = json.loads(secret)
    except (ValueError, RecursionError):
        codes = None
    if not isinstance(codes, dict) or not all(isinstance(code, str) for code in codes.values()):
        raise InputError(f"Expected {_CODES} to hold enrolment codes. Remove it, and add --code CODE.")
    return codes


def keep_code(folder: Path, schema: str, code: str) -> None:
    with locked(folder):
        codes = read_codes(folder)
        if codes.get(schema) != code:
            with whole_file(folder / _CODES, 0o600) as file:
                file.write(json.dumps({**codes, schema: code}, indent=1).encode() + b"\n")


def read_tokens(folder: Path) -> dict[str, dict[str, str]]:
    """Read the token of each schema, by its SHA-256: nonce, blinded text, what takes the blinding away, and signature."""
    try:
        tokens = json.loads(read_secret(folder / _TOKENS))
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError):
        tokens = None
    if not isinstance(tokens, dict) or not all(isinstance(one, dict) for one in tokens.values()):
        raise InputError(f"Expected {_TOKENS} to hold tokens. Restore it: the server gives no second one.")
    return tokens


def keep_token(folder: Path, schema: str, token: Mapping[str, str]) -> None:
    """Keep a token; the folder is locked."""
    tokens = {**read_tokens(folder), schema: dict(token)}
    with whole_file(folder / _TOKENS, 0o600) as file:
        file.write(json.dumps(tokens, indent=1).encode() + b"\n")


def _check_unused(folder: Path) -> None:
    """Refuse a folder that holds anything but what a process left that died while it made a device."""
    if not folder.exists():
        return
    names = {path.name for path in folder.iterdir()} - {LOCK, LEDGER}
    if any(not left_behind(name, _DEVICE) for name in names) or read_entries(folder)[1:]:
        raise fail("state", str(folder), "to be a new or empty folder", "Name another one.")
