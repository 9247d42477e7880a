"""A real gateway process, killed at any moment: no message lost, none answered twice, no chat on a stale session."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from outlast.app.chat.delivery_log import DeliveryLog
from outlast.core import events as e
from outlast.core.chat_route import ChatAddress, route_key
from outlast.doors.gateway.message_text import REPEATED
from outlast.store import open_store
from outlast.store.log_store import LogStore
from tests.conftest import ROOT
from tests.gateway.bot_api import TOKEN, BotApi, serving
from tests.gateway.world import inputs_of, kinds_of

GIVEN_UP = "⚠️ This was given up"
CHATS = (1001, 1002, 1003)
CONFIG = """
[gateway.kills]
platform = "telegram"
token = "{token}"
api_url = "{url}"
owners = [1001, 1002, 1003]
project = "{home}"
edit_seconds = 0.05
compaction = "rotate"
compact_at_tokens = 80000
"""


class Nursery:
    """Starts gateways and kills them."""

    def __init__(self, process: subprocess.Popen[str], home: Path) -> None:
        self._process, self._home = process, home
        self.pid = 0

    def start(self) -> None:
        ready = self._home / "ready"
        ready.unlink(missing_ok=True)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("start\n")
        self._process.stdin.flush()
        self.pid = int(self._process.stdout.readline())
        until = time.monotonic() + 20
        while not ready.exists():
            assert time.monotonic() < until, "the gateway did not start"
            time.sleep(0.005)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.pid = 0


@contextmanager
def nursery(home: Path, store: str) -> Generator[Nursery]:
    words = [sys.executable, "-m", "tests.gateway.nursery", str(home), store]
    process = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    found = Nursery(process, home)
    try:
        yield found
    finally:
        if found.pid:
            found.kill()
        process.kill()
        process.communicate()


def killed(tmp_path: Path, kills: int, seed: int, store: str) -> None:
    """Talk in some chats while the gateway is killed and started again and again; then look at everything."""
    dice = random.Random(seed)
    home = tmp_path / "home"
    home.mkdir()
    (home / "script.json").write_text("[]")
    said: dict[int, list[str]] = {chat: [] for chat in CHATS}
    with serving() as api, nursery(home, store) as gateways:
        (home / "config.toml").write_text(CONFIG.format(home=home, token=TOKEN, url=api.url))
        (home / "config.toml").chmod(0o600)
        for _ in range(kills):
            gateways.start()
            for chat in CHATS:
                for _ in range(dice.choice((0, 1, 1, 2))):
                    text = f"{chat} message {len(said[chat])}"
                    said[chat].append(text)
                    api.say(text, user=chat)
            time.sleep(dice.random() * 0.5)
            gateways.kill()
        gateways.start()
        with open_store(store) as opened:
            api.wait(lambda: all(delivered(api, chat, said[chat]) for chat in CHATS), 60 + 2 * kills)
            wait_for(lambda: all(settled(opened, chat) for chat in CHATS))  # a reply is shown before its turn ends
            for chat in CHATS:
                check(opened, api, chat, said[chat])


def wait_for(true: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for what another process does."""
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.02)


def route_of(chat: int) -> str:
    return route_key("telegram", "kills", ChatAddress(str(chat)))


def settled(store: LogStore, chat: int) -> bool:
    """Whether nothing is to be answered or brought any more."""
    session = store.route(route_of(chat))
    if session is None or store.head(session).has_work:
        return False
    return DeliveryLog(store).outbox(route_of(chat), session).empty


def plain(text: str) -> str:
    return text.removeprefix(f"{REPEATED}\n\n")


def delivered(api: BotApi, chat: int, texts: list[str]) -> bool:
    """Whether every message is answered. A turn that was killed again and again is given up, and the chat is told."""
    shown = [plain(text) for text in api.texts(chat)]
    missing = [text for text in texts if f"re: {text}" not in shown]
    return len(missing) <= len([text for text in shown if text.startswith(GIVEN_UP)])


def check(store: LogStore, api: BotApi, chat: int, texts: list[str]) -> None:
    session = store.route(route_of(chat))
    assert session is not None
    assert store.tip(session) == session, "the chat is on a stale session"
    assert inputs_of(store, session) == texts, "a message was lost, doubled or out of order"
    ended = kinds_of(store, session, e.TurnEnded)
    answered = Counter(seq for end in ended for seq in end.answered)
    assert set(answered.values()) == {1}, "a message was answered by two turns"
    assert len(answered) == len(texts)
    shown = Counter(api.texts(chat))
    assert {shown[f"re: {text}"] for text in texts} <= {0, 1}, "a reply stands there twice and is not marked"
    given_up = [end for end in ended if end.outcome == "failed_recovery"]
    answers = {plain(text) for text in shown}
    assert len(answers & {f"re: {text}" for text in texts}) + len(given_up) >= len(texts), "a reply is missing"
    assert kinds_of(store, session, e.SessionForked), "no session was rotated"


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_10_kills_of_the_gateway_lose_and_double_nothing(tmp_path: Path) -> None:
    killed(tmp_path, 10, seed=15, store=f"sqlite:///{tmp_path / 'store'}")


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["sqlite", "files", "postgresql"])
def test_500_kills_of_the_gateway_lose_and_double_nothing(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    store = request.getfixturevalue("pg_url") if kind == "postgresql" else f"{kind}:///{tmp_path / 'store'}"
    killed(tmp_path, 500, seed=time.time_ns() % 2**31, store=store)
