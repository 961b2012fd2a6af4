"""The socket of a server."""

from __future__ import annotations

import socket

from sfumato._validate import fail


def listening(host: str, port: int) -> socket.socket:
    """Bind an address, and listen there.

    Raises:
        InputError: the address is not free.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=2048)
        # Connections inherit it. Without it each answer waits some 40 ms for an acknowledgement of its header.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except OSError as error:
        raise fail(
            "--host and --port", f"{host}:{port}", "to be free", f"The system says: {error.strerror}."
        ) from error
