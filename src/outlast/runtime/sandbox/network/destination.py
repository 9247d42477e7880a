"""From a host to a connected socket: the proxy resolves the name once, checks every address, and connects to those.

No second lookup happens between check and connection, so a name cannot change its address in between. Lookups run in
daemon threads, because the system's resolver cannot be cancelled and must not keep the agent from exiting.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Collection, Sequence

import msgspec

from outlast.runtime.public_address import forbidden
from outlast.runtime.sandbox.network.connection import ConnectionDecision, is_address, is_local_host

Resolve = Callable[[str, int], Sequence[str]]
"""Returns the addresses of a name; may block, and raises OSError if there are none. It runs in a thread of its own."""
Forbids = Callable[[str], str | None]

RESOLVE_SECONDS = 20.0
CONNECT_SECONDS = 15.0
MOST_ADDRESSES = 8
LOOKUPS = 16
"""Lookups at a time; a command that asks for a thousand names must not start a thousand threads."""


class Blocked(msgspec.Struct, frozen=True):
    """The sandbox refuses this connection."""

    reason: str


class Unreachable(msgspec.Struct, frozen=True):
    """The sandbox allows this connection, but it could not be made."""

    reason: str


def system_addresses(host: str, port: int) -> list[str]:
    """Return every address of a name, as the resolver of this machine has them."""
    rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(row[4][0]) for row in rows))


def forbidden_destination(address: str) -> str | None:
    """Return why a command must not reach an address unless it is named: it is private, or it is this machine."""
    return forbidden(address) or ("it is this machine" if is_own_address(address) else None)


def is_own_address(address: str) -> bool:
    """Whether an address belongs to an interface of this machine: only then can a socket be bound to it."""
    with socket.socket(_family(address), socket.SOCK_STREAM) as trial:
        try:
            trial.bind((address, 0))
        except OSError:
            return False
    return True


class DestinationPolicy:
    """Checks and connects. `forbidden_ports` are our own server's: refused on this machine whatever was decided."""

    def __init__(self, resolve: Resolve, forbids: Forbids, forbidden_ports: Collection[int]) -> None:
        self.resolve = resolve
        self.forbids = forbids
        self.forbidden_ports = frozenset(forbidden_ports)
        self._lookups = asyncio.Semaphore(LOOKUPS)

    async def addresses(self, host: str, port: int, decision: ConnectionDecision) -> list[str] | Blocked | Unreachable:
        """Return the checked addresses of a host. One forbidden address is enough to refuse them all."""
        if is_local_host(host):
            found: Sequence[str] = [host] if is_address(host) else ["127.0.0.1", "::1"]
        elif is_address(host):
            found = [host]
        else:
            answer = await self._lookup(host, port)
            if isinstance(answer, Unreachable):
                return answer
            found = answer
        for address in found:
            if reason := self._objection(host, port, address, decision):
                return Blocked(reason)
        return list(found[:MOST_ADDRESSES])

    def _objection(self, host: str, port: int, address: str, decision: ConnectionDecision) -> str | None:
        if port in self.forbidden_ports and (is_local_host(address) or is_own_address(address)):
            return f"port {port} of this machine belongs to the agent"
        if decision.private and (is_address(host) or is_local_host(host)):
            return None
        if address in decision.private_addresses and not is_local_host(address):
            return None
        reason = self.forbids(address)
        if reason is None:
            return None
        return f"{reason} ({address})" if address != host else reason

    async def _lookup(self, host: str, port: int) -> Sequence[str] | Unreachable:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Sequence[str] | Unreachable] = loop.create_future()

        def tell(value: Sequence[str] | Unreachable) -> None:
            if not answer.done():
                answer.set_result(value)

        def look_up() -> None:
            try:
                value: Sequence[str] | Unreachable = self.resolve(host, port) or Unreachable(f"{host} has no address")
            except (OSError, UnicodeError) as error:
                value = Unreachable(f"{host} could not be found: {getattr(error, 'strerror', None) or error}")
            try:
                loop.call_soon_threadsafe(tell, value)
            except RuntimeError:
                return  # the proxy was closed meanwhile

        try:
            async with asyncio.timeout(RESOLVE_SECONDS), self._lookups:
                threading.Thread(target=look_up, name=f"lookup {host[:40]}", daemon=True).start()
                return await answer
        except TimeoutError:
            return Unreachable(f"{host} could not be found within {RESOLVE_SECONDS:.0f} s")


async def connect(addresses: Sequence[str], port: int) -> tuple[socket.socket, str] | Unreachable:
    """Return a connection to the first address that answers, and that address."""
    loop = asyncio.get_running_loop()
    last = "it has no address"
    for address in addresses:
        upstream = socket.socket(_family(address), socket.SOCK_STREAM)
        try:
            upstream.setblocking(False)
            upstream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            upstream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.timeout(CONNECT_SECONDS):
                await loop.sock_connect(upstream, (address, port))
        except OSError as error:  # a TimeoutError is one
            upstream.close()
            last = error.strerror or (str(error) or f"no answer within {CONNECT_SECONDS:.0f} s")
        except BaseException:
            upstream.close()
            raise
        else:
            return upstream, address
    return Unreachable(last)


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET
