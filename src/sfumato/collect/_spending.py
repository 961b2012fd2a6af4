"""The token of a device for an anonymous collection: asked for under its name, once, and spent without it.

The folder of the device holds the nonce and the blinded text before the server is asked, so the same text is asked for after any
stop, and the server signs no other one. The report holds the name of the token, so it is drawn once the token is there. It goes
with the token alone: nothing in the request follows from the keys, the code or the user id of the device.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.collect._connection import JSON
from sfumato.collect._folder import keep_token, read_tokens
from sfumato.collect._journal import locked
from sfumato.collect._tokens import Token
from sfumato.errors import CollectionError, InputError

if TYPE_CHECKING:
    from sfumato.collect._connection import Connection
    from sfumato.collect._drawing import Values
    from sfumato.collect._keys import DeviceKeys
    from sfumato.collect._schema import Schema


def fetch_token(folder: Path, user: str, keys: DeviceKeys, schema: Schema, server: Connection) -> None:
    """Ask the server for the token of an enrolled device, unless the folder holds it already.

    Raises:
        InputError: the folder is damaged, or the server signed something else.
        RefusedError: the server does not know the device, or has signed another token for its user.
        CollectionError: the server does not answer.
    """
    assert schema.anonymous is not None
    with locked(folder):
        kept = read_tokens(folder).get(schema.sha256)
        if kept is None:
            token = Token.draw()
            text, inverse = token.blind(schema.anonymous.public, schema.digest)
            kept = {"nonce": token.nonce.hex(), "blinded": text.hex(), "inverse": f"{inverse:x}", "signature": ""}
            keep_token(folder, schema.sha256, kept)
        if kept["signature"]:
            return
        signed = asked(server, schema, user, keys, bytes.fromhex(kept["blinded"]))
        token = Token(bytes.fromhex(kept["nonce"]))
        token = token.finished(schema.anonymous.public, schema.digest, signed, int(kept["inverse"], 16))
        keep_token(folder, schema.sha256, {**kept, "signature": token.signature.hex()})


def asked(server: Connection, schema: Schema, user: str, keys: DeviceKeys, text: bytes) -> bytes:
    """Have the server sign a blinded ``text`` for a user."""
    signature = keys.sign_asked(schema.digest, text).hex()
    body = json.dumps({"user": user, "blinded": text.hex(), "signature": signature}).encode()
    try:
        return bytes.fromhex(server.post("/tokens", body, JSON).json()["signed"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CollectionError("The server answers in an unknown form. Is it of this version of Sfumato?") from error


def named(folder: Path, schema: Schema, values: Values) -> Values:
    """Put the name of the token in place of the user id where uploads are anonymous."""
    return values if schema.anonymous is None else replace(values, users=(_token(folder, schema).name,))


def spend(folder: Path, schema: Schema, server: Connection, message: bytes) -> bool:
    """Send a report with its token; return whether the server had it already."""
    return server.post("/reports", anonymous_upload(message, _token(folder, schema))).status_code == 200


def anonymous_upload(message: bytes, token: Token) -> bytes:
    return message + token.nonce + token.signature


def _token(folder: Path, schema: Schema) -> Token:
    kept = read_tokens(folder).get(schema.sha256, {})
    if not kept.get("signature"):
        raise InputError(
            "Expected the token of this collection in tokens.json, got none. Before a report is drawn, ask the server for it. "
            "If it is lost, restore tokens.json: the server signs no other one, and a report counts with its own alone."
        )
    return Token(bytes.fromhex(kept["nonce"]), bytes.fromhex(kept["signature"]))
