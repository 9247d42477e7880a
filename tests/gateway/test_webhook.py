"""The generic webhook: signed both ways, stored before it is answered, worth nothing when it is old or forged."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from outlast.core import events as e
from outlast.doors.gateway.platforms.webhook import BadSignature, Webhook, key_of, signature, signed
from tests.gateway.echo import Echo
from tests.gateway.room import OWNER
from tests.gateway.world import World, eventually, inputs_of, kinds_of, running

SECRET = "a-secret-of-at-least-32-characters!"
KEY = key_of(SECRET)
PATH = "/gateway/webhook/test"


class Callback:
    """The other side's server: checks what it gets, and answers as it is told to."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.ids: list[str] = []
        self.answers: list[int] = []
        self.news = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {key.lower(): value for key, _, value in (line.partition(": ") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers["content-length"]))
        wanted = signature(KEY, headers["webhook-id"], headers["webhook-timestamp"], body)
        assert headers["webhook-signature"] == wanted
        status = self.answers.pop(0) if self.answers else 200
        if status != 503:
            self.got.append(msgspec.json.decode(body))
            self.ids.append(headers["webhook-id"])
            self.news.set()
        writer.write(f"HTTP/1.1 {status} X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode())
        await writer.drain()
        writer.close()


@asynccontextmanager
async def listening(tmp_path: Path, model: Echo | None = None, **table: Any) -> AsyncGenerator[tuple[World, Callback]]:
    callback = Callback()
    server = await asyncio.start_server(callback.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/replies"
    platform = Webhook(SECRET, url)
    async with running(tmp_path, model=model, chat_platform=platform, edit_seconds=0.0, **table) as world:
        yield world, callback
    server.close()
    await server.wait_closed()


async def posted(
    world: World, message: object, message_id: str = "m1", *, at: int | None = None, key: bytes = KEY, path: str = PATH
) -> httpx.Response:
    body = message if isinstance(message, bytes) else msgspec.json.encode(message)
    headers = signed(key, message_id, body, int(time.time()) if at is None else at)
    transport = httpx.ASGITransport(app=world.gateway.endpoint)
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
        return await client.post(path, content=body, headers=headers)


def said(text: str, **more: object) -> dict[str, object]:
    return {"chat": "room 1", "user": OWNER, "text": text, **more}


async def test_a_signed_message_is_stored_answered_and_replied_to(tmp_path: Path) -> None:
    async with listening(tmp_path) as (world, callback):
        answer = await posted(world, said("hello", thread="t/1", message_id="x7"))
        assert answer.status_code == 200
        found = answer.json()
        assert inputs_of(world.store, found["session_id"]) == ["hello"]
        await callback.news.wait()
        [reply] = callback.got
        assert (reply["chat"], reply["thread"], reply["text"]) == ("room 1", "t/1", "re: hello")
        assert (reply["kind"], reply["repeat"], reply["session_id"]) == ("turn", False, found["session_id"])


async def test_the_same_id_is_one_message_and_the_same_answer(tmp_path: Path) -> None:
    async with listening(tmp_path) as (world, callback):
        answers = [await posted(world, said("hello")) for _ in range(5)]
        assert len({answer.text for answer in answers}) == 1
        await callback.news.wait()
        assert inputs_of(world.store, answers[0].json()["session_id"]) == ["hello"]
        other = await posted(world, said("something else"))
        assert other.status_code == 409


async def test_what_is_said_where_there_is_no_session_has_the_same_fields(tmp_path: Path) -> None:
    async with listening(tmp_path) as (world, callback):
        assert (await posted(world, said("/help"), "m1")).json() == {}
        await eventually(lambda: len(callback.got) == 1)
        await posted(world, said("hello"), "m2")
        await eventually(lambda: len(callback.got) == 2)
        notice, turn = callback.got
        assert notice.keys() == turn.keys()
        assert (notice["kind"], notice["session_id"], notice["part"], notice["parts"]) == ("notice", None, 1, 1)


async def test_a_command_that_comes_again_is_answered_as_it_was_though_it_would_say_something_else(
    tmp_path: Path,
) -> None:
    async with listening(tmp_path) as (world, callback):
        await posted(world, said("hello"))
        await eventually(lambda: len(callback.got) == 1)
        first = [await posted(world, said(text), text) for text in ("/status", "/sessions", "/new")]
        await posted(world, said("in the new one"), "m2")
        again = [await posted(world, said(text), text) for text in ("/status", "/sessions", "/new")]
        assert [answer.text for answer in again] == [answer.text for answer in first]
        assert [answer.status_code for answer in again] == [200, 200, 200]
        other = await posted(world, said("/help"), "/status")
        assert other.status_code == 409
        await eventually(lambda: len(callback.got) == 5)
        assert len(set(callback.ids)) == 5


async def test_a_bad_signature_is_refused_whatever_is_wrong_with_it(tmp_path: Path) -> None:
    async with listening(tmp_path) as (world, _):
        now = int(time.time())
        refused = [
            await posted(world, said("x"), key=b"another secret"),
            await posted(world, said("x"), at=now - 301),
            await posted(world, said("x"), at=now + 301),
            await posted(world, said("x"), path="/gateway/webhook/other"),
            await posted(world, said("x"), path="/gateway/webhook/test/"),
            await posted(world, said("x"), message_id="i" * 201),
        ]
        assert [answer.status_code for answer in refused] == [401] * 6
        assert len({answer.text for answer in refused}) == 1, "nobody learns what was wrong, or which names there are"
        assert world.store.routes() == []


def test_every_part_of_a_request_is_signed() -> None:
    webhook, body, now = Webhook(SECRET, "http://x"), b'{"chat":"1"}', 1_700_000_000
    headers = signed(KEY, "id", body, now)
    assert webhook.verify(headers, body, now) == "id"
    assert webhook.verify({**headers, "webhook-signature": f"v1,abc {headers['webhook-signature']}"}, body, now) == "id"
    for changed in (
        {**headers, "webhook-id": "id2"},
        {**headers, "webhook-timestamp": str(now + 1)},
        {**headers, "webhook-timestamp": "١٢٣"},
        {**headers, "webhook-signature": ""},
        {**headers, "webhook-signature": headers["webhook-signature"][3:]},
        {**headers, "webhook-signature": "v1,ü"},
        {"webhook-signature": headers["webhook-signature"]},
    ):
        with pytest.raises(BadSignature):
            webhook.verify(changed, body, now)
    with pytest.raises(BadSignature):
        webhook.verify(headers, body + b" ", now)


def test_a_secret_may_be_written_as_the_libraries_write_it() -> None:
    assert key_of("whsec_" + base64.b64encode(b"the key").decode()) == b"the key"
    assert key_of("just text") == b"just text"


async def test_what_is_signed_and_no_message_is_told_by_field(tmp_path: Path) -> None:
    async with listening(tmp_path) as (world, _):
        for body, told in (
            (b"{", "not a message"),
            (b"\xff", "not a message"),
            (said("x", extra=1), "extra"),
            ({"user": OWNER, "text": "x"}, "chat"),
            ({"chat": "", "user": OWNER, "text": "x"}, "empty"),
            (said("x", thread="t" * 400), "more than a route can hold"),
        ):
            answer = await posted(world, body)
            assert answer.status_code == 400
            assert told in answer.json()["detail"]
        huge = await posted(world, said("x" * 300_000))
        assert huge.status_code == 413


async def test_a_user_who_is_no_owner_gets_nothing_through_a_signed_request_either(tmp_path: Path) -> None:
    async with listening(tmp_path) as (world, callback):
        answer = await posted(world, {"chat": "room 1", "user": "6666", "text": "hello"})
        assert (answer.status_code, answer.json()) == (200, {})
        assert world.store.routes() == []
        assert callback.got == []


async def test_other_paths_and_methods_are_nothing(tmp_path: Path) -> None:
    async with listening(tmp_path) as (world, _):
        transport = httpx.ASGITransport(app=world.gateway.endpoint)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            assert (await client.get(PATH)).status_code == 405
            assert (await client.post("/elsewhere")).status_code == 404


async def test_a_callback_that_is_away_is_tried_again_under_the_same_id(tmp_path: Path) -> None:
    async with listening(tmp_path) as (world, callback):
        callback.answers = [503, 500]
        answer = await posted(world, said("hello"))
        await eventually(lambda: len(callback.got) == 2)
        assert len(set(callback.ids)) == 1
        assert [reply["repeat"] for reply in callback.got] == [False, True]
        session = answer.json()["session_id"]
        await eventually(lambda: bool(kinds_of(world.store, session, e.DeliveryClosed)))
        assert all(reply["text"] == "re: hello" for reply in callback.got)


async def test_a_callback_that_says_gone_is_given_up(tmp_path: Path) -> None:
    async with listening(tmp_path) as (world, callback):
        callback.answers = [410]
        session = (await posted(world, said("hello"))).json()["session_id"]
        await eventually(lambda: bool(kinds_of(world.store, session, e.DeliveryClosed)))
        [closed] = kinds_of(world.store, session, e.DeliveryClosed)
        assert closed.outcome == "failed"


async def test_commands_come_by_webhook_too(tmp_path: Path) -> None:
    async with listening(tmp_path) as (world, callback):
        await posted(world, said("hello"))
        await eventually(lambda: len(callback.got) == 1)
        new = await posted(world, said("/new"), "m2")
        await eventually(lambda: len(callback.got) == 2)
        assert callback.got[1]["kind"] == "notice"
        assert kinds_of(world.store, new.json()["session_id"], e.InputAdmitted) == []
