"""The SOCKS5 side of the proxy (RFC 1928, RFC 1929): CONNECT only, names and addresses, with the call's token as user.

A client that offers no user name and password is refused, since its connection belongs to no command.
"""

from __future__ import annotations

import ipaddress

from outlast.runtime.sandbox.network.connection import plain_host
from outlast.runtime.sandbox.network.handshake import ClientStream, KnowsToken, WantedConnection

VERSION = 5
_PASSWORD = 2
_CONNECT = 1
_IPV4, _NAME, _IPV6 = 1, 3, 4
_NOT_ALLOWED, _UNREACHABLE, _NO_COMMAND, _NO_ADDRESS_TYPE = 2, 4, 7, 8


class SocksHandshake:
    async def read(self, stream: ClientStream, knows: KnowsToken) -> WantedConnection | bytes | None:
        token = await self._authenticate(stream, knows)
        if not isinstance(token, str):
            return token
        head = await stream.read_exactly(4)
        if head is None or head[0] != VERSION:
            return None
        if head[1] != _CONNECT:
            return reply(_NO_COMMAND)
        if head[3] not in (_IPV4, _NAME, _IPV6):
            return reply(_NO_ADDRESS_TYPE)
        host = await self._host(stream, head[3])
        port = await stream.read_exactly(2)
        if host is None or port is None:
            return None
        plain = plain_host(host)
        number = int.from_bytes(port, "big")
        if not plain or number == 0:
            return reply(_NO_ADDRESS_TYPE)
        return WantedConnection(token=token, host=plain, port=number)

    async def _authenticate(self, stream: ClientStream, knows: KnowsToken) -> str | bytes | None:
        head = await stream.read_exactly(2)
        methods = await stream.read_exactly(head[1]) if head is not None else None
        if methods is None:
            return None
        if _PASSWORD not in methods:
            return bytes((VERSION, 0xFF))
        await stream.send(bytes((VERSION, _PASSWORD)))
        version = await stream.read_exactly(1)
        user = await self._counted(stream)
        password = await self._counted(stream)
        if version != b"\x01" or user is None or password is None:
            return None
        token = user.decode("latin-1")
        if not knows(token):
            return b"\x01\x01"
        await stream.send(b"\x01\x00")
        return token

    async def _counted(self, stream: ClientStream) -> bytes | None:
        """Return a field that is preceded by its length in one byte."""
        count = await stream.read_exactly(1)
        return await stream.read_exactly(count[0]) if count is not None else None

    async def _host(self, stream: ClientStream, kind: int) -> str | None:
        if kind == _NAME:
            name = await self._counted(stream)
            return None if name is None else name.decode("latin-1")
        packed = await stream.read_exactly(4 if kind == _IPV4 else 16)
        return None if packed is None else str(ipaddress.ip_address(packed))

    def accept(self, wanted: WantedConnection) -> bytes:
        return reply(0)

    def block(self, host: str, reason: str) -> bytes:
        return reply(_NOT_ALLOWED)

    def fail(self, host: str, reason: str) -> bytes:
        return reply(_UNREACHABLE)


def reply(code: int) -> bytes:
    """Return an answer to CONNECT. The address in it is all zeros: clients ignore it, and it is not their business."""
    return bytes((VERSION, code, 0, _IPV4, 0, 0, 0, 0, 0, 0))
