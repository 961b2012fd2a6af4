"""Signatures of the verifier: Ed25519 keys that bind a signer, and what they signed.

A key of small order accepts one signature for every message, and a second spelling of a point is a second name for one key:
both are refused before any signature is read.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from ._documents import parse
from ._folder import VerifyInputError

_P = 2**255 - 19
_D = -121665 * pow(121666, -1, _P) % _P
_ORDER = 2**252 + 27742317777372353535851937790883648493


def binds(key: bytes) -> bool:
    """Return whether a key is the only spelling of a point that is not of small order.

    On the curve :math:`x^2 = (y^2 - 1) / (d y^2 + 1)`, and twice a point has :math:`y' = (y^2 + x^2) / (1 - d x^2 y^2)`.
    Eight times one of the 8 points of small order is (0, 1), and of no other. Both points with x = 0 are among them, so
    a sign of zero, which would be a second spelling, is refused with them.

    >>> binds(bytes(32)), binds(bytes([3]) + bytes(31))
    (False, True)
    """
    y = int.from_bytes(key, "little") & (2**255 - 1)
    if y >= _P:
        return False
    for _ in range(3):
        x_squared = (y * y - 1) * pow(_D * y * y + 1, _P - 2, _P) % _P
        y = (y * y + x_squared) * pow(1 - _D * x_squared * y * y, _P - 2, _P) % _P
    return y != 1


def signs(key: bytes, signature: bytes, message: bytes) -> bool:
    """Return whether ``signature`` is that of ``key`` for the ``message``, in its only spelling."""
    if int.from_bytes(signature[32:], "little") >= _ORDER:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def fingerprint(key: str) -> str:
    """Return the SHA-256 of a key of 64 hexadecimal digits.

    >>> fingerprint("00" * 32)[:23]
    'SHA256:66687aadf862bd77'
    """
    return "SHA256:" + hashlib.sha256(bytes.fromhex(key)).hexdigest()


def read_key(path: Path) -> bytes:
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


def read_signature(contents: dict[str, bytes], expected_key: bytes | None, problems: list[str]) -> bytes | None:
    """Return the key whose signature holds, or None."""
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
