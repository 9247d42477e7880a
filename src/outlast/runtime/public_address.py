"""Tells public addresses from those that must not be fetched: this machine, its networks, its cloud's metadata."""

from __future__ import annotations

import ipaddress
import re

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_TRANSLATED = ipaddress.ip_network("::ffff:0:0:0/96")
"""An IPv4 address behind a stateless translator (`::ffff:0:a.b.c.d`)."""
_PRIVATE = tuple(
    ipaddress.ip_network(network)
    for network in (
        "168.63.129.16/32",  # Azure's host agent, the same in every virtual network
        "192.0.0.0/24",  # protocol assignments; Oracle's metadata is 192.0.0.192
        "64:ff9b:1::/48",  # translation inside one's own network
        "fec0::/10",  # the former site-local addresses
    )
)
"""Not public, although Python's `is_global` says so of some of them."""
_NUMERIC = re.compile(r"(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+))*\.?", re.IGNORECASE)


def forbidden(address: str) -> str | None:
    """Return why an address must not be fetched from, or None. Embedded (mapped, translated) addresses count too."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return "it is not an address"
    for each in (found, *_inside(found)):
        if each.is_loopback or each.is_unspecified:
            return "it is this machine"
        if each.is_multicast:
            return "it is a multicast address"
        if each.is_link_local:
            return "it is a link-local address"
        if not each.is_global or any(each in network for network in _PRIVATE):
            return "it is not a public address"
    return None


def _inside(address: IPAddress) -> list[IPAddress]:
    """Return the addresses embedded in an IPv6 address: mapped, compatible, translated, 6to4, Teredo, NAT64."""
    if isinstance(address, ipaddress.IPv4Address):
        return []
    found: list[IPAddress | None] = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in _NAT64 or address in _TRANSLATED or int(address) >> 32 == 0:
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return [each for each in found if each is not None]


def is_odd_number(host: str) -> bool:
    """True for a host that some resolvers read as an address in a non-standard form: 2130706433, 0x7f.1, 127.1."""
    if _NUMERIC.fullmatch(host) is None:
        return False
    try:
        return str(ipaddress.IPv4Address(host)) != host
    except ValueError:
        return True
