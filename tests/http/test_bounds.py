"""Bounds: clients that send too much, too slowly or not at all are cut, and others are served meanwhile."""

from __future__ import annotations

import asyncio
import http.client
import socket
from collections.abc import AsyncGenerator

import pytest
from uvicorn.config import Config
from uvicorn.server import ServerState

from outlast.doors.http.middleware import limits
from outlast.doors.http.server import protocol
from outlast.doors.http.server.protocol import HEAD_BYTES, MOST_HEADERS, BoundedProtocol
from tests.http.inside import Inside
from tests.support.http_server import Server


def opened(server: Server, sent: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=30)
    connection.sendall(sent)
    return connection


def begun(server: Server) -> bytes:
    return f"POST /api/sessions HTTP/1.1\r\nHost: localhost:{server.port}\r\n".encode()


def test_a_head_that_is_too_large_is_refused(server: Server) -> None:
    for more in (b"X: " + b"x" * (2 * HEAD_BYTES) + b"\r\n", b"X: y\r\n" * (MOST_HEADERS + 1)):
        answer = server.raw(begun(server) + more + b"\r\n")
        assert answer == b"" or answer.startswith(b"HTTP/1.1 431 "), answer[:100]
    long = f"GET /api/sessions?q={'x' * 2 * HEAD_BYTES} HTTP/1.1\r\nHost: localhost:{server.port}\r\n\r\n".encode()
    assert server.raw(long).startswith(b"HTTP/1.1 4")


def test_a_head_that_never_ends_is_refused_before_it_fills_the_memory(server: Server) -> None:
    with opened(server, begun(server) + b"X: ") as connection:
        received = b""
        try:
            for _ in range(64):
                connection.sendall(b"x" * 65536)
        except (ConnectionResetError, BrokenPipeError):
            return
        received = connection.recv(100)
    assert received.startswith(b"HTTP/1.1 431 ")


async def test_slow_heads_are_cut_and_others_are_served_meanwhile(
    door: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.3)
    config = Config(door.door, http=BoundedProtocol, ws="none", lifespan="off", log_config=None, access_log=False)
    loop, state = asyncio.get_running_loop(), ServerState()
    listening = await loop.create_server(lambda: BoundedProtocol(config, state, {}, loop), "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    slow = [await asyncio.open_connection("127.0.0.1", port) for _ in range(100)]
    for _, writer in slow:
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: ")
    async with asyncio.timeout(60):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET /healthz HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n".encode())
        assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
        writer.close()
        for reader, writer in slow:
            assert await _rest(reader) == b""
            writer.close()
    listening.close()


async def _rest(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""


def test_nonsense_is_a_400_and_nothing_else(server: Server) -> None:
    for sent in (
        b"\0\0\0\0\r\n\r\n",
        b"GET\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 9,
        b"GET / HTTP/9\r\n\r\n",
    ):
        answer = server.raw(sent)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 400 "), answer
        assert b"Traceback" not in answer
    assert server.api("GET", "/healthz")


def test_a_body_that_is_announced_too_large_is_refused_before_it_is_read(server: Server) -> None:
    token = f"Authorization: Bearer {server.token}\r\nContent-Type: application/json\r\n".encode()
    answer = server.raw(begun(server) + token + b"Content-Length: 99999999999\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 413 ")
    for length in (b"-1", b"x", b"1, 2", b"+5"):
        assert server.raw(begun(server) + token + b"Content-Length: " + length + b"\r\n\r\n").startswith(
            b"HTTP/1.1 400 "
        )


def test_a_body_without_the_token_is_not_read_at_all(server: Server) -> None:
    more = b"Content-Type: application/json\r\nContent-Length: 1000\r\nConnection: close\r\n\r\n"
    answer = server.raw(begun(server) + more)
    assert answer.startswith(b"HTTP/1.1 401 ")


async def test_a_body_that_does_not_come_is_given_up(door: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits.whole_body, "__kwdefaults__", {"seconds": 0.05})

    async def body() -> AsyncGenerator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    answer = await door.api(
        "POST", "/api/sessions", content=body(), headers={"Content-Type": "application/json"}, status=408
    )
    assert "seconds" in answer["detail"]


@pytest.mark.parametrize("how", ["announced", "chunked"])
def test_a_client_that_sends_everything_before_it_reads_gets_its_413(server: Server, how: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
    path = f"/api/sessions/{server.create()}/messages"
    pieces = [b" " * 2**20] * 70
    if how == "announced":
        connection.request("POST", path, body=b"".join(pieces), headers=headers)
    else:
        connection.request("POST", path, body=iter(pieces), headers=headers, encode_chunked=True)
    answer = connection.getresponse()
    assert answer.status == 413
    assert answer.read() == b'{"detail":"the body is larger than 64 MiB"}'
    connection.close()


def test_chunked_bodies_count_too(server: Server) -> None:
    token = f"Authorization: Bearer {server.token}\r\nContent-Type: application/json\r\n".encode()
    with opened(server, begun(server) + token + b"Transfer-Encoding: chunked\r\n\r\n") as connection:
        piece = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
        try:
            for _ in range(64):
                connection.sendall(piece)
        except (ConnectionResetError, BrokenPipeError):
            return
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")
