"""The door of a server: connections are counted and limited when they are accepted, before TLS and before HTTP."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import socket
import ssl
from collections import Counter, OrderedDict
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_network
from typing import Any

from sfumato.errors import InputError
from sfumato.web._addresses import Network, is_within, net_of, site_of
from sfumato.web._logs import Log

_THIS_MACHINE = (ip_network("127.0.0.0/8"), ip_network("::1"))
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_RESERVE = 160  # descriptors for the database, the log and files
_FEWEST, _MOST = 32, 1000
_AT_ONCE = 32  # a turn of the event loop is not for those who knock alone
_HANDSHAKE, _GOODBYE, _LEAST = 10.0, 2.0, 0.1
_PAUSE, _TURN = 0.1, 0.001
_SWEEP = 128  # TLS connections that ended: until then their objects, a quarter of a megabyte each, are held in circles


def most_connections() -> int:
    """Derive how many connections may be open at once from the descriptors that this process may have."""
    import resource

    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    left = _MOST if allowed == resource.RLIM_INFINITY else allowed - _RESERVE
    if left < _FEWEST:
        raise InputError(
            f"Expected a limit of {_FEWEST + _RESERVE} open files or more, got {allowed}. Raise it: ulimit -n 1024, or "
            "LimitNOFILE= of systemd."
        )
    return min(_MOST, left)


class Guest:
    """A guest is a connection that was let in. The server owes it work (``is_busy``), or waits for it."""

    def __init__(self, door: Door, connection: socket.socket, sites: tuple[str, ...]) -> None:
        self._door, self._connection, self.sites, self.is_busy = door, connection, sites, False
        self.transport: asyncio.BaseTransport | None = None
        self._first: asyncio.Future[None] | None = None
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def stay(self, make: Callable[[], Any], context: ssl.SSLContext | None, handshake: float) -> None:
        """Return once the connection has ended.

        A connection gets its TLS objects, of a quarter of a megabyte, when its first byte has come.
        """

        def protocol() -> Any:
            made = make()
            made.guest = self
            return made

        loop, limits = asyncio.get_running_loop(), dict[str, Any]()
        if context is not None:
            end = loop.time() + handshake
            await self._first_byte(loop, handshake)
            self._door.shake(self)
            left = max(end - loop.time(), _LEAST)
            limits = {"ssl": context, "ssl_handshake_timeout": left, "ssl_shutdown_timeout": _GOODBYE}
        await loop.connect_accepted_socket(protocol, self._connection, **limits)
        await self.gone

    async def _first_byte(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        """Wait for it, and close the connection if none comes."""
        first = self._first = loop.create_future()
        descriptor = self._connection.fileno()

        def heard() -> None:
            if not first.done():
                first.set_result(None)

        loop.add_reader(descriptor, heard)
        timer = loop.call_later(seconds, self.send_away)
        try:
            await first
            loop.remove_reader(descriptor)
            if not self._connection.recv(1, socket.MSG_PEEK):
                raise ConnectionAbortedError
        except BaseException:
            loop.remove_reader(descriptor)
            self._connection.close()
            raise
        finally:
            timer.cancel()

    def arrive(self, transport: asyncio.BaseTransport) -> None:
        """Let HTTP begin over this ``transport``, after the handshake, unless the door was closed meanwhile."""
        self.transport = transport
        self._door.arrived(self)
        if self._door.is_closed:
            self.send_away()

    def work(self) -> None:
        """Keep its place: the server has a whole request of it. Nobody gets it until that is answered."""
        self.is_busy = True

    def wait(self) -> None:
        """Let it wait: it was answered, and is now the last one of those that are sent away for others."""
        self.is_busy = False
        self._door.last(self)

    def turned_away(self, reason: str) -> None:
        """Count that the server refuses it for a ``reason``, and ends the connection."""
        self._door.refused[reason] += 1

    def leave(self) -> None:
        if not self.gone.done():
            self.gone.set_result(None)

    def send_away(self) -> None:
        """Cut the connection from this side; one in its handshake finds that out by itself."""
        if isinstance(self.transport, asyncio.WriteTransport):
            self.transport.abort()
        elif self._first is not None and not self._first.done():
            self._first.set_exception(ConnectionAbortedError())
        else:
            with suppress(OSError):
                self._connection.shutdown(socket.SHUT_RDWR)


class Door:
    """A door lets in so many connections at once, and so many of one address.

    A connection that comes when all places are taken gets that of the one for which the server has waited longest: for a TLS
    handshake, for the rest of a request, or for the next one. So whoever holds connections and sends little keeps nobody out.

    ``most`` places are derived from the descriptors of this process by default. Connections from one address, or one IPv6
    network of 64 bits, get a ``share`` of them, those from one of 48 bits twice as many. Networks of ``trusted`` proxies limit
    addresses on their own, and may take all places.
    """

    def __init__(
        self,
        most: int | None = None,
        share: float = 1 / 8,
        trusted: tuple[Network, ...] = _THIS_MACHINE,
        handshake_seconds: float = _HANDSHAKE,
    ) -> None:
        self.most = most_connections() if most is None else most
        self._of_site, self.trusted, self._handshake = max(1, int(share * self.most)), trusted, handshake_seconds
        self._guests: OrderedDict[Guest, None] = OrderedDict()  # the one that was heard of longest ago is first
        self._strangers: OrderedDict[Guest, None] = OrderedDict()  # those without a whole handshake, the oldest first
        self._shaking: OrderedDict[Guest, None] = OrderedDict()  # those of them who have TLS objects
        self._leaving: set[Guest] = set()  # those that were sent away, until their descriptors are closed
        self._ended, self.is_closed = 0, False
        self._sites: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Task[None] | None = None
        self._log = Log(logging.getLogger("sfumato.web"))
        self.refused: Counter[str] = Counter()

    @property
    def count(self) -> int:
        return len(self._guests)

    def open(self, make: Callable[[], Any], listener: socket.socket, context: ssl.SSLContext | None) -> None:
        """Start to accept. Call it in the event loop."""
        listener.setblocking(False)
        self._knocks = listener.fileno()
        self._listener = asyncio.create_task(self._accept(make, listener, context))

    def close(self) -> None:
        """Stop to accept; connections in which HTTP began go on."""
        self.is_closed = True
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._knocks)  # whoever knocks in this turn finds nobody waiting
            self._listener.cancel()
        for guest in self._guests:
            if guest.transport is None:
                guest.send_away()

    async def wait_closed(self) -> None:
        if self._listener is not None:
            await asyncio.wait([self._listener])

    def last(self, guest: Guest) -> None:
        """Put a ``guest`` at the end of the row, as one that was heard of just now."""
        if guest in self._guests:
            self._guests.move_to_end(guest)

    def shake(self, guest: Guest) -> None:
        """Let a ``guest`` begin its handshake. Half of the places are for those: of more, the oldest goes."""
        if len(self._shaking) >= max(1, self.most // 2):
            self._send_away(next(iter(self._shaking)))
        self._shaking[guest] = None

    def arrived(self, guest: Guest) -> None:
        self._strangers.pop(guest, None)
        self._shaking.pop(guest, None)

    def turn_away(self, reason: str) -> None:
        """Count, and log within limits, a connection that was refused or ended for a ``reason``."""
        self.refused[reason] += 1
        self._log.say("connection refused", logging.WARNING, {"reason": reason, "open": self.count})

    async def _accept(self, make: Callable[[], Any], listener: socket.socket, context: ssl.SSLContext | None) -> None:
        loop, row = asyncio.get_running_loop(), 0
        while True:
            row += 1
            if row % _AT_ONCE == 0:
                await asyncio.sleep(0)
            while len(self._leaving) >= _AT_ONCE:
                await asyncio.sleep(_TURN)
            try:
                connection, peer = await loop.sock_accept(listener)
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self.turn_away("descriptors")
                    self._make_room()
                    await asyncio.sleep(_PAUSE)
                continue
            guest = self._let_in(connection, peer[0])
            if guest is None:
                connection.close()
                continue
            if context is not None:
                self._strangers[guest] = None
            task = loop.create_task(self._host(guest, make, context))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _let_in(self, connection: socket.socket, address: str) -> Guest | None:
        site, net = site_of(address), net_of(address)
        over = self._sites[site] >= self._of_site or (net is not None and self._sites[net] >= 2 * self._of_site)
        if over and not is_within(address, self.trusted):
            self.turn_away("address")
            return None
        if self.count >= self.most and not self._make_room():
            self.turn_away("full")
            return None
        guest = Guest(self, connection, (site,) if net is None else (site, net))
        self._guests[guest] = None
        self._sites.update(guest.sites)
        return guest

    def _make_room(self) -> bool:
        """Send away the connection that the server waits for longest, if it waits for any.

        Where half of all have not finished their handshake, the oldest of these goes: they take no place of one that has.
        """
        if 2 * len(self._strangers) >= self.most:
            guest = next(iter(self._strangers), None)
        else:
            guest = next((one for one in self._guests if not one.is_busy), None)
        if guest is not None:
            self._send_away(guest)
        return guest is not None

    def _send_away(self, guest: Guest) -> None:
        self.turn_away("waiting")
        self._forget(guest)
        self._leaving.add(guest)
        guest.send_away()

    def _forget(self, guest: Guest) -> None:
        self.arrived(guest)
        if guest in self._guests:
            del self._guests[guest]
            self._sites.subtract(guest.sites)
            for site in guest.sites:
                if not self._sites[site]:
                    del self._sites[site]

    async def _host(self, guest: Guest, make: Callable[[], Any], context: ssl.SSLContext | None) -> None:
        """Keep the place of a connection, from its handshake on, until it has ended."""
        try:
            await guest.stay(make, context, self._handshake)
        except OSError:  # of the network, and of TLS
            if guest in self._guests:
                self.refused["handshake"] += 1
        finally:
            self._forget(guest)
            self._leaving.discard(guest)
            self._ended += context is not None
            if self._ended >= _SWEEP:
                self._ended = 0
                gc.collect()


class DoorLoop(asyncio.SelectorEventLoop):
    """An event loop whose servers take connections through a ``door``."""

    def __init__(self, door: Door) -> None:
        super().__init__()
        self._door = door

    async def create_server(self, protocol_factory: Any, *_: Any, **settings: Any) -> Any:
        """Start to accept connections, and return the door."""
        self._door.open(protocol_factory, settings["sock"], settings["ssl"])
        return self._door
