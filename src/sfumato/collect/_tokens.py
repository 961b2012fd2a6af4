r"""One-time tokens: a server signs one for each enrolled device without seeing it, so that a report needs no name.

These are the RSA blind signatures of RFC 9474, variant RSABSSA-SHA384-PSSZERO-Deterministic. A device draws a secret number,
the *nonce*, of 32 bytes. The server signs a *blinded* text: the text of the nonce times :math:`r^e` modulo n for a random unit r.
The device takes r away again, and checks the signature under the key that stands in the schema. What follows:

* Whoever signed cannot tell, with any computing power, which of the devices that got a token shows it later. Units r are drawn
  uniformly, so :math:`r^e` is uniform among the e-th powers of units. A token that is shown has a text that is a unit
  (:meth:`Token.blind` refuses another one) and, as it has a signature, an e-th power: so its blinded text was uniform among
  them, whatever the nonce is. This holds for every modulus, also a false one.
* A text that is no unit would be recognized: it shares a factor with n, and so does its blinded text, the same one. Under an
  honest key that never happens. A modulus with a prime factor below 2^16 is refused before (:func:`is_key`).
* The text holds the SHA-256 of the schema, so a token is for one collection. Whoever signs does not see for which one, so a key
  must serve one collection alone: with one key for two, a user of both gets two tokens of either. `sfumato collect init` makes a
  new key each time.
* Each nonce has one signature (there is no salt), and a device gets one, so it has one token. To make another one is to forge
  RSA signatures of a full-domain hash; to ask for many in parallel does not help (Bellare, Namprempre, Pointcheval and Semanko,
  2003).
* A key that is no permutation tells whether the text is an e-th power. If it is none, there is no signature, and the device sends
  nothing.

The name of a token is a hash of nonce and signature. It stands where a report has the user id. So reports are in an order that
says nothing, hashes of reports are other ones for each token and can be chosen by nobody, and a token that is shown twice is
the same report, or refused.

>>> key = TokenKey.new()
>>> token = Token.draw()
>>> blinded, inverse = token.blind(key.public, bytes(32))
>>> signed = token.finished(key.public, bytes(32), key.sign(blinded), inverse)
>>> signed.is_valid(key.public, bytes(32)), len(signed.name)
(True, 64)
"""

from __future__ import annotations

import hashlib
import math
import secrets
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from sfumato._files import read_secret, whole_file
from sfumato.errors import InputError

NONCE_BYTES, EXPONENT, BITS = 32, 65537, 2048
_MOST_BITS, _SMALL = 4096, 1 << 16
_TEXT, _NAME = b"sfumato token 1\0", b"sfumato token name 1\0"
_HASH, _HASH_BYTES = hashlib.sha384, 48


@dataclass(frozen=True)
class Token:
    """A token of one device: the nonce, and its signature once the server has given it. Both are secret until it is spent."""

    nonce: bytes = field(repr=False)
    signature: bytes = field(default=b"", repr=False)

    @classmethod
    def draw(cls) -> Token:
        return cls(secrets.token_bytes(NONCE_BYTES))

    def blind(self, public: int, digest: bytes) -> tuple[bytes, int]:
        """Return what the server signs, and the number that takes the blinding away; ``digest`` is that of the schema.

        Raises:
            InputError: the text shares a factor with the modulus, by which the server would recognize the token.
        """
        text = _text(digest, self.nonce)
        if math.gcd(_number(text, public), public) != 1:
            raise InputError(
                "Expected token_key to be the product of two large primes, got one that shares a factor with a token, by which "
                "the server could recognize it. Nothing was drawn or sent. Do not answer this survey; tell others who are asked."
            )
        while True:
            factor = secrets.randbelow(public - 1) + 1
            if math.gcd(factor, public) == 1:
                return blinded(text, public, factor), pow(factor, -1, public)

    def finished(self, public: int, digest: bytes, signed: bytes, inverse: int) -> Token:
        """Return the token with the signature that the server gave, after the blinding is taken away.

        Raises:
            InputError: the server signed something else, or its key is none.
        """
        token = replace(self, signature=unblinded(signed, public, inverse))
        if not token.is_valid(public, digest):
            raise InputError(
                "Expected the signature of a token, got another one. Nothing was drawn. Tell the operator."
            )
        return token

    def is_valid(self, public: int, digest: bytes) -> bool:
        return len(self.nonce) == NONCE_BYTES and verify(_text(digest, self.nonce), public, self.signature)

    @property
    def name(self) -> str:
        """What stands in place of a user id in the report that this token is for: 64 hexadecimal digits."""
        return hashlib.sha256(_NAME + self.nonce + self.signature).hexdigest()


