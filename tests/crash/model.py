"""A model server with moods: OpenAI's chat completions over HTTP, streamed, and now and then broken.

What it says comes from `oracle.saying`, so it is always the right thing; how it says it comes from dice. It can answer
429 or 500, break off at any byte, send JSON that is none, stand still, or drip. `unreliability` is how often it does
any of that; the nemesis raises it, and at the end of a run everything that stands still is let go.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from tests.crash.oracle import Saying, saying

FAULTS = ("429", "500", "503", "cut", "malformed", "hang", "drip", "empty")
HANG_SECONDS = 4.0
PIECE = 24
DATA = b"data: "


class Answer(NamedTuple):
    """`body` may be cut at a byte, and `pause` seconds pass between its pieces."""

    status: int
    body: bytes
    cut: int | None = None
    pause: float = 0.0


class ModelServer:
    """Listens on a port of this machine. `asked` counts requests, `faults` what it did wrong, by name."""

    def __init__(self, seed: int, unreliability: float = 0.1) -> None:
        self.unreliability = self.usual = unreliability
        self.hang_seconds = HANG_SECONDS
        self.asked = 0
        self.faults: Counter[str] = Counter()
        self._dice = random.Random(f"{seed} model")
        self._go_on = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    async def start(self) -> int:
        """The port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=512)
        return self._server.sockets[0].getsockname()[1]

    def calm(self) -> None:
        """No more faults; whatever hangs is let go."""
        self.unreliability = 0.0
        self._go_on.set()

    async def close(self) -> None:
        self.calm()
        if self._server is not None:
            self._server.close()
        for writer in list(self._open):
            writer.transport.abort()

    # --- one connection

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, TimeoutError):
                while await self._one(reader, writer):
                    pass
        finally:
            self._open.discard(writer)
            writer.transport.abort()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request; whether the connection goes on."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().split("\r\n")
        length = next(int(line[15:]) for line in head if line.startswith("content-length:"))
        request = json.loads(await reader.readexactly(length))
        self.asked += 1
        fault = self._dice.choice(FAULTS) if self._dice.random() < self.unreliability else ""
        self.faults.update([fault] if fault else [])
        answer = self._answer(saying(request["messages"]), fault)
        if fault == "hang":
            with suppress(TimeoutError):
                await asyncio.wait_for(self._go_on.wait(), self.hang_seconds)
            return False
        await self._send(writer, answer)
        return answer.cut is None

    def _answer(self, said: Saying, fault: str) -> Answer:
        if fault.isdigit():
            return Answer(
                int(fault), json.dumps({"error": {"message": f"a fault of the laboratory ({fault})"}}).encode()
            )
        body = streamed(said)
        pause = self._dice.random() * 0.02
        match fault:
            case "cut":
                return Answer(200, body, cut=self._dice.randrange(len(body)), pause=pause)
            case "malformed":
                return Answer(200, malformed(body, self._dice))
            case "empty":
                return Answer(200, DATA + b"[DONE]\n\n")
            case "drip":
                return Answer(200, body, pause=0.15)
            case _:
                return Answer(200, body, pause=pause)

    async def _send(self, writer: asyncio.StreamWriter, answer: Answer) -> None:
        kind = "text/event-stream" if answer.status == 200 else "application/json"
        more = "retry-after: 0\r\n" if answer.status == 429 else ""
        head = f"HTTP/1.1 {answer.status} X\r\ncontent-type: {kind}\r\n{more}transfer-encoding: chunked\r\n\r\n"
        writer.write(head.encode())
        sent = answer.body if answer.cut is None else answer.body[: answer.cut]
        frames = sent.split(b"\n\n")
        for n, frame in enumerate(frames):
            data = frame + (b"\n\n" if n < len(frames) - 1 else b"")
            if data:
                writer.write(b"%x\r\n%s\r\n" % (len(data), data))
                await writer.drain()
            if answer.pause and not self._go_on.is_set():
                await asyncio.sleep(answer.pause)
        if answer.cut is None:
            writer.write(b"0\r\n\r\n")
        await writer.drain()


# ---- the wire -------------------------------------------------------------------------------------------------------


def streamed(said: Saying) -> bytes:
    """A reply as chat completions streams it."""
    chunks = [_chunk({"role": "assistant", "content": ""})]
    chunks += [_chunk({"content": said.text[n : n + PIECE]}) for n in range(0, len(said.text), PIECE)]
    for index, call in enumerate(said.calls):
        arguments = json.dumps(call.arguments)
        function: dict[str, Any] = {"name": call.tool, "arguments": ""}
        chunks.append(_chunk({"tool_calls": [_call(index, function, id=call.name, type="function")]}))
        for n in range(0, len(arguments), PIECE):
            chunks.append(_chunk({"tool_calls": [_call(index, {"arguments": arguments[n : n + PIECE]})]}))
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    chunks.append(_chunk({}, finish="tool_calls" if said.calls else "stop"))
    chunks.append({**_chunk({}), "choices": [], "usage": usage})
    return b"".join(DATA + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + DATA + b"[DONE]\n\n"


def malformed(body: bytes, dice: random.Random) -> bytes:
    """The same with half a piece put into another, so that neither can be read. Behind that one's `data: `: before it,
    both would be lines that every reader must ignore, and the reply a shorter one that is whole."""
    frames = body.split(b"\n\n")
    chosen = dice.randrange(len(frames) // 2)
    place = dice.randrange(len(DATA), len(frames[chosen]) + 1)
    frames[chosen] = frames[chosen][:place] + DATA + b'{"choices": [{"delta\n\n' + frames[chosen][place:]
    return b"\n\n".join(frames)


def _call(index: int, function: Mapping[str, Any], **more: str) -> dict[str, Any]:
    return {"index": index, **more, "function": function}


def _chunk(delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "lab", "choices": [choice]}
