"""`outlast gateway` as a real process: it starts, says how it is doing, drains on SIGTERM, and goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import IO, Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import msgspec
import pytest

from outlast.app.workers.worker_pool import AT_ONCE
from outlast.doors.cli import main
from outlast.doors.gateway.platforms.webhook import key_of, signed
from tests.gateway.bot_api import TOKEN, serving
from tests.gateway.test_webhook import SECRET
from tests.support.prometheus import samples

SOON = 60.0
"""A deadline, not a measure: a busy machine takes its time."""
TELEGRAM = """
[gateway.chat]
platform = "telegram"
token = "{token}"
api_url = "{url}"
owners = [1001]
project = "{home}"
edit_seconds = 0.2
"""


def home_with(tmp_path: Path, config: str, replies: list[dict[str, Any]]) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    (home / "script.json").write_text(json.dumps(replies))
    (home / "config.toml").write_text(config)
    (home / "config.toml").chmod(0o600)
    return home


def environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OUTLAST_")}
    return {**kept, "OUTLAST_HOME": str(home), "OUTLAST_MODEL": f"scripted:{home}/script.json"}


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


Tell = Callable[..., Done]


@pytest.fixture
def told(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Tell:
    """`outlast gateway ...` without the time that it takes to start a process."""

    def run(home: Path, *words: str) -> Done:
        monkeypatch.setenv("OUTLAST_HOME", str(home))
        monkeypatch.setenv("OUTLAST_MODEL", f"scripted:{home}/script.json")
        capfd.readouterr()
        try:
            code = main(["gateway", *words])
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else 1
        said = capfd.readouterr()
        return Done(code, said.out, said.err)

    return run


@contextmanager
def started(
    home: Path, *words: str, command: str = "gateway"
) -> Generator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """A gateway that runs, and what it said when it did."""
    whole = [sys.executable, "-m", "outlast", command, "--json", *words]
    process = subprocess.Popen(
        whole, env=environment(home), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=home
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, read(process.stderr)
        yield process, json.loads(line)
    finally:
        process.kill()
        process.communicate()


def read(stream: IO[str] | None) -> str:
    return stream.read() if stream is not None else ""


def stopped(process: subprocess.Popen[str]) -> str:
    """Ask it to stop, and see that it does; what it said meanwhile."""
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=SOON)
    assert process.returncode == 0, errors
    return errors


def test_it_drains_on_sigterm_and_goes_on_with_the_turn_after_the_next_start(tmp_path: Path, told: Tell) -> None:
    slow = "slowly " * 20
    replies = [
        {"content": "first"},
        {"content": f"second, {slow}", "delay_ms": 600},
        {"content": slow, "delay_ms": 2500},
    ]
    with serving() as api:
        home = home_with(tmp_path, TELEGRAM.format(token=TOKEN, url=api.url, home=tmp_path), replies)
        with started(home) as (process, ready):
            assert ready["gateways"] == ["chat"]
            api.say("one")
            api.wait(lambda: api.texts() == ["first"])
            [row] = json.loads(told(home, "status", "--json").stdout)
            assert (row["state"], row["chats"], row["owners"]) == ("connected", 1, 1)
            assert row["permission_mode"] == "read-only"
            api.say("two")
            api.wait(lambda: any("second" in text for text in api.texts()))
            errors = stopped(process)
            assert TOKEN not in errors
            assert "Traceback" not in errors
            assert f"second, {slow}".strip() in api.texts(), "a turn that is nearly done is let end"
        with started(home, "--patience", "0") as (process, _):
            api.say("three")
            api.wait(lambda: any(text.startswith("slowly") for text in api.texts()))
            stopped(process)
            assert slow.strip() not in api.texts()
        [row] = json.loads(told(home, "status", "--json").stdout)
        assert (row["state"], row["owed"]) == ("stopped", 1)
        with started(home) as (process, _):
            api.wait(lambda: slow.strip() in api.texts())
            stopped(process)
        assert [text.split()[0] for text in api.texts()] == ["first", "second,", "slowly"]


def test_it_does_not_tell_the_password_of_its_store(tmp_path: Path, pg_url: str) -> None:
    config = f'[gateway.hook]\nplatform = "webhook"\nsecret = "{SECRET}"\ncallback_url = "http://127.0.0.1:9"\n'
    home = home_with(tmp_path, config, [])
    with started(home, "--port", "0", "--store", f"{pg_url}&password=s3cret") as (process, ready):
        assert ready["store"] == f"{pg_url}&password=***"
        assert "s3cret" not in stopped(process)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("", "no chats are configured"),
        ('[gateway.x]\nplatform = "irc"\n', "platform must be one of"),
        ('[gateway.x]\nplatform = "telegram"\ntoken_env = "NO_SUCH_TOKEN"\n', "NO_SUCH_TOKEN is not set"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_1(tmp_path: Path, told: Tell, config: str, said: str) -> None:
    done = told(home_with(tmp_path, config, []))
    assert done.returncode == 1
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_pair_and_unpair_and_status_for_people(tmp_path: Path, told: Tell) -> None:
    home = home_with(tmp_path, TELEGRAM.format(token=TOKEN, url="http://127.0.0.1:9", home=tmp_path), [])
    assert "/pair " in told(home, "pair", "chat").stdout
    assert json.loads(told(home, "pair", "chat", "--json").stdout)["seconds"] == 600
    assert "there are chat" in told(home, "pair", "other").stderr
    gone = told(home, "unpair", "chat", "77")
    assert (gone.returncode, "was not paired" in gone.stderr) == (3, True)
    assert "telegram" in told(home, "status").stdout
    assert not (home / "outlast.db").exists(), "looking makes no store"


class _Callback(BaseHTTPRequestHandler):
    got: list[dict[str, Any]]
    arrived: threading.Event

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        type(self).got.append(json.loads(body))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()
        type(self).arrived.set()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is said."""


