"""The checks between what a device sends and the store: who it is, whether it has the keys, and whether the form is canonical."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from sfumato.collect import _keys as keys
from sfumato.collect import _wire as wire
from sfumato.collect._batch import MAGIC as BATCH_MAGIC
from sfumato.collect._batch import Batch, LongBatchError, decode_batch
from sfumato.collect._keys import DeviceKeys
from sfumato.collect._refusals import RefusalError, no_code, unproved
from sfumato.collect._store import Enrolment, Store, Upload
from sfumato.collect._stored import Keys
from sfumato.collect._tokens import NONCE_BYTES, Token, size
from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.collect._audit import Standing
    from sfumato.collect._keys import ServerKey
    from sfumato.collect._schema import Schema
    from sfumato.collect._store import Answer

MOST_USERS = 1_000
MOST_KNOWN = 1 << 19
_HEX = re.compile("[0-9a-f]{64}")
_FIELDS = {"user", "sign_key", "agree_key", "code"}


class Intake:
    """The checks of one collection. Threads may share it.

    Who is enrolled is a secret. So where a signature or code is wrong, the answer is one and the same for a user who is not
    enrolled, and so is the work: keys of nobody are checked then, the store is read, and keys are checked once more.
    """

    def __init__(self, schema: Schema, store: Store, server_key: ServerKey) -> None:
        self._schema, self._store, self._server_key = schema, store, server_key
        self._known = _Recent()  # public keys of a user: 32 bytes to sign and 32 to agree
        self._derived = _Recent()  # to derive a secret takes longer than to check a report
        nobody = DeviceKeys.new()
        self._nobody = Keys(nobody.sign_key, nobody.agree_key)

    @property
    def most_bytes(self) -> int:
        return wire.most_bytes(self._schema) + self._proof_bytes

    @property
    def _proof_bytes(self) -> int:
        """How many bytes stand behind the message of a report: a signature of its device, or a token."""
        anonymous = self._schema.anonymous
        return keys.SIGNATURE_BYTES if anonymous is None else NONCE_BYTES + size(anonymous.public)

    def enrolments(self, asked: Sequence[Any]) -> list[Enrolment | RefusalError]:
        """Check users, keys and codes, which may read the store: 422 refuses what is malformed, 403 a wrong code."""
        read = [self._form(values) for values in asked]
        forms = [one for one in read if not isinstance(one, RefusalError)]
        others = [one.user for one, code in forms if not self._is_code(one, code)]
        again = self._store.standing(others) if others else {}
        return [one if isinstance(one, RefusalError) else self._enrolment(*one, again) for one in read]

    def _form(self, values: Any) -> tuple[Enrolment, object] | RefusalError:
        if not isinstance(values, dict) or set(values) != _FIELDS:
            return RefusalError(422, "Expected an object with user, sign_key, agree_key and code. Update the client.")
        user, sign_key, agree_key, code = (values[name] for name in ("user", "sign_key", "agree_key", "code"))
        if not all(isinstance(key, str) and _HEX.fullmatch(key) for key in (sign_key, agree_key)):
            return RefusalError(422, "Expected sign_key and agree_key as 64 hexadecimal digits in small letters each.")
        try:
            return Enrolment(wire.check_user(user), Keys(bytes.fromhex(sign_key), bytes.fromhex(agree_key))), code
        except InputError as error:
            return RefusalError(422, str(error))

    def _enrolment(self, one: Enrolment, code: object, standings: Mapping[str, Standing]) -> Enrolment | RefusalError:
        """The user with the keys, if the code is the one that counts; the store checks again that it does."""
        if one.user in standings:
            one = Enrolment(one.user, one.keys._replace(generation=standings[one.user].generation))
        if not self._is_code(one, code):
            return no_code(one.user)
        if not keys.is_strong(one.keys.sign_key):
            detail = "Expected sign_key to be an Ed25519 key that a device drew, got a point that no secret key has."
            return RefusalError(422, detail, user=one.user)
        try:
            self._derive(one.keys, one.user)
        except InputError as error:
            return RefusalError(422, str(error), user=one.user)
        return one

    def _is_code(self, one: Enrolment, code: object) -> bool:
        expected = self._server_key.code(self._schema, one.user, one.keys.generation)
        return isinstance(code, str) and keys.same(expected, code)

    def report_at_hand(self, body: bytes, user: str, *, withdrawal: bool = False) -> Upload | None:
        """Check the upload of one report by the keys at hand, without the store; None leaves it to :meth:`report`."""
        if self._schema.anonymous is not None:
            return self._with_token(body, user)
        message, signature = body[: -keys.SIGNATURE_BYTES], body[-keys.SIGNATURE_BYTES :]
        own = self._at_hand(user)
        code = self._server_key.code(self._schema, user, own.generation) if withdrawal else None
        if not keys.verify(own.sign_key, message, signature, withdrawal=code):
            return None
        self._decode(message)
        return Upload(user, message, signature, own.generation)

    def _with_token(self, body: bytes, name: str) -> Upload:
        """Check the upload of an anonymous report, whose ``name`` is that of its token."""
        assert self._schema.anonymous is not None
        message, proof = body[: -self._proof_bytes], body[-self._proof_bytes :]
        token = Token(proof[:NONCE_BYTES], proof[NONCE_BYTES:])
        if token.name != name or not token.is_valid(self._schema.anonymous.public, self._schema.digest):
            raise RefusalError(403, "Expected a token of this collection, got none. Nothing was stored. Ask for one.")
        self._decode(message)
        return Upload(name, message, proof)

    def asker(self, user: str, blinded: bytes, signature: bytes) -> int:
        """Return the generation of the keys with which a device asks for a token; this reads the store."""
        self._read([user])
        own = self._at_hand(user)
        if not keys.verify_asked(own.sign_key, self._schema.digest, blinded, signature):
            raise unproved("signature", user)
        return own.generation

    def report(self, body: bytes, user: str, *, withdrawal: bool = False) -> Upload:
        """Check the upload of one report by the keys in the store. This takes milliseconds."""
        self._read([user])
        upload = self.report_at_hand(body, user, withdrawal=withdrawal)
        if upload is None:
            raise unproved("signature", user)
        return upload

    def user_of(self, body: bytes) -> str:
        self._check_schema(body, wire.MAGIC)
        try:
            return wire.split(self._schema, body[: -self._proof_bytes])[0]
        except wire.WireError as error:
            raise RefusalError(400, str(error)) from error

    def batch(self, body: bytes) -> CheckedBatch:
        """Check a batch and each of its reports. This may read the store, and takes milliseconds."""
        self._check_schema(body, BATCH_MAGIC)
        try:
            found = decode_batch(self._schema, body)
        except LongBatchError as error:
            raise RefusalError(413, str(error)) from error
        except wire.WireError as error:
            raise RefusalError(400, str(error)) from error
        if not self._is_signed(found) or self._is_stale(found.sender):
            self._read([found.sender])
            if not self._is_signed(found):
                raise unproved("signature", found.sender)
        return self._checked(found)

    def add(self, uploads: Sequence[Upload]) -> list[Answer]:
        """Add checked reports to the store, and say of each what became of it.

        A report under keys that were revoked is checked once more, by the keys in the store: its user may have enrolled again
        since those at hand were read, through another server.
        """
        answers = self._store.add(uploads)
        stale = [place for place, answer in enumerate(answers) if answer == "revoked"]
        self._read({uploads[place].user for place in stale})
        again = {place: found for place in stale if (found := self._again(uploads[place])) is not None}
        if again:
            for place, answer in zip(again, self._store.add(list(again.values())), strict=True):
                answers[place] = answer
        return answers

    def remember(self, found: Mapping[str, Keys]) -> None:
        """Keep the keys of enrolled users at hand; the older half is forgotten where these are too many."""
        self._known.keep({user.encode(): _packed(own) for user, own in found.items()})

    def _again(self, upload: Upload) -> Upload | None:
        """The report under the keys at hand, if these are others than before and prove it, too."""
        own = self._at_hand(upload.user)
        if own.generation == upload.generation:
            return None
        if len(upload.proof) == keys.SIGNATURE_BYTES:
            proved = keys.verify(own.sign_key, upload.message, upload.proof)
        else:
            secret = self._server_key.mac_key(own.agree_key, upload.user)
            proved = self._is_coded(secret, upload.message, upload.proof)
        return upload._replace(generation=own.generation) if proved else None

    def _checked(self, found: Batch) -> CheckedBatch:
        read: list[tuple[int, str, bytes, bytes]] = []
        refused: list[tuple[int, RefusalError]] = []
        for place, (message, code) in enumerate(found.reports):
            try:
                self._check_schema(message, wire.MAGIC)
                read.append((place, self._decode(message), message, code))
            except RefusalError as refusal:
                refused.append((place, refusal))
        uploads, others = [], []
        for place, user, message, code in read:
            own = self._at_hand(user)
            if self._is_coded(self._derived.get(own.agree_key + user.encode()), message, code):
                uploads.append((place, Upload(user, message, code, own.generation)))
            else:
                others.append((place, user, message, code))
        self._read({user for _, user, _, _ in others})
        for place, user, message, code in others:
            own = self._at_hand(user)
            secret = self._server_key.mac_key(own.agree_key, user)
            if self._is_coded(secret, message, code):
                self._derived.keep({own.agree_key + user.encode(): secret})
                uploads.append((place, Upload(user, message, code, own.generation)))
            else:
                refused.append((place, unproved("authentication code", user)))
        return CheckedBatch(found.sender, tuple(sorted(uploads, key=itemgetter(0))), tuple(refused))

    def _is_stale(self, user: str) -> bool:
        """Whether the code under which the keys at hand of a user were enrolled was revoked since."""
        return self._store.standing([user])[user].generation != self._at_hand(user).generation

    def _is_signed(self, batch: Batch) -> bool:
        return keys.verify_batch(self._at_hand(batch.sender).sign_key, batch.signed, batch.signature)

    def _is_coded(self, secret: bytes | None, message: bytes, code: bytes) -> bool:
        return keys.same(keys.mac(secret or self._nobody.sign_key, message), code)

    def _read(self, users: Collection[str]) -> None:
        """Read the keys of users from the store; those who are not enrolled are forgotten.

        For each of these the keys of nobody are kept, under a name that no user has, as those of another would be.
        """
        found = self._store.keys(users) if users else {}
        for user in users:
            name = user.encode() if user in found else b""
            self._known.keep({name: _packed(found.get(user, self._nobody))})
            self._known.drop([b"" if name else user.encode()])

    def _check_schema(self, body: bytes, magic: bytes) -> None:
        if body[:4] == magic and len(body) >= 37 and body[5:37] != self._schema.digest:
            raise RefusalError(
                404,
                f"Expected a report for schema {self._schema.sha256[:16]}..., got one for another. Read /schema again.",
            )

    def _decode(self, message: bytes) -> str:
        try:
            return wire.decode(self._schema, message).user
        except wire.WireError as error:
            raise RefusalError(400, str(error)) from error

    def _at_hand(self, user: str) -> Keys:
        """The keys of a user who is known, or those of nobody."""
        found = self._known.get(user.encode())
        if found is None:
            return self._nobody
        sign_key, agree_key, generation = (
            found[start : start + keys.KEY_BYTES] for start in range(0, 96, keys.KEY_BYTES)
        )
        return Keys(sign_key, agree_key, int.from_bytes(generation, "big"))

    def _derive(self, own: Keys, user: str) -> None:
        name = own.agree_key + user.encode()
        if self._derived.get(name) is None:
            self._derived.keep({name: self._server_key.mac_key(own.agree_key, user)})


def _packed(own: Keys) -> bytes:
    return own.sign_key + own.agree_key + own.generation.to_bytes(4, "big")


class _Recent:
    """Bytes by bytes, of which the latest are kept. The garbage collector need not look at bytes, however many there are."""

    def __init__(self) -> None:
        self._kept: dict[bytes, bytes] = {}
        self._lock = threading.Lock()

    def get(self, name: bytes) -> bytes | None:
        return self._kept.get(name)

    def drop(self, names: Iterable[bytes]) -> None:
        with self._lock:
            for name in names:
                self._kept.pop(name, None)

    def keep(self, found: Mapping[bytes, bytes]) -> None:
        with self._lock:
            self._kept.update(found)
            if len(self._kept) > MOST_KNOWN:
                self._kept = dict(islice(self._kept.items(), len(self._kept) - MOST_KNOWN // 2, None))


@dataclass(frozen=True)
class CheckedBatch:
    """A batch whose reports were checked one by one: those that are fine and those that are refused, by their places."""

    sender: str
    uploads: tuple[tuple[int, Upload], ...]
    refused: tuple[tuple[int, RefusalError], ...]


def read_users(body: bytes) -> Any:
    """Parse the JSON of an enrolment: one object, or a list of at most 1,000."""
    try:
        values = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise RefusalError(422, "Expected JSON with user, sign_key, agree_key and code. Update the client.") from error
    if isinstance(values, list) and not 1 <= len(values) <= MOST_USERS:
        raise RefusalError(422, f"Expected a list of 1 to {MOST_USERS} users, got {len(values)}. Send fewer.")
    return values
