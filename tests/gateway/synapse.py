"""A real Synapse homeserver on this machine: SQLite, loopback, no federation, its own environment (`.venv-synapse`).

The environment is made once, from `requirements-synapse.lock`, every file checked against its hash.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import hmac
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from tests.conftest import ROOT, everything_is_required

LOCK = ROOT / "requirements-synapse.lock"
VENV = ROOT / ".venv-synapse"
NAME = "outlast.test"
SECRET = "shared-secret-of-the-test"
CONFIG = """
server_name: "{name}"
pid_file: "{folder}/pid"
listeners:
  - port: {port}
    bind_addresses: ["127.0.0.1"]
    type: http
    tls: false
    resources: [{{names: [client], compress: false}}]
database: {{name: sqlite3, args: {{database: "{folder}/homeserver.db"}}}}
log_config: "{folder}/log.yaml"
media_store_path: "{folder}/media"
signing_key_path: "{folder}/signing.key"
registration_shared_secret: "{secret}"
report_stats: false
trusted_key_servers: []
federation_domain_whitelist: []
suppress_key_server_warning: true
enable_registration: false
presence: {{enabled: false}}
bcrypt_rounds: 4
rc_message: {{per_second: 1000, burst_count: 1000}}
rc_login:
  address: {{per_second: 1000, burst_count: 1000}}
  account: {{per_second: 1000, burst_count: 1000}}
"""
LOG = """
version: 1
handlers: {{file: {{class: logging.FileHandler, filename: "{folder}/synapse.log"}}}}
root: {{level: WARNING, handlers: [file]}}
"""


def python() -> str:
    """The interpreter of Synapse's environment, which is made if it is not there or the lock has changed."""
    mark, wanted = VENV / ".ready", hashlib.sha256(LOCK.read_bytes()).hexdigest()
    with open(LOCK) as gate:  # several test processes may come at once
        fcntl.flock(gate, fcntl.LOCK_EX)
        if not mark.exists() or mark.read_text() != wanted:
            try:
                _make_environment()
            except subprocess.CalledProcessError as error:
                told = f"needs Synapse, which could not be installed into {VENV.name}: {error.stderr.decode()[-300:]}"
                pytest.fail(told, pytrace=False) if everything_is_required() else pytest.skip(told)
            mark.write_text(wanted)
    return str(VENV / "bin" / "python")


def _make_environment() -> None:
    subprocess.run([sys.executable, "-m", "venv", "--clear", VENV], check=True, timeout=120, capture_output=True)
    install = ["-m", "pip", "--disable-pip-version-check", "--no-input", "-q", "install", "--no-compile"]
    pinned = ["--no-deps", "--require-hashes", "-r", str(LOCK)]
    subprocess.run([VENV / "bin" / "python", *install, *pinned], check=True, timeout=600, capture_output=True)


class Synapse:
    """A homeserver that runs, or could again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None
        values = {"name": NAME, "folder": folder, "port": self.port, "secret": SECRET}
        (folder / "homeserver.yaml").write_text(CONFIG.format(**values))
        (folder / "log.yaml").write_text(LOG.format(**values))
        seed = base64.b64encode(secrets.token_bytes(32)).decode().rstrip("=")
        (folder / "signing.key").write_text(f"ed25519 a_test {seed}\n")

    def start(self) -> None:
        words = [python(), "-m", "synapse.app.homeserver", "-c", str(self.folder / "homeserver.yaml")]
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "OUTLAST"))}
        self._process = subprocess.Popen(
            words, cwd=self.folder, env=kept, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until = time.monotonic() + 60
        while True:
            try:
                self.call("GET", "/_matrix/client/versions")
                return
            except URLError:
                assert self._process.poll() is None, (self.folder / "synapse.log").read_text()[-2000:]
                assert time.monotonic() < until, "Synapse does not answer"
                time.sleep(0.05)

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def call(self, method: str, path: str, body: object = None, token: str | None = None) -> dict[str, Any]:
        data = json.dumps(body).encode() if body is not None else None
        headers = {"content-type": "application/json", **({"authorization": f"Bearer {token}"} if token else {})}
        request = Request(f"{self.url}{path}", data, headers, method=method)  # noqa: S310 - our own server
        with urlopen(request, timeout=30) as answer:  # noqa: S310
            return json.load(answer)

    def person(self, name: str) -> Person:
        """A new account, registered with the shared secret."""
        path = "/_synapse/admin/v1/register"
        nonce, password = self.call("GET", path)["nonce"], secrets.token_hex(8)
        parts = (nonce, name, password, "notadmin")
        mac = hmac.new(SECRET.encode(), "\0".join(parts).encode(), hashlib.sha1).hexdigest()
        body = {"nonce": nonce, "username": name, "password": password, "admin": False, "mac": mac}
        found = self.call("POST", path, body)
        return Person(self, found["user_id"], password, found["access_token"])


class Person:
    """Somebody with an account and a client of a few lines."""

    def __init__(self, server: Synapse, user: str, password: str, token: str) -> None:
        self.server, self.user, self.password, self.token = server, user, password, token
        self._count = 0

    def _ask(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        return self.server.call(method, f"/_matrix/client/v3{path}", body, self.token)

    def room(self, *invited: str, direct: bool = True) -> str:
        body = {"invite": list(invited), "is_direct": direct, "preset": "trusted_private_chat"}
        return self._ask("POST", "/createRoom", body)["room_id"]

    def join(self, room: str) -> None:
        self._ask("POST", f"/join/{room}", {})

    def rename(self, name: str) -> None:
        """Another display name, which is told in every room."""
        self._ask("PUT", f"/profile/{self.user}/displayname", {"displayname": name})

    def say(self, room: str, text: str, **more: Any) -> str:
        return self._send(room, "m.room.message", {"msgtype": "m.text", "body": text, **more})

    def react(self, room: str, event_id: str, key: str) -> str:
        relation = {"rel_type": "m.annotation", "event_id": event_id, "key": key}
        return self._send(room, "m.reaction", {"m.relates_to": relation})

    def _send(self, room: str, kind: str, content: dict[str, Any]) -> str:
        self._count += 1
        return self._ask("PUT", f"/rooms/{room}/send/{kind}/{self._count}", content)["event_id"]

    def events(self, room: str) -> list[dict[str, Any]]:
        return self._ask("GET", f"/rooms/{room}/messages?dir=b&limit=200")["chunk"][::-1]

    def texts(self, room: str, sender: str) -> list[str]:
        """What somebody's messages say now, edits applied."""
        shown: dict[str, str] = {}
        for event in self.events(room):
            if event["type"] != "m.room.message" or event["sender"] != sender or not event["content"]:
                continue
            content, relation = event["content"], event["content"].get("m.relates_to", {})
            if relation.get("rel_type") == "m.replace":
                shown[relation["event_id"]] = content["m.new_content"]["body"]
            else:
                shown[event["event_id"]] = content["body"]
        return list(shown.values())


@contextmanager
def homeserver(folder: Path) -> Generator[Synapse]:
    server = Synapse(folder)
    try:
        server.start()
        yield server
    finally:
        server.stop()
