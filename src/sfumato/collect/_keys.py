r"""Keys of a collection: devices sign their reports, and share a secret with the server for reports that come in batches.

A device has an Ed25519 key to sign with and an X25519 key. From the latter and the server's X25519 key, which stands in the
schema, both sides derive one secret for message authentication codes (HKDF-SHA256). The server's private key also gives
enrolment codes: without the code of a user id nobody can enrol that id.

Nothing here protects values: that is what randomizers do. Keys say who may report, once.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from sfumato._files import read_secret, whole_file
from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.collect._contract import Contract

SIGNATURE_BYTES, MAC_BYTES, KEY_BYTES = 64, 32, 32
_REPORT, _BATCH, _WITHDRAWAL = b"sfumato report 1\0", b"sfumato batch 1\0", b"sfumato withdrawal 1\0"
_ASKED = b"sfumato asked token 1\0"
_P = 2**255 - 19
_OF_ORDER_8 = int.from_bytes(
    bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little"
)
_WEAK = frozenset(
    (0, 1, _P - 1, _OF_ORDER_8, _P - _OF_ORDER_8)
)  # the second coordinates of the eight points of small order


@dataclass(frozen=True)
class DeviceKeys:
    """The secret keys of one device: 32 bytes to sign with, 32 bytes to agree on a shared secret with."""

    signing: bytes = field(repr=False)
    agreeing: bytes = field(repr=False)

    @classmethod
    def new(cls) -> DeviceKeys:
        return cls(Ed25519PrivateKey.generate().private_bytes_raw(), X25519PrivateKey.generate().private_bytes_raw())

    @cached_property
    def sign_key(self) -> bytes:
        """The public key that checks signatures, 32 bytes."""
        return self._signer.public_key().public_bytes_raw()

    @cached_property
    def agree_key(self) -> bytes:
        """The public key from which the server derives the shared secret, 32 bytes."""
        return X25519PrivateKey.from_private_bytes(self.agreeing).public_key().public_bytes_raw()

    @cached_property
    def _signer(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.signing)

    def sign(self, message: bytes) -> bytes:
        return self._signer.sign(_REPORT + message)

    def sign_withdrawal(self, message: bytes, code: str) -> bytes:
        """Return the signature with which the user takes this report back, 64 bytes; it ends with the enrolment ``code``."""
        return self._signer.sign(_withdrawn(message, code))

    def sign_asked(self, digest: bytes, blinded: bytes) -> bytes:
        """Return the signature with which a device asks for a token of the schema of this ``digest``, 64 bytes."""
        return self._signer.sign(_ASKED + digest + blinded)

    def sign_batch(self, batch: bytes) -> bytes:
        return self._signer.sign(_BATCH + batch)

    def mac_key(self, server_key: bytes, user: str) -> bytes:
        return _shared(self.agreeing, server_key, user)


@dataclass(frozen=True)
class ServerKey:
    """The secret key of a server, 32 bytes. Whoever has it can make reports in the name of any user that sends in batches."""

    secret: bytes = field(repr=False)

    @classmethod
    def new(cls) -> ServerKey:
        return cls(X25519PrivateKey.generate().private_bytes_raw())

    @classmethod
    def read(cls, path: Path) -> ServerKey:
        text = read_secret(path).strip()
        try:
            secret = bytes.fromhex(text.decode("ascii"))
        except (ValueError, UnicodeDecodeError):
            secret = b""
        if len(secret) != KEY_BYTES:
            raise InputError(f"Expected {path.name} to hold a server key of 64 hexadecimal digits, got something else.")
        return cls(secret)

    def write(self, path: Path) -> None:
        """Write the key to a file that only its owner can read."""
        with whole_file(path, 0o600) as file:
            file.write(self.secret.hex().encode() + b"\n")

    @cached_property
    def public(self) -> bytes:
        """The public key, 32 bytes, which the schema names."""
        return X25519PrivateKey.from_private_bytes(self.secret).public_key().public_bytes_raw()

    def mac_key(self, agree_key: bytes, user: str) -> bytes:
        return _shared(self.secret, agree_key, user)

    def code(self, schema: Contract, user: str, generation: int = 0) -> str:
        """Return an enrolment code: 32 hexadecimal digits, which the operator hands to one user alone."""
        text = schema.digest + user.encode() + (b"\0%d" % generation if generation else b"")  # no id holds a zero
        return hmac.new(self._enrolling, text, hashlib.sha256).hexdigest()[:32]

    @cached_property
    def _enrolling(self) -> bytes:
        return HKDF(hashes.SHA256(), 32, None, b"sfumato enrolment 1").derive(self.secret)


def is_strong(sign_key: bytes) -> bool:
    """Tell whether only the owner of a secret key can sign under an Ed25519 public key: not so under points of small order.

    Another encoding of a point than the canonical one is refused, too; ``sign_key`` has 32 bytes.
    """
    second = int.from_bytes(sign_key, "little") & (1 << 255) - 1
    return second < _P and second not in _WEAK


def verify(sign_key: bytes, message: bytes, signature: bytes, *, withdrawal: str | None = None) -> bool:
    """Tell whether ``signature`` is that of ``message``, a report, under the public key ``sign_key``.

    Or whether it is that of its ``withdrawal`` under this enrolment code.
    """
    signed = _REPORT + message if withdrawal is None else _withdrawn(message, withdrawal)
    return _verified(sign_key, signed, signature)


def verify_batch(sign_key: bytes, batch: bytes, signature: bytes) -> bool:
    return _verified(sign_key, _BATCH + batch, signature)


def verify_asked(sign_key: bytes, digest: bytes, blinded: bytes, signature: bytes) -> bool:
    return _verified(sign_key, _ASKED + digest + blinded, signature)


def mac(key: bytes, message: bytes) -> bytes:
    """Compute the authentication code of one report in a batch, 32 bytes."""
    return hmac.digest(key, _REPORT + message, "sha256")


def same(code: bytes | str, other: bytes | str) -> bool:
    """Tell whether two codes are equal, in a time that does not depend on where they differ."""
    one, two = (value.encode(errors="surrogatepass") if isinstance(value, str) else value for value in (code, other))
    return hmac.compare_digest(one, two)


def _withdrawn(message: bytes, code: str) -> bytes:
    return _WITHDRAWAL + code.encode() + b"\0" + message


def _verified(sign_key: bytes, text: bytes, signature: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(sign_key).verify(signature, text)
    except (InvalidSignature, ValueError):
        return False
    return is_strong(sign_key)


def _shared(secret: bytes, public: bytes, user: str) -> bytes:
    try:
        agreed = X25519PrivateKey.from_private_bytes(secret).exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError as error:
        raise InputError("Expected a public X25519 key of 32 bytes, got one that leads to no secret.") from error
    return HKDF(hashes.SHA256(), 32, None, b"sfumato report codes 1\0" + user.encode()).derive(agreed)