@contextmanager
def called_back(tmp_path: Path) -> Generator[Path]:
    """A home with a webhook whose callback address answers."""
    _Callback.got, _Callback.arrived = [], threading.Event()
    server = HTTPServer(("127.0.0.1", 0), _Callback)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    config = f"""
    [gateway.ci]
    platform = "webhook"
    secret = "{SECRET}"
    callback_url = "http://127.0.0.1:{server.server_port}/"
    owners = ["me"]
    project = "{tmp_path}"
    """
    yield home_with(tmp_path, config, [{"content": "hello to you"}])
    server.shutdown()
    server.server_close()


def say_hello(address: str, signature: str | None = None) -> dict[str, Any]:
    body = msgspec.json.encode({"chat": "c", "user": "me", "text": "hello"})
    headers = {**signed(key_of(SECRET), "id-1", body, int(time.time())), "content-type": "application/json"}
    if signature is not None:
        headers["webhook-signature"] = signature
    with urlopen(Request(f"{address}/gateway/webhook/ci", body, headers)) as answer:  # noqa: S310 - our own server
        return json.load(answer)


def test_it_serves_its_webhooks_itself(tmp_path: Path) -> None:
    with called_back(tmp_path) as home, started(home, "--port", "0") as (process, ready):
        assert say_hello(ready["webhooks"])["seq"] > 0
        assert _Callback.arrived.wait(SOON)
        assert _Callback.got[0]["text"] == "hello to you"
        with pytest.raises(HTTPError, match="401"):
            say_hello(ready["webhooks"], "v1,AAAA")
        stopped(process)


def test_the_server_runs_it_beside_the_api(tmp_path: Path) -> None:
    with called_back(tmp_path) as home, started(home, "--gateway", "--port", "0", command="serve") as (process, ready):
        taken = say_hello(ready["url"])
        assert _Callback.arrived.wait(SOON)
        assert _Callback.got[0]["text"] == "hello to you"
        with pytest.raises(HTTPError, match="401"):
            say_hello(ready["url"], "v1,AAAA")
        bearer = {"authorization": f"Bearer {(home / 'state' / 'token').read_text().strip()}"}
        with urlopen(Request(f"{ready['url']}/api/sessions", headers=bearer)) as answer:  # noqa: S310
            assert [row["id"] for row in json.load(answer)] == [taken["session_id"]]
        with urlopen(Request(f"{ready['url']}/metrics", headers=bearer)) as answer:  # noqa: S310
            found = samples(answer.read().decode())
        assert found["outlast_turns_started_total"] == 1, "what is run for a chat counts too"
        assert found["outlast_concurrency"] == 2 * AT_ONCE
        stopped(process)
