"""A real `outlast serve` for a browser to talk to: started, killed, started again on the same port and store."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from outlast.store import open_store
from outlast.store.log_store import LogStore

TOKEN = "browser-tests-token-of-more-than-32-characters"
PATIENCE = 30


class Server:
    """`script` is what the model says (contract section 1); without one nothing ever answers."""

    def __init__(
        self, folder: Path, script: list[dict[str, Any]] | None = None, *flags: str, mode: str = "workspace-write"
    ) -> None:
        self.home, self.project = folder / "home", folder / "project"
        self.project.mkdir(parents=True, exist_ok=True)
        self.script = folder / "script.json"
        self.say(script or [])
        self._scripts = 0
        self.port = _free_port()
        model = f"scripted:{self.script}" if script is not None else "none"
        self._flags = ["--port", str(self.port), "--model", model, "--permission-mode", mode, "--json", *flags]
        self._errors = folder / "server.log"
        self._process: subprocess.Popen[str] | None = None
        self.url = self.login_url = ""
        self.start()

    def say(self, script: list[dict[str, Any]]) -> None:
        """What the model says from the next start on."""
        self.script.write_text(json.dumps(script))

    def model(self, *lines: dict[str, Any]) -> str:
        """A model of its own, which says this; its name."""
        self._scripts += 1
        path = self.home.parent / f"script-{self._scripts}.json"
        path.write_text(json.dumps(lines))
        return f"scripted:{path}"

    def saying(self, *lines: dict[str, Any], text: str | None = None) -> str:
        """A session of its own that is answered by this script, with a first message if one is given."""
        return self.new_session(text, model_override=self.model(*lines), title=f"Script {self._scripts}")

    def start(self) -> None:
        environment = {**os.environ, "OUTLAST_HOME": str(self.home), "OUTLAST_TOKEN": TOKEN}
        with self._errors.open("a") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "outlast", "serve", *self._flags],
                cwd=self.project,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self.stop()
            raise AssertionError(f"the server did not start: {self._errors.read_text()[-2000:]}")
        told = json.loads(line)
        self.url, self.login_url = told["url"], told["login_url"]

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self._process is None:
            return
        self._process.send_signal(how)
        self._process.wait(PATIENCE)
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._process = None

    @property
    def is_there(self) -> bool:
        return self._process is not None

    def be_there(self) -> None:
        if not self.is_there:
            self.start()

    def kill(self) -> None:
        """As the machine does it: without a word."""
        self.stop(signal.SIGKILL)

    def store(self) -> LogStore:
        """Its store, opened beside it as another process would."""
        return open_store(f"sqlite:///{self.home / 'outlast.db'}")

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """The API, with the token."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        headers = {"Authorization": f"Bearer {TOKEN}"} | (
            {"Content-Type": "application/json"} if body is not None else {}
        )
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None, headers)
            answer = connection.getresponse()
            data = answer.read()
            assert answer.status == 200, f"{method} {path}: {answer.status} {data[:300]!r}"
            return json.loads(data)
        finally:
            connection.close()

    def new_session(self, text: str | None = None, **wanted: Any) -> str:
        """A session by the API, with a first message if one is given."""
        made: str = self.call("POST", "/api/sessions", wanted)["session_id"]
        if text is not None:
            self.post(made, text)
        return made

    def post(self, session_id: str, text: str, **more: Any) -> int:
        """A message by the API; its seq."""
        return int(self.call("POST", f"/api/sessions/{session_id}/messages", {"content": text, **more})["seq"])


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
