"""A connection to the server of a collection: it goes over TLS, and tries again where that can help."""

from __future__ import annotations

import ipaddress
import math
import random
import ssl
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from sfumato._files import name_file
from sfumato._optional import require
from sfumato._validate import fail
from sfumato.errors import CollectionError, InputError

if TYPE_CHECKING:
    import httpx

_ATTEMPTS = 8
_FIRST, _LONGEST = 0.5, 60.0  # seconds between attempts
_PATIENCE = 300.0  # seconds that a server may ask to wait
_SECONDS = 30.0  # without a byte
_DEADLINE = 120.0  # seconds of one attempt
_MOST_BYTES = 1 << 24
_CUT_OFF = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
BYTES, JSON = "application/octet-stream", "application/json"


class RefusedError(CollectionError):
    """The answer of a server is final: the same request would get the same one again.

    ``status`` is None if there is no server that can be trusted; ``said`` is what the server says alone.
    """

    def __init__(self, message: str, status: int | None = None, said: str = "") -> None:
        super().__init__(message)
        self.status, self.said = status, said


class Connection:
    """A connection sends requests to one server until they are answered.

    After a failure of the network, an answer of 500 or above, or 429 (too many requests), it waits and sends the same bytes
    again, up to eight times. The waits double from half a second, and a random part of each is left out so that devices do not
    return all at once. A server that says how long to wait is obeyed; if that is more than five minutes, the connection gives up.
    An attempt ends after two minutes, and an answer has at most 16 MiB. A server whose certificate is not trusted, or that speaks
    another protocol, is asked once.

    Args:
        url: address of the server. ``http://`` is taken for this machine alone, since anybody on the way could read the rest.
        ca: file with the certificate of the only authority that is trusted, as PEM; None trusts those of this system.
        tell: called with a line before each wait; None tells nothing.
        transport: how requests are sent; None opens connections.
        wait: called with seconds between two attempts.

    Raises:
        InputError: the address is malformed or does not use TLS, or the file holds no certificate.
        MissingDependencyError: httpx is not installed.
        OSError: the file cannot be read.

    >>> Connection("http://example.org")
    Traceback (most recent call last):
    sfumato.errors.InputError: Expected server to begin with https://, got 'http://example.org'. Anybody could read the rest.
    """

    def __init__(
        self,
        url: str,
        *,
        ca: Path | None = None,
        tell: Callable[[str], None] | None = None,
        transport: httpx.BaseTransport | None = None,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        local = _check_address(url)
        try:
            require("httpx").URL(url)
        except require("httpx").InvalidURL:
            raise _no_address(url) from None
        client = require("httpx").Client
        self._url, self._ca, self._tell, self._wait = url.rstrip("/"), ca, tell, wait
        self._client: httpx.Client = client(
            transport=transport,
            timeout=_SECONDS,
            trust_env=not local,
            verify=True if ca is None else _trusted(ca),
            headers={"Accept-Encoding": "identity", "User-Agent": "sfumato"},  # no version: it could tell devices apart
        )

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> httpx.Response:
        """Ask for what stands under a path, with further ``headers``.

        Raises:
            RefusedError: the server refuses for good.
            CollectionError: the server does not answer.
        """
        return self._ask("GET", path, headers=headers or {})

    def post(self, path: str, content: bytes, kind: str = BYTES) -> httpx.Response:
        """Send ``content`` of the media type ``kind`` to ``path``.

        Raises:
            RefusedError: the server refuses for good.
            CollectionError: the server does not answer.
        """
        return self._ask("POST", path, content=content, headers={"Content-Type": kind})

    def _ask(self, method: str, path: str, **request: Any) -> httpx.Response:
        pause = _FIRST
        for attempt in range(1, _ATTEMPTS + 1):
            asked = 0.0
            try:
                answer = self._in_time(method, path, request)
            except require("httpx").HTTPError as error:
                problem = str(error) or type(error).__name__
                self._check_final(error)
            else:
                if answer.is_success:
                    return answer
                said = _detail(answer)
                problem = f"{answer.status_code}: {said}"
                if answer.status_code < 500 and answer.status_code != 429:
                    raise RefusedError(f"The server refuses {method} {path} with {problem}", answer.status_code, said)
                asked = _retry_after(answer)
            if attempt == _ATTEMPTS or asked > _PATIENCE:
                break
            seconds = max(asked, pause * random.uniform(0.5, 1.0))
            if self._tell:
                self._tell(f"No answer yet: {_sentence(problem)} Trying again in {math.ceil(seconds)} s.")
            self._wait(seconds)
            pause = min(2 * pause, _LONGEST)
        attempts = f"{attempt} attempt" + "s" * (attempt > 1)
        raise CollectionError(
            f"No answer to {method} {path} of {self._url} after {attempts}; the last one: {_sentence(problem)} Try again later."
        )

    def _in_time(self, method: str, path: str, request: dict[str, Any]) -> httpx.Response:
        """Send a request once. It runs in a thread of its own: an answer that comes too slowly is not waited for."""
        done: SimpleQueue[httpx.Response | Exception] = SimpleQueue()

        def attempt() -> None:
            try:
                done.put(self._once(method, path, request))
            except Exception as error:
                done.put(error)

        Thread(target=attempt, daemon=True).start()
        try:
            found = done.get(timeout=_DEADLINE)
        except Empty:
            raise require("httpx").ReadTimeout(f"no whole answer within {_DEADLINE:g} s") from None
        if isinstance(found, Exception):
            raise found
        return found

    def _once(self, method: str, path: str, request: dict[str, Any]) -> httpx.Response:
        content = bytearray()
        with self._client.stream(method, self._url + path, **request) as answer:
            if answer.headers.get("Content-Encoding", "identity") != "identity":
                raise RefusedError("Expected an answer without compression, got another. Tell the operator.")
            for block in answer.iter_bytes():
                content += block
                if len(content) > _MOST_BYTES:
                    raise RefusedError(
                        f"Expected an answer of at most {_MOST_BYTES} bytes, got more. Tell the operator."
                    )
        whole: httpx.Response = require("httpx").Response(
            answer.status_code, headers=answer.headers, content=bytes(content)
        )
        return whole

    def _check_final(self, error: httpx.HTTPError) -> None:
        """Refuse a server that is not trusted, or that speaks another protocol: no other attempt can help."""
        causes: list[BaseException] = [error]
        while cause := causes[-1].__cause__ or causes[-1].__context__:
            causes.append(cause)
        for one in causes:
            if isinstance(one, ssl.SSLCertVerificationError):
                remedy = "If its authority is a private one, name the certificate of that with --ca."
                if self._ca:
                    remedy = f"Only the authority in {self._ca} is trusted. Ask the operator for its certificate."
                raise RefusedError(
                    f"The certificate of {self._url} is not trusted: {_sentence(one.verify_message)} {remedy}"
                ) from error
        httpx, said = require("httpx"), str(error)
        other = isinstance(error, httpx.ConnectError) and any(isinstance(one, ssl.SSLError) for one in causes)
        other &= not any(isinstance(one, _CUT_OFF) for one in causes)
        other |= isinstance(error, httpx.ProtocolError) and not {"disconnected", "closed"} & set(said.split())
        if other:
            raise RefusedError(
                f"What answers at {self._url} speaks another protocol: {_sentence(said)} Check the address."
            ) from error


def _trusted(ca: Path) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=str(ca))
    except ssl.SSLError:
        raise InputError(f"Expected {ca} to hold a certificate as PEM, got something else. Ask the operator.") from None
    except OSError as error:
        name_file(error, ca)
        raise


def _check_address(url: str) -> bool:
    """Refuse an address that others on the way could read; return whether it is this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError:
        host = ""
    odd = not url.isprintable() or any(not 1 <= len(label) <= 63 for label in host.removesuffix(".").split("."))
    if odd or parts.scheme not in ("http", "https") or parts.username or parts.query or parts.fragment:
        raise _no_address(url)
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    if parts.scheme == "http" and not local:
        raise fail("server", url, "to begin with https://", "Anybody could read the rest.")
    return local


def _no_address(url: str) -> InputError:
    return fail("server", url, "to be an address such as https://example.org")


def _retry_after(answer: httpx.Response) -> float:
    said = answer.headers.get("Retry-After", "")
    return float(said) if said.isascii() and said.isdigit() else 0.0


def _detail(answer: httpx.Response) -> str:
    """What a refusal says, as one short line, whoever wrote it."""
    try:
        return plain(str(answer.json()["detail"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return plain(answer.reason_phrase)


def plain(said: str) -> str:
    """What another machine says, as one short line that no terminal obeys."""
    return "".join(letter if letter.isprintable() else " " for letter in said[:300])


def _sentence(said: str) -> str:
    return plain(said).rstrip(". ") + "."
