"""Limits: the size of a body, the time it may take to arrive, and the number of concurrent requests."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

from outlast.doors.http.json_body import Event, Receive, Scope, sole_header

MEBIBYTE = 1024 * 1024
MOST_BYTES = 2 * MEBIBYTE
MOST_BYTES_OF_MESSAGE = 64 * MEBIBYTE
"""Room for eight pictures of the largest size, as base64."""
MOST_DISCARDED = 256 * MEBIBYTE
"""A body that is too large is read up to here, and thrown away: most clients read the answer only after they have sent
everything, and would see a broken connection instead."""
PAUSE_SECONDS = 1.0
BODY_SECONDS = 60.0
MOST_REQUESTS = 256
MOST_STREAMS = 2048


class LimitExceeded(Exception):
    """A limit was exceeded; the request is refused with this status and this sentence."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


class ConcurrencyLimiter:
    """Counts the requests in progress. Streams stay open for hours, so they have a separate limit."""

    def __init__(self, requests: int = MOST_REQUESTS, streams: int = MOST_STREAMS) -> None:
        self.most = {False: requests, True: streams}
        self.taken = {False: 0, True: 0}

    @contextmanager
    def place(self, *, stream: bool) -> Generator[None]:
        if self.taken[stream] >= self.most[stream]:
            raise LimitExceeded(503, "the server has reached its limit of concurrent requests; try again in a moment")
        self.taken[stream] += 1
        try:
            yield
        finally:
            self.taken[stream] -= 1


def has_body(scope: Scope) -> bool:
    """Return whether the request announces a body."""
    if any(name == b"transfer-encoding" for name, _ in scope["headers"]):
        return True
    length = sole_header(scope, b"content-length")
    return length is not None and length.strip() != "0"


def most_bytes(scope: Scope) -> int:
    return MOST_BYTES_OF_MESSAGE if scope["path"].endswith("/messages") else MOST_BYTES


async def whole_body(scope: Scope, receive: Receive, *, seconds: float = BODY_SECONDS) -> bytes:
    """Read the whole body. Raises LimitExceeded if the body is too large, without keeping it. Also raises it if the
    body takes too long or the connection closes."""
    most, length = most_bytes(scope), sole_header(scope, b"content-length")
    if length is not None and length.isascii() and length.isdecimal() and (announced := int(length[:20])) > most:
        if announced <= MOST_DISCARDED and sole_header(scope, b"expect") is None:
            await _discard(receive, announced, seconds)
        raise _too_large(most)
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(seconds):
            while True:
                event = await receive()
                if event["type"] == "http.disconnect":
                    raise LimitExceeded(400, "the connection was closed before the whole body arrived")
                chunks.append(event.get("body", b""))
                size += len(chunks[-1])
                if size > most:
                    chunks.clear()
                    await _discard(receive, MOST_DISCARDED - size, seconds)
                    raise _too_large(most)
                if not event.get("more_body", False):
                    return b"".join(chunks)
    except TimeoutError as error:
        raise LimitExceeded(408, f"the body did not arrive within {seconds:g} seconds") from error


async def _discard(receive: Receive, most: int, seconds: float) -> None:
    """Read the rest of a body that is refused: at most so many bytes and seconds, and until its client pauses."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    try:
        async with asyncio.timeout(PAUSE_SECONDS) as scope:
            while most > 0 and loop.time() < end:
                event = await receive()
                scope.reschedule(loop.time() + PAUSE_SECONDS)
                most -= len(event.get("body", b""))
                if event["type"] == "http.disconnect" or not event.get("more_body", False):
                    return
    except TimeoutError:
        return


def _too_large(most: int) -> LimitExceeded:
    return LimitExceeded(413, f"the body is larger than {most // MEBIBYTE} MiB")


def replayed(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives the application the body already read, and then the events of the connection."""
    told = False

    async def receiving() -> Event:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receiving
