"""Files that a server signs: a line of canonical JSON, and a line with its Ed25519 signature. And what is sealed to a server.

The key that signs lasts. The key that shares are sealed to belongs to one agreement, and is erased at its end.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from sfumato.collect._keys import ServerKey, is_strong
from sfumato.errors import DataError, InputError
from sfumato.record.ledger import canonical_json

SEALED_MORE = 32 + 16
_SIGNED = b"sfumato two servers file 1\0"
_COMMITMENT, _KEY = b"sfumato two servers commitment 1\0", b"sfumato two servers key 1\0"
_NONCE = bytes(12)  # every sealing has a key of its own


@dataclass(frozen=True)
class Operator:
    """The lasting secret of one server: it signs what the server says, and gives enrolment codes. Nothing is sealed to it."""

    key: ServerKey

    @cached_property
    def _signer(self) -> Ed25519PrivateKey:
        derived = HKDF(hashes.SHA256(), 32, None, b"sfumato two servers sign 1").derive(self.key.secret)
        return Ed25519PrivateKey.from_private_bytes(derived)

    @cached_property
    def sign_key(self) -> bytes:
        """The public key that checks what this server says, 32 bytes."""
        return self._signer.public_key().public_bytes_raw()

    def signed(self, body: dict[str, Any]) -> bytes:
        """Return a file that says this, with the signature."""
        text = canonical_json(body).encode()
        return text + b"\n" + self.signature(text).hex().encode() + b"\n"

    def signature(self, text: bytes) -> bytes:
        """Return the signature of a text, 64 bytes."""
        return self._signer.sign(_SIGNED + text)


@dataclass(frozen=True)
class SealKey:
    """The secret key to which shares of one agreement are sealed, 32 bytes: without it nobody reads a share, sent or stored."""

    secret: bytes = field(repr=False)

    @classmethod
    def new(cls) -> SealKey:
        """Draw one; an agreement needs its own."""
        return cls(X25519PrivateKey.generate().private_bytes_raw())

    @cached_property
    def public(self) -> bytes:
        """The public key, 32 bytes, which the agreement names."""
        return X25519PrivateKey.from_private_bytes(self.secret).public_key().public_bytes_raw()

    @cached_property
    def _stored(self) -> ChaCha20Poly1305:
        return ChaCha20Poly1305(HKDF(hashes.SHA256(), 32, None, b"sfumato stored share 1").derive(self.secret))

    def unsealed(self, sealed: bytes, header: bytes) -> bytes:
        """Return what :func:`seal` sealed to this key with this header.

        Raises:
            InputError: it was sealed to another server, with another header, or changed.
        """
        key = _agreed(self.secret, sealed[:32], sealed[:32] + self.public)
        try:
            return ChaCha20Poly1305(key).decrypt(_NONCE, sealed[32:], header)
        except InvalidTag:
            raise InputError(
                "Expected a share that was sealed to this server for this user, got another one. Send what the client stored."
            ) from None

    def shut(self, share: bytes, user: str) -> bytes:
        """Encrypt a share for the book: where a disk keeps traces of what was deleted, they are worth nothing without the key."""
        nonce = os.urandom(12)
        return nonce + self._stored.encrypt(nonce, share, user.encode())

    def opened(self, stored: bytes, user: str) -> bytes:
        """Return the share that :meth:`shut` encrypted.

        Raises:
            DataError: the book was changed.
        """
        try:
            return self._stored.decrypt(stored[:12], stored[12:], user.encode())
        except InvalidTag:
            raise DataError(
                "Expected the share that this server stored, got another one: its book is damaged. Begin again."
            ) from None


def seal(text: bytes, header: bytes, server: bytes) -> bytes:
    """Encrypt to a server with the public key ``server``, such that it opens with this header alone."""
    once = X25519PrivateKey.generate()
    public = once.public_key().public_bytes_raw()
    key = _agreed(once.private_bytes_raw(), server, public + server)
    return public + ChaCha20Poly1305(key).encrypt(_NONCE, text, header)


def read_signed(data: bytes, sign_key: bytes, expected: dict[str, Any]) -> dict[str, Any]:
    """Read a file of a server, and check its signature and the entries that are known before.

    Raises:
        DataError: it is malformed, has another signature or says something else.
    """
    text, _, rest = data.partition(b"\n")
    if not is_signed(text, rest.removesuffix(b"\n"), sign_key) or rest[-1:] != b"\n":
        raise DataError("Expected a file that the other server signed, got another one. Ask its operator for it again.")
    try:
        body = json.loads(text)
        right = isinstance(body, dict) and canonical_json(body).encode() == text
    except (ValueError, RecursionError):
        right = False
    if not right:
        raise DataError("Expected canonical JSON with the signature, got something else.")
    for name, value in expected.items():
        if not alike(body.get(name), value):
            raise DataError(
                f"Expected a file with {name} = {str(value)[:40]}, got {str(body.get(name))[:40]}. It belongs elsewhere."
            )
    return dict(body)


def alike(one: Any, other: Any) -> bool:
    """Tell whether two values are one in JSON. In Python 1, 1.0 and True are equal, and would be three forms of one file."""
    return canonical_json(one) == canonical_json(other)


def commitment(server: int, half: bytes) -> str:
    """Return what a server tells the other before either shows its half of the verification key, 32 secret random bytes."""
    return hashlib.sha256(_COMMITMENT + bytes([server]) + half).hexdigest()


def joint_key(halves: tuple[bytes, bytes], commitments: tuple[str, str]) -> bytes:
    """Return the verification key of both halves, 32 bytes. Servers keep it to themselves; the agreement names its SHA-256.

    Raises:
        DataError: a half is not the one that its server had committed to.
    """
    if [commitment(server, half) for server, half in enumerate(halves)] != list(commitments):
        raise DataError(
            "Expected the halves of the key that both servers had committed to, got another one. Begin again."
        )
    return hashlib.sha256(_KEY + b"".join(halves)).digest()


def is_signed(text: bytes, signature: bytes, sign_key: bytes) -> bool:
    """Tell whether this is the signature of a text, in hexadecimal digits."""
    try:
        Ed25519PublicKey.from_public_bytes(sign_key).verify(bytes.fromhex(signature.decode("ascii")), _SIGNED + text)
    except (InvalidSignature, ValueError):
        return False
    return signature == signature.lower() and len(signature) == 128 and is_strong(sign_key)


def strong_key(sign_key: bytes) -> bool:
    """Tell whether its owner alone can sign under this key."""
    return len(sign_key) == 32 and is_strong(sign_key)


def can_seal(public: bytes) -> bool:
    """Tell whether what is sealed to this key is for its owner alone: a point of small order leads everybody to one secret."""
    try:
        X25519PrivateKey.generate().exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        return False
    return True


def _agreed(secret: bytes, public: bytes, both: bytes) -> bytes:
    try:
        agreed = X25519PrivateKey.from_private_bytes(secret).exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError as error:
        raise InputError("Expected a public X25519 key of 32 bytes, got one that leads to no secret.") from error
    return HKDF(hashes.SHA256(), 32, None, b"sfumato sealed share 1\0" + both).derive(agreed)
