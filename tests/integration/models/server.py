"""A small HTTP server on loopback that answers what it was told to: bytes, cut where a test wants them cut."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Answer:
    """`cut`: how many bytes of the body are sent before the connection is gone; None for all of them."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    cut: int | None = None
    chunked: bool = True


@dataclass
class Server:
    url: str = ""
    answers: list[Answer] = field(default_factory=list[Answer])
    requests: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    connections: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])

    def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.append(asyncio.ensure_future(self._serve(reader, writer)))

    async def close(self) -> None:
        for connection in self.connections:
            connection.cancel()
        await asyncio.gather(*self.connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        length = next((int(line[15:]) for line in head if line.lower().startswith("content-length:")), 0)
        body = json.loads(await reader.readexactly(length) or b"null")
        if head[0].startswith("GET "):  # the question for the model's window; this server offers no list
            writer.write(b"HTTP/1.1 404 X\r\ncontent-length: 0\r\n\r\n")
            return True
        self.requests.append((head[0], body))
        answer = self.answers.pop(0)
        headers = {"content-type": "application/json"} | answer.headers
        headers |= {"transfer-encoding": "chunked"} if answer.chunked else {"content-length": str(len(answer.body))}
        lines = [f"HTTP/1.1 {answer.status} X", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        writer.write("\r\n".join(lines).encode())
        sent = answer.body if answer.cut is None else answer.body[: answer.cut]
        writer.write(
            b"%x\r\n%s\r\n" % (len(sent), sent) if answer.chunked and sent else b"" if answer.chunked else sent
        )
        if answer.cut is None and answer.chunked:
            writer.write(b"0\r\n\r\n")
        await writer.drain()
        return answer.cut is None


@asynccontextmanager
async def serving(*answers: Answer) -> AsyncGenerator[Server]:
    server = Server(answers=list(answers))
    listening = await asyncio.start_server(server.connected, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    try:
        yield server
    finally:
        listening.close()
        await server.close()


def stream(*chunks: object) -> bytes:
    """Server-sent events, as chat completions sends them."""
    return b"".join(b"data: %s\n\n" % (c.encode() if isinstance(c, str) else json.dumps(c).encode()) for c in chunks)


def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def said(text: str) -> Answer:
    body = stream(*(chunk({"content": piece}) for piece in text.split("|")), chunk({}, "stop"), "[DONE]")
    return Answer(body=body, headers={"content-type": "text/event-stream"})


def error(status: int, message: str, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, json.dumps({"error": {"message": message}}).encode(), named, chunked=False)
