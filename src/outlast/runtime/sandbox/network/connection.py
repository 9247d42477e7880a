"""What the network proxy tells and is told about one connection: the request, the decision on it, and its record.

These values know nothing of sockets. `plain_host` is the only place where the host of a request is brought into the
form that decisions, grants and records use.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from concurrent.futures import Future
from enum import StrEnum

import msgspec

from outlast.runtime.public_address import is_odd_number

_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*")
_LOCAL_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")


class ConnectionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A command wants to connect to `host`: a lowercase name or an address, in the form of `plain_host`."""

    call_id: str
    host: str
    port: int


class ConnectionDecision(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a request. It holds for this host until the call ends.

    `private`: the user named this host, which is an address of a private network or this machine itself. A *name* that
    resolves to a private address is refused even then, unless that address is in `private_addresses`: whoever owns the
    name chooses its addresses. `reason` of a refusal is told to the command."""

    allow: bool
    private: bool = False
    private_addresses: frozenset[str] = frozenset()
    reason: str = ""


Decide = Callable[[ConnectionRequest], ConnectionDecision | Future[ConnectionDecision]]
"""Called in the proxy's thread, so it must return at once. A decision that takes time is a `concurrent.futures.Future`;
`asyncio.run_coroutine_threadsafe` returns one. The proxy cancels it when the call is released."""


class ConnectionVerdict(StrEnum):
    WAITING = "waiting"
    ALLOWED = "allowed"
    REFUSED = "refused"
    FAILED = "failed"


class ConnectionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a connection. `address` is empty until the proxy connects; `reason` says why it was not allowed,
    or failed. The bytes are those of the command (`sent`) and of the host (`received`)."""

    host: str
    port: int
    address: str = ""
    verdict: ConnectionVerdict = ConnectionVerdict.WAITING
    reason: str = ""
    sent: int = 0
    received: int = 0


def plain_host(text: str) -> str:
    """Return a host in lower case without brackets and final dot, an address in its usual form; "" if it is neither."""
    host = text.lower()
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    try:
        return str(ipaddress.ip_address(host)) if "%" not in host else ""
    except ValueError:
        host = host.removesuffix(".")
    return host if _NAME.fullmatch(host) and not is_odd_number(host) else ""


def is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_local_host(host: str) -> bool:
    """Whether a host, in the form of `plain_host`, is this machine by name or by loopback address."""
    if host in _LOCAL_NAMES or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    inner = getattr(address, "ipv4_mapped", None) or address
    return inner.is_loopback or inner.is_unspecified
