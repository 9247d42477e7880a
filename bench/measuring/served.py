"""The part of the scenario that goes over HTTP and through the webhook of the gateway, to one real server."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import subprocess
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from measuring.world import PATIENCE, World, until

SECRET = "a-secret-of-at-least-32-characters!"
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


class Receiver:
    """The other side of the webhook: it takes what is delivered. It is a context."""

    def __init__(self) -> None:
        got: list[Any] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                got.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Nothing is said."""

        self.got = got
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


class Server:
    """A real `NAME serve --gateway` in a process of its own. It is a context."""

    def __init__(self, world: World, *words: str) -> None:
        self.world = world
        self._words = words
        self._token = secrets.token_urlsafe(32)
        self._process: subprocess.Popen[str] | None = None
        self.url = ""

    def __enter__(self) -> Self:
        version, world = self.world.version, self.world
        words = version.command("serve", "--json", "--port", "0", "--store", world.store, *self._words)
        token = {f"{version.name.upper()}_TOKEN": self._token}
        log = (world.folder / "server.log").open("w")
        self._process = subprocess.Popen(
            words,
            cwd=world.project,
            env=version.environment(world.home, **token),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the server did not start: {(world.folder / 'server.log').read_text()}"
        self.url = json.loads(line)["url"]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.communicate(timeout=PATIENCE)

    # --- requests

    def api(self, method: str, path: str, body: Any = None) -> Any:
        """Make one request; a refusal is returned as [status, body]."""
        status, text = self.raw(method, path, body)
        found = json.loads(text) if text else None
        return found if status < 400 else [status, found]

    def raw(self, method: str, path: str, body: Any = None) -> tuple[int, str]:
        try:
            with self.open(method, path, body) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()

    def open(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"authorization": f"Bearer {self._token}", "content-type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        return urllib.request.urlopen(request, timeout=PATIENCE)

    def shown(self, title: str, method: str, path: str, body: Any = None) -> Any:
        """Make one request and keep its answer for the comparison."""
        found = self.api(method, path, body)
        self.world.show(title, found)
        return found

    # --- sessions

    def create(self, label: str, model: str, **more: Any) -> str:
        body = {"repo_path": str(self.world.project), "model_override": model, **more}
        return self.world.named(label, self.shown(f"create {label}", "POST", "/api/sessions", body)["session_id"])

    def post(self, session: str, content: str, **more: Any) -> Any:
        path = f"/api/sessions/{session}/messages"
        return self.shown(f"post {content}", "POST", path, {"content": content, **more})

    def until_idle(self, session: str) -> None:
        """Wait until nothing runs and nothing waits."""

        def idle() -> bool:
            row = self.api("GET", f"/api/sessions/{session}")["session"]
            return row["active_stream_id"] is None and row["pending_user_message"] is None

        until(idle, f"session {session} is idle")

    def until_kind(self, session: str, kind: str, count: int = 1) -> None:
        """Wait until the session has so many events of this kind."""
        path = f"/api/sessions/{session}/events?kinds={kind}"
        until(lambda: len(events_in(self.api("GET", path))) >= count, f"{count} {kind} in {session}")

    def asked(self, session: str) -> Any:
        """Wait for the question that the session asks."""
        return until(lambda: self.api("GET", f"/api/sessions/{session}/approvals"), "a question")[0]

    def stream(self, session: str, last_kind: str) -> list[tuple[str, str]]:
        """Follow the session until an event of that kind; (id, event) of each event, pieces of replies left out."""
        found: list[tuple[str, str]] = []
        with self.open("GET", f"/api/sessions/{session}/stream") as answer:
            fields: dict[str, str] = {}
            for line in answer:
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name:
                    fields[name] = value
                    continue
                if "id" in fields and ":" not in fields["id"]:
                    found.append((fields["id"], fields.get("event", "")))
                    if last_kind in (fields.get("event"), json.loads(fields.get("data", "{}")).get("kind")):
                        return found
                fields = {}
        return found

    # --- the gateway

    def webhook(self, message_id: str, **message: Any) -> Any:
        """Say something in a chat, signed; what the gateway answers."""
        body = json.dumps({"chat": "c", "user": "me", **message}).encode()
        at = str(int(time.time()))
        signed = f"{message_id}.{at}.".encode() + body
        mark = base64.b64encode(hmac.new(SECRET.encode(), signed, hashlib.sha256).digest()).decode()
        headers = {"webhook-id": message_id, "webhook-timestamp": at, "webhook-signature": f"v1,{mark}"}
        request = urllib.request.Request(
            f"{self.url}/gateway/webhook/ci", body, {**headers, "content-type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                found = json.load(answer)
        except urllib.error.HTTPError as refused:
            found = [refused.code, refused.read().decode()]
        self.world.show(f"webhook {message_id}", found)
        return found


def events_in(page: Any) -> list[Any]:
    """The events of a page, whatever it is wrapped in."""
    return page if isinstance(page, list) else next(value for value in page.values() if isinstance(value, list))
