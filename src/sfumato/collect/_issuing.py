"""The desk of one-time tokens at a server: it signs one for each enrolled device, and sees none of them."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from sfumato.collect._intake import read_users
from sfumato.collect._refusals import GOOD, RefusalError, gone, not_taken
from sfumato.collect._store import Asked
from sfumato.collect._tokens import check_blinded
from sfumato.collect._wire import check_user
from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.collect._intake import Intake
    from sfumato.collect._schema import Schema
    from sfumato.collect._store import Answer
    from sfumato.collect._tokens import TokenKey

MOST_BYTES = 1 << 12
_FIELDS = {"user", "blinded", "signature"}


class Issuing:
    """The tokens of one collection, or none where reports are signed by the devices of their users."""

    def __init__(self, schema: Schema, intake: Intake, key: TokenKey | None) -> None:
        if (schema.anonymous and schema.anonymous.public) != (key and key.public):
            raise InputError(
                "Expected the token key whose public part stands in the schema, got another. Use its file."
            )
        self._intake, self._key = intake, key

    def check_named(self) -> None:
        """Refuse what names a user beside a report where reports are anonymous."""
        if self._key is not None:
            raise RefusalError(400, "Expected an anonymous report at /reports, got a call that names its user.")

    def asked(self, body: bytes) -> tuple[Asked, bytes]:
        """Check a request for a token by the keys in the store; return it with the blinded text. This takes milliseconds."""
        if self._key is None:
            raise RefusalError(400, "Expected a collection with anonymous uploads, got another. Send signed reports.")
        values = read_users(body)
        if (
            not isinstance(values, dict)
            or set(values) != _FIELDS
            or not all(isinstance(one, str) for one in values.values())
        ):
            raise _malformed()
        try:
            user = check_user(values["user"])
            blinded, signature = (bytes.fromhex(values[name]) for name in ("blinded", "signature"))
        except (InputError, ValueError) as error:
            raise _malformed() from error
        try:  # before anything is written of this user, who gets one token
            check_blinded(blinded, self._key.public)
        except InputError as error:
            raise RefusalError(422, str(error)) from error
        generation = self._intake.asker(user, blinded, signature)
        return Asked(user, hashlib.sha256(blinded).digest(), generation), blinded

    def signed(self, asked: Asked, answer: Answer, blinded: bytes) -> str:
        """Sign what was ``asked`` for once it is on disk that this user gets no other token."""
        if answer == "closed":
            raise gone()
        if answer not in GOOD:
            raise not_taken(asked.user, answer, "token")
        assert self._key is not None
        return self._key.sign(blinded).hex()


def _malformed() -> RefusalError:
    return RefusalError(422, "Expected an object with user, blinded and signature. Update the client.")
