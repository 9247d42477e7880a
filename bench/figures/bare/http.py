"""The least that answers the same over HTTP: uvicorn, a SELECT, the rows as JSON. Run as a module with the path of a
database it serves that on a free port, which it prints."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import msgspec

from bench.figures.bare.sqlite import BareSqlite

COLUMNS = ("id", "owner", "title", "state", "model", "message_count", "created_at", "updated_at")


class BareServer:
    def __init__(self, path: Path) -> None:
        self._database = BareSqlite(path)

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        name = scope["path"].removeprefix("/api/sessions").strip("/")
        limit = int(parse_qs(scope["query_string"].decode()).get("limit", ["200"])[0])
        body = await asyncio.to_thread(self._opened if name else self._listed, name, limit)
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _listed(self, name: str, limit: int) -> bytes:
        rows = self._database.newest_rows(limit)
        return msgspec.json.encode([dict(zip(COLUMNS, row, strict=True)) for row in rows])

    def _opened(self, name: str, limit: int) -> bytes:
        row, messages = self._database.opened(name, limit)
        told = [{"seq": n, "role": "user", "content": body.decode()} for n, body in messages]
        return msgspec.json.encode({"session": dict(zip(COLUMNS, row, strict=True)), "messages": told})


def main() -> None:
    import uvicorn

    listening = socket.socket(
        socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP
    )  # so that asyncio sets TCP_NODELAY
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    os.write(1, f"{listening.getsockname()[1]}\n".encode())  # the benchmark reads it
    config = uvicorn.Config(BareServer(Path(sys.argv[1])), log_level="error", lifespan="off", http="httptools")
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
