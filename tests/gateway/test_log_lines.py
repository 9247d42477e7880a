"""What a gateway logs: one line each for what is not taken, and never what was said, nor a secret."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from outlast.app.logging_setup import log_to
from outlast.core.errors import DamagedSession
from outlast.doors.gateway.platform import NotSent, Rejected
from tests.gateway.room import STRANGER, Room
from tests.gateway.test_webhook import listening, posted, said
from tests.gateway.world import eventually, running

SECRET_WORDS = "what was said is nobody's business"


@pytest.fixture
def lines() -> Generator[io.StringIO]:
    stream, root = io.StringIO(), logging.getLogger()
    before, level = root.handlers[:], root.level
    log_to(stream, "json")
    yield stream
    root.handlers[:] = before
    root.setLevel(level)


def told(stream: io.StringIO, event: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in stream.getvalue().splitlines()]
    return [line for line in found if line["event"] == event]


async def test_strangers_and_forwarded_messages_are_one_line_each(tmp_path: Path, lines: io.StringIO) -> None:
    async with running(tmp_path) as world:
        world.room.say(SECRET_WORDS, user=STRANGER)
        world.room.say(SECRET_WORDS, forwarded=True)
        update = world.room.say(SECRET_WORDS)
        await world.room.heard(f"re: {SECRET_WORDS}")
        world.room.queue.put_nowait(update)
        await world.room.until(lambda: len(world.room.confirmed) == 4)
    assert [line["user"] for line in told(lines, "user.unknown")] == [STRANGER]
    assert len(told(lines, "update.forwarded")) == 1
    assert [line["gateway"] for line in told(lines, "gateway.connected")] == ["test"]
    assert SECRET_WORDS not in lines.getvalue()


async def test_a_platform_that_is_away_is_one_line_with_the_reason(tmp_path: Path, lines: io.StringIO) -> None:
    room = Room()
    room.trouble = [NotSent("no route to host", retry_after=0.01), NotSent("no route to host", retry_after=0.01)]
    room.faults = [NotSent("asked to wait"), Rejected("the bot was blocked")]
    async with running(tmp_path, room) as world:
        room.say("hello")
        await eventually(lambda: bool(world.store.routes()))
        await world.settled()
    assert [line["why"] for line in told(lines, "gateway.waits")] == ["no route to host"]
    assert [line["why"] for line in told(lines, "delivery.waits")] == ["asked to wait"]
    assert [line["why"] for line in told(lines, "delivery.failed")] == ["the bot was blocked"]


async def test_a_bad_signature_is_one_line(tmp_path: Path, lines: io.StringIO) -> None:
    async with listening(tmp_path) as (world, _):
        await posted(world, said(SECRET_WORDS), key=b"forged")
    assert len(told(lines, "webhook.bad_signature")) == 1
    assert SECRET_WORDS not in lines.getvalue()


async def test_a_damaged_session_is_one_line_and_one_answer(
    tmp_path: Path, lines: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as world:
        await world.asked("hello")
        await world.settled()
        session = world.session()

        def head(session_id: str) -> Any:
            raise DamagedSession(session_id, 3, "stored bytes do not match their hash")

        monkeypatch.setattr(world.store, "head", head)
        world.room.say("are you there")
        await world.room.until(lambda: any("is damaged" in text for text in world.room.texts()))
        assert session in world.room.texts()[-1]
        await world.gateway.look(world.line)
        await world.gateway.look(world.line)
        monkeypatch.undo()
    assert len(told(lines, "session.damaged")) == 1
    assert len(told(lines, "update.refused")) == 1
