"""A device before two servers: how it knows both, and what it sends to each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sfumato.collect._connection import JSON, Connection
from sfumato.collect.two._agreement import SERVERS
from sfumato.errors import CollectionError, InputError

if TYPE_CHECKING:
    from sfumato.collect._keys import DeviceKeys
    from sfumato.collect.two._agreement import Agreement


def key_of(server: Connection, number: int) -> str:
    """Ask a server for the key that it signs with, under its own name: nobody else can tell it for this server.

    Raises:
        CollectionError: it does not answer, or is another server than this ``number``, 0 or 1.
    """
    try:
        said = json.loads(server.get("/keys").content)
        right, key = said["server"] == number, str(said["sign"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise CollectionError("The server answers in an unknown form. Is it one of two servers?") from None
    if not right:
        raise CollectionError(
            f"Expected the {('first', 'second')[number]} server at its address, got the other one. Swap the addresses, "
            "or give the address of each."
        )
    return key


def check_servers(
    servers: Sequence[Connection], agreement: Agreement, numbers: Sequence[int] = SERVERS
) -> tuple[str, ...]:
    """Return the keys of servers, or refuse others than those of the agreement before they get a code or anything else.

    Raises:
        CollectionError: it is so, or one of them does not answer.
    """
    found = tuple(key_of(server, number) for number, server in zip(numbers, servers, strict=True))
    for number, key in zip(numbers, found, strict=True):
        if key != agreement.parties[number].sign:
            raise CollectionError(
                f"Expected the {('first', 'second')[number]} server of this agreement at its address, got one with another key. "
                "Nothing was sent. Check the address, and ask both operators for their keys."
            )
    return found


def check_codes(codes: Iterable[str], numbers: Sequence[int] = SERVERS) -> None:
    """Refuse a code that would go to the other server, which could then enrol as this user at the one that it is for.

    Raises:
        InputError: it is so.
    """
    for number, code in zip(numbers, codes, strict=True):
        if not code.startswith(f"{number + 1}-"):
            raise InputError(
                f"Expected the code of the {('first', 'second')[number]} server, which begins with {number + 1}-, got another "
                "one. Nothing was sent. Give each code in its place."
            )


def enrol(servers: Sequence[Connection], user: str, keys: DeviceKeys, codes: Sequence[str]) -> None:
    """Tell both servers the public key of the device; again, nothing changes.

    Raises:
        InputError: a code is not for the server that would get it. Nothing was sent.
        CollectionError: one of them refuses or does not answer.
    """
    check_codes(codes)
    for number, server, code in zip(SERVERS, servers, codes, strict=True):
        body = {"user": user, "sign_key": keys.sign_key.hex(), "code": code}
        try:
            server.post("/users", json.dumps(body).encode(), JSON)
        except CollectionError as error:
            error.add_note(f"It was the {('first', 'second')[number]} server.")
            raise


def send(servers: Sequence[Connection], messages: Sequence[bytes]) -> bool:
    """Send each server its message, and return whether both had it before.

    Raises:
        CollectionError: one of them refuses or does not answer. The other may have its part: send the same bytes again.
    """
    again = []
    for number, server, message in zip(SERVERS, servers, messages, strict=True):
        try:
            again.append(server.post("/reports", message).status_code == 200)
        except CollectionError as error:
            error.add_note(f"It was the {('first', 'second')[number]} server. Only a report that both have counts.")
            raise
    return all(again)
