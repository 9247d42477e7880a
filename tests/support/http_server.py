"""A real `outlast serve` for tests: its own process, port, home and project, and a model that says what it is told.

    server = Server(tmp_path, "--permission-mode", "allow")
    server.says(call("bash", command="ls"), reply("Done."))            # every session reads the script from its start
    with server:
        sid = server.create()
        server.post(sid, "go")
        server.until(lambda: server.messages(sid)[-1]["content"] == "Done.")
        server.login_url()                                             # good once, for a browser
        server.kill(); server.start()                                  # SIGKILL, and again on the same port and home

`server.client()` is an httpx client that sends the token; `server.api(method, path, json=...)` one request, checked.
The in-process twin, without a socket, is `tests.http.inside`.
"""

from __future__ import annotations

import json
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from outlast.store import open_store
from outlast.store.log_store import LogStore
from tests.support.terminal import Place, call, reply

__all__ = ["Server", "call", "reply"]

PATIENCE = 60.0


class Server:
    """A server in its own process. Its store is SQLite in the home unless `store` names another; `words` are flags."""

    def __init__(self, folder: Path, *words: str, store: str | None = None, model: str | None = None) -> None:
        self.place = Place(folder)
        self.place.says(reply("Hello."))
        self.store_url = store or f"sqlite:///{self.place.home}/outlast.db"
        self.token = secrets.token_urlsafe(32)
        self.model = model or self.place.model
        self.words = words
        self.port = 0
        self.process: subprocess.Popen[str] | None = None
        self.told: dict[str, Any] = {}

    # --- its life

    def start(self, *words: str) -> Self:
        """Start it, again on the same port. Returns when it answers."""
        port = ["--port", str(self.port)] if "--unix" not in self.words else []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "outlast", "serve", "--json", *port, *self._flags(), *self.words, *words],
            cwd=self.place.project,
            env=self.place.environment() | {"OUTLAST_TOKEN": self.token},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.told = json.loads(self._first_line())
        self.port = httpx.URL(self.told["url"]).port or 0
        return self

    def _flags(self) -> list[str]:
        return ["--store", self.store_url, "--model", self.model]

    def _first_line(self) -> str:
        assert self.process is not None
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        line = self.process.stdout.readline() if ready else ""
        if not line:
            self.process.kill()
            raise AssertionError(f"the server did not start: {self.process.communicate()}")
        return line

    def kill(self) -> None:
        """SIGKILL: no goodbye."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.communicate(timeout=PATIENCE)

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Ask it to leave; its exit code, and what it said on stderr."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, errors

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process is not None and self.process.poll() is None:
            self.stop()

    # --- speaking to it

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def client(self, **more: Any) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers=self.headers, timeout=PATIENCE, trust_env=False, **more)

    def async_client(self, **more: Any) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.url, headers=self.headers, timeout=PATIENCE, trust_env=False, **more)

    def api(self, method: str, path: str, *, status: int = 200, **more: Any) -> Any:
        """One request; what it answers, decoded."""
        with self.client() as client:
            answer = client.request(method, path, **more)
        assert answer.status_code == status, f"{method} {path}: {answer.status_code} {answer.text[:500]}"
        return answer.json()

    def login_url(self) -> str:
        return self.url + self.api("POST", "/api/login")["path"]

    def raw(self, request: bytes, *, timeout: float = PATIENCE) -> bytes:
        """Send these very bytes and read until the server closes or says nothing for a moment."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as connection:
            connection.sendall(request)
            received = b""
            try:
                while data := connection.recv(65536):
                    received += data
            except (TimeoutError, ConnectionResetError):  # refused with some of it unread: the answer may be lost
                pass
        return received

    # --- sessions

    def says(self, *lines: dict[str, Any]) -> None:
        """What the scripted model says. Say it before the server starts, or start it again: the file is read once."""
        self.place.says(*lines)

    def create(self, **body: Any) -> str:
        return self.api("POST", "/api/sessions", json={"repo_path": str(self.place.project), **body})["session_id"]

    def post(self, session_id: str, content: str, **more: Any) -> dict[str, Any]:
        return self.api("POST", f"/api/sessions/{session_id}/messages", json={"content": content, **more})

    def detail(self, session_id: str, query: str = "") -> dict[str, Any]:
        return self.api("GET", f"/api/sessions/{session_id}{query}")

    def messages(self, session_id: str) -> list[dict[str, Any]]:
        return self.detail(session_id)["messages"]

    def until_idle(self, session_id: str) -> list[dict[str, Any]]:
        """Wait until nothing waits and nothing runs; the messages."""
        self.until(lambda: _is_idle(self.detail(session_id)["session"]))
        return self.messages(session_id)

    def until(self, true: Callable[[], bool], patience: float = PATIENCE) -> None:
        until = time.monotonic() + patience
        while not true():
            assert self.process is not None
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < until, "it did not come to pass"
            time.sleep(0.03)

    def store(self) -> LogStore:
        """What it stores, for a look from outside."""
        return open_store(self.store_url)


def _is_idle(row: dict[str, Any]) -> bool:
    return row["active_stream_id"] is None and row["pending_user_message"] is None
