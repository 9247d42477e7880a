"""A chat-completions server for tests: a function answers each request. Real sockets, real server-sent events."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import MappingProxyType, TracebackType
from typing import Any, NamedTuple, Self


class HttpError(NamedTuple):
    status: int
    message: str
    headers: Mapping[str, str] = MappingProxyType({})


Answer = Callable[[dict[str, Any]], str | HttpError]
"""Takes the body of a request; returns the text of the reply, or an error. It may block."""


class ChatServer:
    """Use as a context; `url` is its address, `bodies` are the requests so far."""

    def __init__(self, answer: Answer) -> None:
        self.bodies: list[dict[str, Any]] = []
        bodies = self.bodies

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if not self.path.endswith("/chat/completions"):  # other servers are asked for the size of their window
                    self._send(HttpError(404, "not here"))
                    return
                bodies.append(body)
                said = answer(body)
                with suppress(BrokenPipeError, ConnectionResetError):  # its client was killed
                    if isinstance(said, HttpError):
                        self._send(said)
                    else:
                        self._stream(said)

            def _send(self, error: HttpError) -> None:
                data = json.dumps({"error": {"message": error.message, "type": "api_error"}}).encode()
                self.send_response(error.status)
                for name, value in error.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def _stream(self, text: str) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
                for delta, finish in (({"role": "assistant", "content": text}, None), ({}, "stop")):
                    choice = {"index": 0, "delta": delta, "finish_reason": finish}
                    chunk = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
                    self.wfile.write(f"data: {json.dumps({**chunk, 'choices': [choice], 'usage': usage})}\n\n".encode())
                self.wfile.write(b"data: [DONE]\n\n")

            def log_message(self, format: str, *args: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> Self:
        Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
