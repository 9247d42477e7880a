"""Streams: from any cursor, with any cuts, everybody ends with the log and the draft that the store has."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from outlast.app.streams.broadcast import TAIL_FRAMES, StreamHub
from outlast.app.streams.cursor import BEGINNING, StreamCursor, cursor_from
from outlast.core import events as e
from outlast.core.errors import InvalidInput, SessionNotFound
from outlast.core.header import Header
from outlast.core.messages import TextPart
from outlast.store import lineage, open_store
from outlast.store.log_store import LogStore
from outlast.store.port import Append, Claim, Create, Delete, Lease, NewEvent, PutChunk
from outlast.testing.contract.exam import OPAQUE_HOLDER, admitted, new_id, said
from tests.support.sse import StreamClient

SOON = 5.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LogStore]:
    with open_store(f"sqlite:///{tmp_path / 'x.db'}") as opened:
        yield opened


class Author:
    """Writes a session as a driver does."""

    def __init__(self, store: LogStore) -> None:
        self.store, self.session_id = store, new_id()
        store.commit(Create(header=Header(session_id=self.session_id), events=(NewEvent(event=e.SessionCreated()),)))
        self.lease: Lease | None = None
        self.attempt = self.n = 0

    def say(self, text: str = "hi") -> int:
        return self._append(admitted(text))

    def begin(self) -> None:
        claim = Claim(session_id=self.session_id, token="t", holder=OPAQUE_HOLDER)
        [receipt] = self.store.commit(claim)
        self.lease = receipt.lease
        self.attempt, self.n = self._append(NewEvent(event=e.ModelRequested(model="m")), driver=True), 0

    def write(self, text: str, part: str = "text") -> None:
        assert self.lease is not None
        self.n += 1
        data = text.encode()
        self.store.commit(PutChunk(lease=self.lease, attempt_seq=self.attempt, n=self.n, part=part, data=data))

    def reply(self, text: str) -> int:
        event = e.AssistantReplied(attempt_seq=self.attempt, parts=(TextPart(text),))
        return self._append(NewEvent(event=event), driver=True)

    def _append(self, event: NewEvent, *, driver: bool = False) -> int:
        lease = self.lease if driver else None
        [receipt] = self.store.commit(Append(session_id=self.session_id, events=(event,), lease=lease))
        return receipt.seq


async def tip(live: StreamHub, author: Author, client: StreamClient, cursor: str = "0") -> None:
    async for data in live.frames(author.session_id, cursor_from(cursor), follow=False):
        client.feed(data)


async def until(frames: AsyncIterator[bytes], client: StreamClient, wanted: int, draft: str | None = None) -> None:
    """Read until the client has that many events (and that draft)."""
    async with asyncio.timeout(SOON):
        while client.seq < wanted or (draft is not None and client.draft != draft):
            client.feed(await anext(frames))


@pytest.mark.parametrize(
    ("text", "cursor"), [("0", (0, 0)), ("12", (12, 0)), ("12:3", (12, 3)), (" 7 ", (7, 0)), ("0:1", (0, 1))]
)
def test_a_cursor_is_a_seq_or_a_piece_of_a_draft(text: str, cursor: tuple[int, int]) -> None:
    assert cursor_from(text) == cursor


@pytest.mark.parametrize(
    "text", ["", "-1", "1:", ":1", "1:0", "1:-1", "1.5", "x", "01", "1:2:3", "٣", "1e3", "9" * 17, "1 2", "0x1", "1\n2"]
)
def test_other_text_is_an_invalid_cursor(text: str) -> None:
    with pytest.raises(InvalidInput, match="invalid cursor"):
        cursor_from(text)


async def test_without_a_cursor_everything_comes_from_the_first_event_on(store: LogStore) -> None:
    author, client = Author(store), StreamClient()
    for n in range(600):
        author.say(f"message {n}")
    await tip(StreamHub(store), author, client)
    assert client.ids == [str(n) for n in range(1, 602)]
    assert client.events[1]["body"]["parts"] == [{"type": "text", "text": "message 0"}]


async def test_a_bare_cursor_gets_the_whole_draft_in_one_frame_and_then_its_pieces(store: LogStore) -> None:
    author, client = Author(store), StreamClient()
    author.begin()
    for text in ("Once ", "upon ", "a "):
        author.write(text)
    live = StreamHub(store)
    async with aclosing(live.frames(author.session_id, StreamCursor(2))) as frames:
        client.events = [{"seq": 2}]
        client.feed(await anext(frames))
        assert client.ids == ["2:3"]
        assert client.draft == "Once upon a "
        author.write("time")
        await until(frames, client, 2, "Once upon a time")
    assert client.ids == ["2:3", "2:4"]


async def test_a_draft_cursor_gets_only_what_is_missing(store: LogStore) -> None:
    author, client = Author(store), StreamClient()
    author.begin()
    for text in ("a", "b", "c"):
        author.write(text)
    live = StreamHub(store)
    await tip(live, author, client)
    author.write("d")
    author.write("e")
    await tip(live, author, client, "2:3")
    assert client.draft == "abcde"
    assert client.ids == ["1", "2", "2:3", "2:4", "2:5"]


async def test_what_a_door_writes_into_a_draft_repeats_none_of_it(store: LogStore) -> None:
    author, client = Author(store), StreamClient()
    author.begin()
    author.write("a")
    live = StreamHub(store)
    await tip(live, author, client)
    author.say("steer")
    await tip(live, author, client, client.connected())
    author.write("b")
    await tip(live, author, client, client.connected())
    assert client.ids == ["1", "2", "2:1", "3", "3:2"]
    assert client.draft == "ab"


async def test_a_draft_that_was_closed_is_not_sent_and_its_reply_is(store: LogStore) -> None:
    author, client = Author(store), StreamClient()
    author.begin()
    author.write("half")
    live = StreamHub(store)
    await tip(live, author, client)
    author.write(" done")
    author.reply("half done")
    author.begin()
    author.write("next")
    await tip(live, author, client, client.connected())
    assert client.ids == ["1", "2", "2:1", "3", "4", "4:1"]
    assert client.draft == "next"


async def test_parts_of_a_draft_are_told_apart(store: LogStore) -> None:
    author, client = Author(store), StreamClient()
    author.begin()
    author.write("hm", "reasoning")
    author.write("Hello")
    author.write('{"a"', "call:0:write")
    told = b"".join([data async for data in StreamHub(store).frames(author.session_id, StreamCursor(2), follow=False)])
    client.events = [{"seq": 2}]
    client.feed(told)
    data = json.loads(told.decode().partition("data: ")[2])
    assert (data["text"], data["replace"], data["n"]) == ("Hello", True, 3)
    assert [part["part"] for part in data["parts"]] == ["reasoning", "text", "call:0:write"]


@pytest.mark.parametrize("cursor", ["4", "999", "3:1", "2:9"])
async def test_a_cursor_from_the_future_is_told_to_start_anew(store: LogStore, cursor: str) -> None:
    author, client = Author(store), StreamClient()
    author.begin()
    author.write("a")
    if cursor == "3:1":
        author.reply("a")  # event 3, with no draft behind it
    last = store.head(author.session_id).last_seq
    told = b"".join([d async for d in StreamHub(store).frames(author.session_id, cursor_from(cursor), follow=False)])
    assert told.startswith(b'event: resync\ndata: {"last_seq":%d}\n\n' % last)
    client.events = [{"seq": last}]
    client.feed(told)
    assert client.resyncs == 1
    assert client.draft == ("" if cursor == "3:1" else "a")


@pytest.mark.parametrize("cursor", ["0:1", "1:1", "3:1"])
async def test_a_cursor_of_a_draft_where_none_was_is_told_to_start_anew(store: LogStore, cursor: str) -> None:
    author = Author(store)
    author.begin()
    author.write("a")
    author.reply("a")
    author.say("more")
    [told] = [data async for data in StreamHub(store).frames(author.session_id, cursor_from(cursor), follow=False)]
    assert told == b'event: resync\ndata: {"last_seq":4}\n\n'


async def test_followers_hear_of_everything_and_of_nothing_twice(store: LogStore) -> None:
    author, live = Author(store), StreamHub(store)
    clients = [StreamClient() for _ in range(10)]
    streams = [live.frames(author.session_id) for _ in clients]
    reading = [
        asyncio.create_task(until(frames, client, 63, "")) for frames, client in zip(streams, clients, strict=True)
    ]
    for turn in range(20):
        await asyncio.to_thread(author.say, f"message {turn}")
        await asyncio.to_thread(author.begin)
        await asyncio.to_thread(author.write, "so ")
        if turn < 19:
            await asyncio.to_thread(author.reply, "so be it")
    await asyncio.to_thread(author.reply, "so be it")
    await asyncio.to_thread(author.say, "the end")
    await asyncio.to_thread(author.say, "really")
    await asyncio.gather(*reading)
    for frames in streams:
        await frames.aclose()
    assert {tuple(client.kinds) for client in clients} == {tuple(clients[0].kinds)}
    assert live.followers == 0


async def test_a_reader_that_falls_behind_the_tail_reads_on_from_the_store(store: LogStore) -> None:
    author, client, live = Author(store), StreamClient(), StreamHub(store)
    async with aclosing(live.frames(author.session_id)) as frames:
        await until(frames, client, 1)
        events = tuple(said(f"{n}") for n in range(256))
        for _ in range(TAIL_FRAMES // 256 + 3):
            store.commit(Append(session_id=author.session_id, events=events))
        last = store.head(author.session_id).last_seq
        other = StreamClient()
        async with aclosing(live.frames(author.session_id)) as others:  # takes the channel past its tail
            await until(others, other, last)
        await until(frames, client, last)
    assert client.kinds == other.kinds


async def test_silence_is_broken_by_heartbeats_without_an_id(store: LogStore) -> None:
    author, client = Author(store), StreamClient()
    async with aclosing(StreamHub(store, heartbeat_seconds=0.01).frames(author.session_id)) as frames:
        async with asyncio.timeout(SOON):
            while client.heartbeats < 3:
                client.feed(await anext(frames))
    assert client.ids == ["1"]


async def test_a_stream_ends_with_its_session(store: LogStore) -> None:
    live, deleted, rotated = StreamHub(store), Author(store), Author(store)
    deleted_stream, rotated_stream = live.frames(deleted.session_id), live.frames(rotated.session_id)
    client = StreamClient()
    await anext(deleted_stream)
    await until(rotated_stream, client, 1)
    store.commit(Delete(session_id=deleted.session_id, actor="user/test"))
    claimed = store.commit(Claim(session_id=rotated.session_id, token="t", holder=OPAQUE_HOLDER))
    parent, child = store.head(rotated.session_id), new_id()
    lease = claimed[0].lease
    assert lease is not None
    store.commit(*lineage.rotate(parent, child, token="u", holder=OPAQUE_HOLDER, lease=lease, carried=[], events=()))
    async with asyncio.timeout(SOON):
        assert [data async for data in deleted_stream] == []
        async for data in rotated_stream:
            client.feed(data)
    assert client.kinds[-1] == "SessionRotated"
    # The child shows the parent's history, and its own stream goes on behind it.
    tale = StreamClient()
    async for data in live.frames(child, BEGINNING, follow=False):
        tale.feed(data)
    assert tale.seq == store.head(child).last_seq


async def test_closing_ends_every_stream(store: LogStore) -> None:
    author, live = Author(store), StreamHub(store)
    stream = live.frames(author.session_id)
    await anext(stream)
    waiting = asyncio.ensure_future(anext(stream, b"over"))
    await asyncio.sleep(0)
    live.close()
    async with asyncio.timeout(SOON):
        assert await waiting == b"over"


async def test_a_session_that_is_not_there_raises(store: LogStore) -> None:
    with pytest.raises(SessionNotFound):
        await anext(StreamHub(store).frames(new_id()))


async def test_an_unknown_kind_cannot_break_a_frame(store: LogStore) -> None:
    author = Author(store)
    author.say("line one\nline two\r\n\r\ndata: x\u2028")
    client = StreamClient()
    await tip(StreamHub(store), author, client)
    assert client.events[1]["body"]["parts"][0]["text"] == "line one\nline two\r\n\r\ndata: x\u2028"


async def test_random_cuts_and_cursors_leave_every_client_with_the_same_log(store: LogStore) -> None:
    """Clients are cut in the middle of frames and come back with either kind of cursor while five turns stream."""
    dice = random.Random(5)
    author, live = Author(store), StreamHub(store)
    clients = [StreamClient() for _ in range(6)]
    done = asyncio.Event()

    async def follow(client: StreamClient, own: random.Random) -> None:
        while not (done.is_set() and client.seq == store.head(author.session_id).last_seq):
            cursor = client.connected(bare=own.random() < 0.3) or "0"
            client.ids = []  # each is seen once on a connection; a bare cursor may bring the draft's once more
            budget = own.randrange(20, 4_000)
            async with aclosing(
                live.frames(author.session_id, cursor_from(cursor), follow=not done.is_set())
            ) as frames:
                async for data in frames:
                    client.feed(data[:budget])
                    budget -= len(data)
                    if budget <= 0 or done.is_set():
                        break

    reading = [asyncio.create_task(follow(client, random.Random(n))) for n, client in enumerate(clients)]
    for turn in range(5):
        await asyncio.to_thread(author.say, f"question {turn}")
        await asyncio.to_thread(author.begin)
        words = [f"word{n} " for n in range(dice.randrange(20, 60))]
        for word in words:
            await asyncio.to_thread(author.write, word)
            if dice.random() < 0.1:
                await asyncio.to_thread(author.say, "meanwhile")
        await asyncio.to_thread(author.reply, "".join(words))
    done.set()
    author.say("the end")
    async with asyncio.timeout(20):
        await asyncio.gather(*reading)
    stored = [(row.seq, row.kind) for row in store.read(author.session_id)]
    for client in clients:
        assert [(event["seq"], event["kind"]) for event in client.events] == stored
