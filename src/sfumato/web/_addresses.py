"""IP addresses and networks: what is limited together, and who is a trusted proxy."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from sfumato.errors import InputError

_REST = 80  # bits of an IPv6 address below the network that a provider gives to one customer
_SITE = 64  # bits of an IPv6 address that whoever holds one of them shares with none but their own

Network = IPv4Network | IPv6Network


def networks(option: str, given: tuple[str, ...]) -> tuple[Network, ...]:
    """Read addresses and networks, as ``option`` names them, such as 10.0.0.5 or 172.16.0.0/12."""
    try:
        return tuple(ip_network(one) for one in given)
    except ValueError as error:
        raise InputError(
            f"Expected {option} to be an IP address or a network, got {', '.join(given)!r}. Write one such as 10.0.0.5 or "
            "172.16.0.0/12."
        ) from error


def site_of(address: str) -> str:
    """Return what is limited together: an IPv4 address, or the 64 bits of an IPv6 address that all of one holder share."""
    found = _plain(address)
    return str(IPv6Address(int(found) >> _SITE << _SITE)) if isinstance(found, IPv6Address) else str(found or address)


def net_of(address: str) -> str | None:
    """Return the wider network that an IPv6 address is in, of which one holder often has all; None for IPv4."""
    found = _plain(address)
    return f"{IPv6Address(int(found) >> _REST << _REST)}/{128 - _REST}" if isinstance(found, IPv6Address) else None


def is_within(address: str, known: tuple[Network, ...]) -> bool:
    """Return whether an ``address``, with a zone or without, is in one of the ``known`` networks."""
    host = _plain(address.partition("%")[0])
    return host is not None and any(host in network for network in known)


def caller(client: tuple[str, int] | None) -> str:
    """Return what a ``client`` of a request is limited by; behind a trusted proxy that is the address that the proxy names."""
    return "" if client is None else site_of(client[0])


def _plain(address: str) -> IPv4Address | IPv6Address | None:
    """The IP address, of an IPv4 connection to a socket of IPv6 that of IPv4; None for a connection without one."""
    try:
        found = ip_address(address)
    except ValueError:
        return None
    return found.ipv4_mapped or found if isinstance(found, IPv6Address) else found
