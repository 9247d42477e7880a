"""A provider that fails: what `-p` says on stderr, and that a signal ends the wait."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.chat_server import ChatServer, HttpError
from tests.support.terminal import Place, Terminal

pytestmark = pytest.mark.timeout(120)


def words(server: ChatServer) -> list[str]:
    return ["-p", "Say it.", "--model", "openai:m", "--base-url", server.url]


def test_a_retry_is_announced_with_its_time_and_its_end(tmp_path: Path) -> None:
    def answer(body: dict[str, Any]) -> str | HttpError:
        return "Hello." if len(server.bodies) > 2 else HttpError(529, "overloaded", {"retry-after": "1"})

    with ChatServer(answer) as server:
        done = Place(tmp_path).run(*words(server))
    assert (done.returncode, done.stdout) == (0, "Hello.\n")
    first, second = done.stderr.splitlines()
    assert first.startswith("outlast: retrying in 1 s (attempt 2, gives up in 10 min): ")
    assert first.endswith("openai:m cannot answer just now (529: overloaded)")
    assert "(attempt 3, gives up in 10 min)" in second


@pytest.mark.parametrize(("status", "said"), [(400, "bad"), (401, "no such key"), (404, "no such model")])
def test_a_refusal_is_one_line(tmp_path: Path, status: int, said: str) -> None:
    with ChatServer(lambda body: HttpError(status, said)) as server:
        done = Place(tmp_path).run(*words(server))
        assert len(server.bodies) == 1
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert said in line


def test_a_signal_ends_the_wait(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with ChatServer(lambda body: HttpError(503, "down", {"retry-after": "300"})) as server:
        running = place.start(*words(server))
        assert running.stderr is not None
        assert "retrying in 300 s" in running.stderr.readline()
        began = time.monotonic()
        running.send_signal(signal.SIGINT)
        _, told = running.communicate(timeout=20)
        assert time.monotonic() - began < 15
    assert running.returncode == 5
    assert "the session is kept" in told


def test_a_wait_longer_than_ten_minutes_fails_at_once_and_names_it(tmp_path: Path) -> None:
    with ChatServer(lambda body: HttpError(429, "quota", {"retry-after": "7200"})) as server:
        done = Place(tmp_path).run(*words(server))
    assert done.returncode == 1
    assert "asks to wait 2.0 h, longer than Outlast retries (10 min)" in done.stderr


def test_the_terminal_counts_down_and_ctrl_c_stops_the_wait(tmp_path: Path) -> None:
    def answer(body: dict[str, Any]) -> str | HttpError:
        return HttpError(401, "no such key") if stopped else HttpError(529, "overloaded", {"retry-after": "90"})

    stopped = False
    with ChatServer(answer) as server, Terminal(Place(tmp_path), *words(server)[2:]) as terminal:
        terminal.sees("ctx")
        terminal.types("Say it.")
        shown = terminal.sees("529: overloaded", "retrying in", "gives up in 10 min")
        first = _countdown(shown)
        terminal.until(lambda: _countdown(terminal.screen()) < first)
        terminal.keys("C-c")
        shown = terminal.sees("you can go on")
        assert "broke off" not in shown
        stopped = True
        terminal.types("And now?")
        shown = terminal.sees("the turn failed", "/retry tries again")
        assert shown.count("no such key") == 1
        assert len(server.bodies) == 2


def _countdown(screen: str) -> int:
    return min((int(found) for found in re.findall(r"retrying in (\d+) s", screen)), default=1000)
