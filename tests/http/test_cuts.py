"""Streams that are cut anywhere, by a server that is killed: every client ends with the server's log."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from tests.support.http_server import Server, reply
from tests.support.sse import StreamClient

SESSIONS = 5
WORDS = " ".join(f"word{n}" for n in range(150))


class Cutter:
    """A client that is cut off after some bytes, again and again, and always comes back with its cursor."""

    def __init__(self, server: Server, session_id: str, seed: int) -> None:
        self.client = StreamClient()
        self.cuts = self.refused = 0
        self._server, self._session_id = server, session_id
        self._dice = random.Random(seed)

    async def run(self, wanted: int, last: asyncio.Future[int]) -> None:
        """Be cut `wanted` times at least, then follow until the last event is there."""
        while self.cuts < wanted or not last.done() or self.client.seq < last.result():
            self.client.ids.clear()  # on one connection an id comes once; a bare cursor may bring the draft's again
            patient = self.cuts >= wanted and last.done()
            cursor = self.client.connected(bare=self._dice.random() < 0.3)
            try:
                async with asyncio.timeout(2.0):
                    await self._connection(cursor, 1 << 30 if patient else self._dice.randrange(1, 3_000))
            except (OSError, TimeoutError, asyncio.IncompleteReadError):
                self.refused += 1  # the server is dead just now, or silent
                await asyncio.sleep(0.02)
            self.cuts += 1

    async def _connection(self, cursor: str, budget: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._server.port)
        try:
            asked = f"GET /api/sessions/{self._session_id}/stream HTTP/1.1\r\nHost: 127.0.0.1:{self._server.port}\r\n"
            sent = f"Last-Event-ID: {cursor}\r\n" if cursor else ""
            writer.write(f"{asked}{sent}Authorization: Bearer {self._server.token}\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            assert b" 200 " in head.split(b"\r\n")[0], head
            while budget > 0 and (size := int(await reader.readline() or b"0", 16)):
                data = await reader.readexactly(min(size, budget))
                budget -= len(data)
                self.client.feed(data)
                await reader.readexactly(2 if budget else 0)
        finally:
            writer.transport.abort()


async def cut_everywhere(server: Server, *, cuts: int, restarts: int, readers: int = 2) -> list[Cutter]:
    """Five turns stream while everybody is cut and the server is killed; the clients, each with its whole log."""
    loop = asyncio.get_running_loop()
    sessions = [server.create() for _ in range(SESSIONS)]
    lasts: dict[str, asyncio.Future[int]] = {session_id: loop.create_future() for session_id in sessions}
    cutters = [Cutter(server, session_id, seed) for seed, session_id in enumerate(sessions * readers)]
    each = -(-cuts // len(cutters))
    following = [asyncio.create_task(one.run(each, lasts[one._session_id])) for one in cutters]
    for session_id in sessions:
        await asyncio.to_thread(server.post, session_id, "tell me")
    for _ in range(restarts):
        await asyncio.sleep(0.8)
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
    for session_id in sessions:
        await asyncio.to_thread(server.until_idle, session_id)
        lasts[session_id].set_result(server.detail(session_id)["last_seq"])
    async with asyncio.timeout(60):
        await asyncio.gather(*following)
    return cutters


def check(server: Server, cutters: list[Cutter], cuts: int) -> None:
    assert sum(one.cuts for one in cutters) >= cuts
    with server.store() as store:
        for one in cutters:
            stored = [(row.seq, row.kind, row.at) for row in store.read(one._session_id)]
            assert [(event["seq"], event["kind"], event["at"]) for event in one.client.events] == stored
            assert one.client.resyncs == 0
            [replied] = [event for event in one.client.events if event["kind"] == "AssistantReplied"]
            assert replied["body"]["parts"] == [{"type": "text", "text": WORDS}]


@pytest.mark.slow
async def test_every_client_ends_with_the_servers_log_whatever_was_cut_and_killed(tmp_path: Path) -> None:
    with Server(tmp_path) as server:
        server.says(reply(WORDS, delay_ms=1_500))
        check(server, await cut_everywhere(server, cuts=100, restarts=2), 100)


@pytest.mark.soak
async def test_two_thousand_cuts_and_twenty_restarts(tmp_path: Path) -> None:
    with Server(tmp_path) as server:
        server.says(*[reply(WORDS, delay_ms=1_000)])
        for _ in range(10):  # a turn is given up when it is taken over three times and gets no further
            check(server, await cut_everywhere(server, cuts=200, restarts=2), 200)
