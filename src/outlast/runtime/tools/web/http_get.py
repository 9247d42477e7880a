"""As much of HTTP/1.1 as a fetch needs: one GET over a connection that was checked before a byte was sent.

Which addresses the web is made of. Everything near us is not: this machine, its networks, its cloud's metadata.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import zlib
from collections.abc import AsyncIterator

import msgspec

HEAD_LIMIT = 64 * 1024
CHUNK = 32 * 1024


class BadReply(Exception):
    """The server's answer is not HTTP as we read it."""


class HttpReply(msgspec.Struct, frozen=True):
    """An answer. `cut` says that its body was longer than what is here. Header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes
    cut: bool


async def get(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, target: str, limit: int
) -> HttpReply:
    """Ask for `target` and read at most `limit` bytes of it, unpacked."""
    lines = (
        f"GET {target} HTTP/1.1",
        f"Host: {host}",
        "User-Agent: outlast",
        "Accept: text/html, text/plain, application/json, */*;q=0.5",
        "Accept-Encoding: gzip",
        "Connection: close",
    )
    writer.write("\r\n".join((*lines, "", "")).encode("ascii"))
    await writer.drain()
    try:
        status, headers = await _head(reader)
        while 100 <= status < 200:
            status, headers = await _head(reader)
        body, cut = await _body(reader, headers, limit) if status not in (204, 304) else (b"", False)
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError, zlib.error) as error:
        raise BadReply(f"its answer could not be read: {error}") from error
    return HttpReply(status, headers, body, cut)


async def _head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *rest = head.decode("latin-1").split("\r\n")
    words = first.split(" ", 2)
    if len(words) < 2 or not words[0].startswith("HTTP/1."):
        raise BadReply("its answer is not HTTP")
    pairs = [line.partition(":") for line in rest if ":" in line]
    return int(words[1]), {name.strip().lower(): value.strip() for name, _, value in pairs}


async def _body(reader: asyncio.StreamReader, headers: dict[str, str], limit: int) -> tuple[bytes, bool]:
    unpacking = zlib.decompressobj(wbits=47) if headers.get("content-encoding", "") in ("gzip", "deflate") else None
    body = bytearray()
    async for data in _raw(reader, headers):
        body += unpacking.decompress(data, limit + 1 - len(body)) if unpacking else data
        if len(body) > limit or (unpacking is not None and unpacking.unconsumed_tail):
            return bytes(body[:limit]), True
    return bytes(body), False


async def _raw(reader: asyncio.StreamReader, headers: dict[str, str]) -> AsyncIterator[bytes]:
    if headers.get("transfer-encoding", "").lower() == "chunked":
        while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
            async for data in _exactly(reader, size):
                yield data
            await reader.readexactly(2)
    elif "content-length" in headers:
        async for data in _exactly(reader, int(headers["content-length"])):
            yield data
    else:
        while data := await reader.read(CHUNK):
            yield data


async def _exactly(reader: asyncio.StreamReader, size: int) -> AsyncIterator[bytes]:
    if size < 0:
        raise ValueError("a negative length")
    while size:
        data = await reader.read(min(size, CHUNK))
        if not data:
            raise asyncio.IncompleteReadError(b"", size)
        size -= len(data)
        yield data


IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_NUMERIC = re.compile(r"(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+))*\.?", re.IGNORECASE)


def forbidden(address: str) -> str | None:
    """Why an address may not be fetched from, or None. What is inside a mapped or translated one counts."""
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
        if not each.is_global:
            return "it is not a public address"
    return None


def _inside(address: IPAddress) -> list[IPAddress]:
    """The addresses that an IPv6 address carries: mapped, compatible, 6to4, Teredo, NAT64."""
    if isinstance(address, ipaddress.IPv4Address):
        return []
    found: list[IPAddress | None] = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in _NAT64 or int(address) >> 32 == 0:
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return [each for each in found if each is not None]


def is_odd_number(host: str) -> bool:
    """A host that some resolvers take for an address although it is not written as one: 2130706433, 0x7f.1, 127.1."""
    if _NUMERIC.fullmatch(host) is None:
        return False
    try:
        return str(ipaddress.IPv4Address(host)) != host
    except ValueError:
        return True
