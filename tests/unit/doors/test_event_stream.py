"""A stream that cannot go on is cut: ended as if that were all, a client would believe it had everything."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from outlast.core.errors import StoreUnavailable
from outlast.doors.http import event_stream
from outlast.doors.http.event_stream import ABORT, EventStream


async def sent(frames: AsyncIterator[bytes], cuts: list[str]) -> list[dict[str, Any]]:
    """What a stream of these frames sends to somebody who stays."""
    messages: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        messages.append(message)

    answer: Any = EventStream("a-session", frames, follow=False).to_asgi_response()
    await answer({ABORT: lambda: cuts.append("cut")}, asyncio.Event().wait, send)
    return messages


async def test_frames_that_end_end_the_answer() -> None:
    async def frames() -> AsyncIterator[bytes]:
        yield b"id: 1\n\n"

    cuts: list[str] = []
    start, first, last = await sent(frames(), cuts)
    assert (start["status"], first["body"], last["more_body"], cuts) == (200, b"id: 1\n\n", False, [])


async def test_a_store_that_is_away_cuts_it_and_is_logged_with_the_session(caplog: pytest.LogCaptureFixture) -> None:
    async def frames() -> AsyncIterator[bytes]:
        yield b"id: 1\n\n"
        raise StoreUnavailable("the database does not answer")

    cuts: list[str] = []
    with caplog.at_level(logging.WARNING):
        messages = await sent(frames(), cuts)
    assert [message.get("more_body") for message in messages] == [None, True]
    assert cuts == ["cut"]
    [line] = caplog.records
    assert line.message == "stream.cut"
    assert "a-session" in str(vars(line))


async def test_a_reader_that_stands_still_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "WRITE_SECONDS", 0.02)
    closed = asyncio.Event()

    async def frames() -> AsyncIterator[bytes]:
        try:
            yield b"id: 1\n\n"
        finally:
            closed.set()

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    cuts: list[str] = []
    answer: Any = EventStream("a-session", frames(), follow=False).to_asgi_response()
    async with asyncio.timeout(30):
        await answer({ABORT: lambda: cuts.append("cut")}, asyncio.Event().wait, send)
    assert cuts == ["cut"]
    assert closed.is_set()
