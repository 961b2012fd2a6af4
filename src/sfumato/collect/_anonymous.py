"""What makes a collection anonymous: its schema names the key of one-time tokens and a least number of reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sfumato._validate import check_int
from sfumato.collect._tokens import is_key
from sfumato.errors import InputError, SchemaError

UPLOAD, LEAST, KEY = "upload", "least_reports", "token_key"
FIELDS = (UPLOAD, LEAST, KEY)
_ANONYMOUS, _USUAL, _FEWEST, _MOST = "anonymous", 1000, 100, 10**9
STATEMENT = (
    "It is sent without your name: a one-time token that the server signed without seeing it shows that you may answer, and not "
    "who you are. Whoever runs the server is trusted not to note addresses and times of reports, and nothing is computed before "
    "there are {:,} reports. Compare the SHA-256 below with the one that is published for everybody: a server that gave you "
    "a schema of your own would know which report is yours. What this promises "
    "on top of the cost above holds under these conditions alone."
)


@dataclass(frozen=True)
class Anonymous:
    """The settings of anonymous uploads: the fewest reports of which anything is computed, and the public key of tokens."""

    least_reports: int
    token_key: str

    def __post_init__(self) -> None:
        try:
            check_int(low=_FEWEST, high=_MOST, least_reports=self.least_reports)
        except InputError as error:
            raise SchemaError(str(error)) from error
        key = self.token_key
        if not isinstance(key, str) or set(key) - set("0123456789abcdef") or not is_key(int(key or "0", 16)):
            raise SchemaError(
                "Expected token_key to be the modulus of an RSA key in hexadecimal digits, a product of large primes. Use "
                "`sfumato collect init`."
            )

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Anonymous | None:
        """Read it from the fields of a schema; None where uploads are by the keys of devices.

        Raises:
            SchemaError: a field is missing, malformed or unknown.
        """
        if not any(name in values for name in FIELDS):
            return None
        if values.get(UPLOAD) != _ANONYMOUS:
            raise SchemaError(
                'Expected upload = "anonymous" beside least_reports, or neither of them, got something else.'
            )
        if KEY not in values:
            raise SchemaError("Expected token_key with anonymous uploads, got none. Use `sfumato collect init`.")
        return cls(values.get(LEAST, _USUAL), values[KEY])

    @cached_property
    def public(self) -> int:
        """The modulus of the key."""
        return int(self.token_key, 16)

    def to_dict(self) -> dict[str, Any]:
        return {UPLOAD: _ANONYMOUS, LEAST: self.least_reports, KEY: self.token_key}

    def describe(self) -> str:
        return STATEMENT.format(self.least_reports)
