"""What commands that serve share: the socket, and the files of TLS."""

from __future__ import annotations

import logging
import secrets
import socket
import ssl
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sfumato._files import read_secret, whole_file
from sfumato._validate import fail
from sfumato.errors import InputError

if TYPE_CHECKING:
    import uvicorn

    from sfumato.web._door import Door

_BACKLOG = 1024  # who wait to be accepted; the server takes them at once, and limits how many it keeps
_LEAST_TOKEN = 32
TRUSTED_PROXY = typer.Option(
    ["127.0.0.0/8", "::1"],
    "--trusted-proxy",
    help="An address or network of a reverse proxy, which limits addresses itself: this server then does not limit its.",
)


def bind(host: str, port: int) -> socket.socket:
    """Open an address, and listen there."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        # Connections inherit it. Without it each answer waits some 40 ms for an acknowledgement of its header.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except (OSError, UnicodeError) as error:
        says = getattr(error, "strerror", error)
        raise fail("--host and --port", f"{host}:{port}", "to be free", f"The system says: {says}.") from error


def address_of(host: str, bound: socket.socket, certificate: Path | None) -> str:
    """Return the URL of a ``bound`` socket, which was asked for as ``host`` and has TLS if there is a ``certificate``."""
    name = f"[{host}]" if ":" in host else host
    return f"{'http' if certificate is None else 'https'}://{name}:{bound.getsockname()[1]}"


def check_tls(certificate: Path | None, key: Path | None) -> None:
    """Refuse one of the two files of TLS alone, and one that is absent."""
    if (certificate is None) != (key is None):
        raise InputError("Expected --certificate and --key together, got one of them. Add the other.")
    for option, path in (("--certificate", certificate), ("--key", key)):
        if path is not None and not path.is_file():
            raise fail(option, str(path), "to be a file", "Check the path.")


def load_tls(config: uvicorn.Config) -> None:
    """Read the files of TLS that the settings of a server name, and build its application."""
    try:
        config.load()
    except ssl.SSLError as error:
        given = f"{config.ssl_certfile} and {config.ssl_keyfile}"
        raise fail("--certificate and --key", given, "to be a chain and its private key, as PEM") from error


def door_for(proxies: list[str]) -> Door:
    """Build the door of a server, before anything else is done, from what ``--trusted-proxy`` says."""
    from sfumato.web._addresses import networks
    from sfumato.web._door import Door

    return Door(trusted=networks("--trusted-proxy", tuple(proxies)))


def warn_of_plain_text(host: str, certificate: Path | None, what: str) -> None:
    """Tell a warning if ``what`` a server takes or gives travels in the clear: no ``certificate``, and ``host`` is public."""
    if certificate is None and host not in ("127.0.0.1", "::1", "localhost"):
        tell(f"Warning: {what} travel without TLS. Use --certificate and --key.", logging.WARNING)


def tell(line: str, level: int = logging.INFO) -> None:
    """Print a ``line`` of a server where a person reads it, and else write it as the event of a log line of this ``level``."""
    if sys.stderr.isatty():
        print(line, file=sys.stderr, flush=True)
    else:
        logging.getLogger("sfumato.web").log(level, line)


def admin_token(path: Path) -> str:
    """Read the token in a file that only its owner can read; a new one is made if there is no file."""
    if not path.exists():
        with whole_file(path, 0o600) as file:
            file.write(secrets.token_hex(32).encode() + b"\n")
    token = read_secret(path).decode(errors="replace").strip()
    if len(token) < _LEAST_TOKEN:
        raise InputError(
            f"Expected {path.name} to hold a token of {_LEAST_TOKEN} characters or more. Remove the file to get a new one."
        )
    return token