@dataclass(frozen=True)
class TokenKey:
    """The secret key that signs tokens of one schema. Whoever has it can send any number of reports."""

    key: rsa.RSAPrivateKey = field(repr=False)

    @classmethod
    def new(cls) -> TokenKey:
        return cls(rsa.generate_private_key(EXPONENT, BITS))

    @classmethod
    def read(cls, path: Path) -> TokenKey:
        try:
            key = serialization.load_pem_private_key(read_secret(path), None)
        except (ValueError, TypeError) as error:
            raise InputError(f"Expected {path.name} to hold a token key, got something else. Restore it.") from error
        if isinstance(key, rsa.RSAPrivateKey):
            public = key.public_key().public_numbers()
            if public.e == EXPONENT and is_key(public.n):
                return cls(key)
        raise InputError(
            f"Expected {path.name} to hold an RSA key of {BITS:,} to {_MOST_BITS:,} bits with the exponent {EXPONENT}, got "
            "another. Restore it."
        )

    def write(self, path: Path) -> None:
        """Write the key to a file that only its owner can read."""
        form = serialization.PrivateFormat.PKCS8
        text = self.key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
        with whole_file(path, 0o600) as file:
            file.write(text)

    @property
    def public(self) -> int:
        """The modulus, which the schema names."""
        return self.key.public_key().public_numbers().n

    def sign(self, text: bytes) -> bytes:
        """Sign a blinded text, in a time that does not follow from it: a random number is multiplied in and taken out.

        Raises:
            InputError: it is no number below the modulus with an inverse, of the length of the modulus.
        """
        own = self.key.private_numbers()
        n = own.public_numbers.n
        number = check_blinded(text, n)
        factor = secrets.randbelow(n - 2) + 2
        hidden = number * pow(factor, EXPONENT, n) % n
        one, other = pow(hidden % own.p, own.dmp1, own.p), pow(hidden % own.q, own.dmq1, own.q)
        root = (other + own.q * ((one - other) * own.iqmp % own.p)) * pow(factor, -1, n) % n
        if pow(root, EXPONENT, n) != number:  # a fault of the machine would tell the key
            raise InputError("Expected this machine to multiply numbers rightly, got another result. Replace it.")
        return root.to_bytes(size(n), "big")


def size(public: int) -> int:
    """Return how many bytes a blinded text and a signature have."""
    return (public.bit_length() + 7) // 8


def is_key(public: int) -> bool:
    """Tell whether a modulus has the form of one: of 2,048 to 4,096 bits, whole bytes, and no prime factor below 2^16.

    A modulus of small primes has a part in common with almost every text, and so tells tokens apart.
    """
    if not BITS <= public.bit_length() <= _MOST_BITS or public.bit_length() % 8:
        return False
    return math.gcd(public, _small_primes()) == 1


def check_blinded(text: bytes, public: int) -> int:
    """Return the number that a blinded text is.

    Raises:
        InputError: it is no number below the modulus with an inverse, of the length of the modulus.
    """
    number = int.from_bytes(text, "big")
    if len(text) != size(public) or not 1 < number < public or math.gcd(number, public) != 1:
        raise InputError("Expected a blinded token as a number below the key, got another. Update the client.")
    return number


def blinded(text: bytes, public: int, factor: int) -> bytes:
    number = _number(text, public)
    return (number * pow(factor, EXPONENT, public) % public).to_bytes(size(public), "big")


def unblinded(signed: bytes, public: int, inverse: int) -> bytes:
    return (int.from_bytes(signed, "big") * inverse % public).to_bytes(size(public), "big")


def verify(text: bytes, public: int, signature: bytes) -> bool:
    if len(signature) != size(public):
        return False
    try:
        _public(public).verify(signature, text, padding.PSS(padding.MGF1(hashes.SHA384()), 0), hashes.SHA384())
    except InvalidSignature:
        return False
    return True


def encoded(text: bytes, bits: int) -> bytes:
    """Encode a text by EMSA-PSS (RFC 8017, section 9.1.1) with SHA-384, MGF1 and no salt, in so many bits."""
    length = (bits + 7) // 8
    digest = _HASH(bytes(8) + _HASH(text).digest()).digest()
    padded = bytes(length - _HASH_BYTES - 2) + b"\1"
    mask = b"".join(_HASH(digest + i.to_bytes(4, "big")).digest() for i in range(-(-len(padded) // _HASH_BYTES)))
    masked = bytearray(one ^ other for one, other in zip(padded, mask, strict=False))
    masked[0] &= 0xFF >> (8 * length - bits)
    return bytes(masked) + digest + b"\xbc"


def _text(digest: bytes, nonce: bytes) -> bytes:
    return _TEXT + digest + nonce


def _number(text: bytes, public: int) -> int:
    return int.from_bytes(encoded(text, public.bit_length() - 1), "big")


@lru_cache(maxsize=1)
def _small_primes() -> int:
    """The product of all primes below 2^16."""
    marks = bytearray([0, 0]) + bytearray([1]) * (_SMALL - 2)
    for step in range(2, math.isqrt(_SMALL) + 1):
        marks[step * step :: step] = bytes(len(marks[step * step :: step]))
    return math.prod(number for number, is_prime in enumerate(marks) if is_prime)


@lru_cache(maxsize=8)
def _public(public: int) -> rsa.RSAPublicKey:
    return rsa.RSAPublicNumbers(EXPONENT, public).public_key()
