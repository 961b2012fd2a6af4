"""A connection to the server of a collection: it goes over TLS, and tries again where that can help."""

from __future__ import annotations

import ipaddress
import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from sfumato._optional import require
from sfumato._validate import fail
from sfumato.errors import CollectionError

if TYPE_CHECKING:
    import httpx

_ATTEMPTS = 8
_FIRST, _LONGEST = 0.5, 60.0  # seconds between attempts
_PATIENCE = 300.0  # seconds that a server may ask to wait
_SECONDS = 30.0  # of one attempt
BYTES, JSON = "application/octet-stream", "application/json"


class Connection:
    """A connection sends requests to one server until they are answered.

    After a failure of the network, an answer of 500 or above, or 429 (too many requests), it waits and sends the same bytes
    again, up to eight times. The waits double from half a second, and a random part of each is left out so that devices do not
    return all at once. A server that says how long to wait is obeyed; if that is more than five minutes, the connection gives up.

    Args:
        url: address of the server. ``http://`` is taken for this machine alone, since anybody on the way could read the rest.
        transport: how requests are sent; None opens connections.
        wait: called with seconds between two attempts.

    Raises:
        InputError: the address is malformed, or does not use TLS.
        MissingDependencyError: httpx is not installed.

    >>> Connection("http://example.org")
    Traceback (most recent call last):
    sfumato.errors.InputError: Expected server to begin with https://, got 'http://example.org'. Anybody could read the rest.
    """

    def __init__(
        self, url: str, *, transport: httpx.BaseTransport | None = None, wait: Callable[[float], None] = time.sleep
    ) -> None:
        local = _check_address(url)
        client = require("httpx").Client
        self._url, self._wait = url.rstrip("/"), wait
        self._client: httpx.Client = client(transport=transport, timeout=_SECONDS, trust_env=not local)

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def get(self, path: str) -> httpx.Response:
        """Ask for what stands under a path.

        Raises:
            CollectionError: the server refuses, or does not answer.
        """
        return self._ask("GET", path)

    def post(self, path: str, content: bytes, kind: str = BYTES) -> httpx.Response:
        """Send ``content`` of the media type ``kind`` to ``path``.

        Raises:
            CollectionError: the server refuses, or does not answer.
        """
        return self._ask("POST", path, content=content, headers={"Content-Type": kind})

    def _ask(self, method: str, path: str, **request: Any) -> httpx.Response:
        pause = _FIRST
        for attempt in range(1, _ATTEMPTS + 1):
            asked = 0.0
            try:
                answer = self._client.request(method, self._url + path, **request)
            except require("httpx").TransportError as error:
                problem = str(error) or type(error).__name__
            else:
                if answer.is_success:
                    return answer
                problem = f"{answer.status_code}: {_detail(answer)}"
                if answer.status_code < 500 and answer.status_code != 429:
                    raise CollectionError(f"The server refuses {method} {path} with {problem}")
                asked = _retry_after(answer)
            if attempt == _ATTEMPTS or asked > _PATIENCE:
                break
            self._wait(max(asked, pause * random.uniform(0.5, 1.0)))
            pause = min(2 * pause, _LONGEST)
        raise CollectionError(
            f"No answer to {method} {path} of {self._url} after {attempt} attempts; the last one: {problem} "
            "Run the same command again later: it sends the same bytes."
        )


def _check_address(url: str) -> bool:
    """Refuse an address that others on the way could read; return whether it is this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        host = ""
    if not host or parts.scheme not in ("http", "https") or parts.username or parts.query or parts.fragment:
        raise fail("server", url, "to be an address such as https://example.org")
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    if parts.scheme == "http" and not local:
        raise fail("server", url, "to begin with https://", "Anybody could read the rest.")
    return local


def _retry_after(answer: httpx.Response) -> float:
    said = answer.headers.get("Retry-After", "")
    return float(said) if said.isascii() and said.isdigit() else 0.0


def _detail(answer: httpx.Response) -> str:
    """What a refusal says, as one short line, whoever wrote it."""
    try:
        said = str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        said = answer.reason_phrase
    return "".join(letter if letter.isprintable() else " " for letter in said[:300])
