"""SIGTERM hands everything over exactly as SIGKILL would, whatever the process is and whatever its turns do.

Each kind of process is stopped both ways with a turn in every state. What the next process finds, and what it makes of
it, must be equal. `-p` has nobody to ask, so it has no questions; sub-agents of a chat ask none.
"""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from outlast import open_store
from outlast.core import events as e
from outlast.core.chat_route import ChatAddress, route_key
from outlast.core.header import Header
from outlast.core.messages import TextPart, text_of
from outlast.runtime.service import SessionService
from outlast.runtime.turn.draft import stored_draft
from outlast.runtime.turn.subagents import child_of
from outlast.store.log_store import LogStore
from outlast.store.port import Append, Create, NewEvent, PutRoute, Query
from outlast.store.read.decode import decode_events, load_state
from tests.faults.witness import new_id
from tests.gateway.bot_api import TOKEN, serving
from tests.support.terminal import Place, reply

STATES = ("waiting", "streaming", "tool", "approval", "child", "queued")
SERVERS = ("serve", "worker", "gateway")
PATIENCE = 60.0
TELEGRAM = """
[gateway.chat]
platform = "telegram"
token = "{token}"
api_url = "{url}"
owners = [1001]
project = "{project}"
permission_mode = "workspace-write"
"""
Tale = dict[str, Any]


def until(true: Callable[[], object], what: str) -> None:
    latest = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < latest, what
        time.sleep(0.05)


class Stopped:
    """One process of this kind with sessions in these states, which is stopped by a signal and then succeeded."""

    def __init__(self, folder: Path, kind: str, states: tuple[str, ...], scope: ExitStack) -> None:
        self.kind, self.scope = kind, scope
        self.place = Place(folder)
        self.place.says(reply("never"))
        self.place.home.mkdir(mode=0o700)
        self.url = f"sqlite:///{self.place.home}/outlast.db"
        self.sessions: dict[str, str] = {}
        with open_store(self.url) as store:
            if kind in SERVERS:
                self.sessions = {state: self._prepared(store, state) for state in states}
        self.state = states[0]

    def _prepared(self, store: LogStore, state: str) -> str:
        """A session with its message, which a server is to answer; a chat leads to it."""
        name = new_id()
        created = e.SessionCreated(project_root=str(self.place.project))
        said = [e.InputAdmitted(parts=(TextPart(f"STATE:{state} please"),))]
        said += [e.InputAdmitted(parts=(TextPart("And then?"),))] if state == "queued" else []
        store.commit(Create(header=Header(session_id=name), events=(NewEvent(event=created, actor="user/http"),)))
        news = tuple(NewEvent(event=one, actor="user/http") for one in said)
        route = route_key("telegram", "chat", ChatAddress(str(1001 + STATES.index(state))))
        store.commit(Append(session_id=name, events=news), PutRoute(route=route, session_id=name, expect=None))
        return name

    # --- the processes

    def _started(self, *words: str, holds: bool = True, terminal: bool = False) -> subprocess.Popen[bytes]:
        standard_input, output = subprocess.DEVNULL, subprocess.DEVNULL
        if terminal:
            master, standard_input = pty.openpty()
            output = standard_input
            threading.Thread(target=_read_all, args=(master,), daemon=True).start()
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.stop_process", *words],
            cwd=self.place.project,
            env=self.place.environment()
            | {"OUTLAST_TEST_HOLD": "1" if holds else "0", "PYTHONPATH": str(Path(__file__).parents[2])}
            | {"OUTLAST_MODEL": self.place.model},
            stdin=standard_input,
            stdout=output,
            stderr=subprocess.DEVNULL,
            start_new_session=terminal,
        )
        self.scope.callback(process.wait)
        self.scope.callback(process.kill)
        return process

    def first(self) -> subprocess.Popen[bytes]:
        match self.kind:
            case "serve":
                return self._started("serve", "--json", "--port", "0", "--store", self.url)
            case "worker":
                return self._started("worker", "--store", self.url, "--drain-seconds", "0")
            case "gateway":
                api = self.scope.enter_context(serving())
                config = self.place.home / "config.toml"
                table = TELEGRAM.format(token=TOKEN, url=api.url, project=self.place.project)
                config.write_text(table)
                config.chmod(0o600)
                return self._started("gateway", "--json", "--patience", "0")
            case "-p":
                return self._started("-p", f"STATE:{self.state} please")
            case _:
                return self._started(f"STATE:{self.state} please", terminal=True)

    def next(self) -> subprocess.Popen[bytes]:
        return self._started("worker", "--store", self.url, holds=False)

    # --- the log

    def find_session(self, store: LogStore) -> None:
        """A process that makes its own session: learn which."""
        if self.state not in self.sessions:
            until(lambda: store.find(Query()).headers, "the process made no session")
            self.sessions = {self.state: store.find(Query()).headers[-1].session_id}
            if self.state == "queued":
                said = NewEvent(event=e.InputAdmitted(parts=(TextPart("And then?"),)), actor="user/http")
                store.commit(Append(session_id=self.sessions[self.state], events=(said,)))

    def family(self, store: LogStore, session_id: str) -> list[str]:
        """The session, and its sub-agent's."""
        asked = store.read(session_id, kinds=frozenset({"AssistantReplied"}))
        child = child_of(session_id, asked[0].seq, "c1") if asked else ""
        known = {header.session_id for header in store.find(Query()).headers}
        return [session_id, *([child] if child in known else [])]

    def is_reached(self, store: LogStore, state: str) -> bool:
        name = self.sessions[state]
        folded = load_state(store, name)
        match state:
            case "waiting" | "queued":
                return folded.attempt is not None and (state == "waiting" or len(folded.unanswered) == 2)
            case "streaming":
                return folded.attempt is not None and stored_draft(store, name, folded.last_seq).begun
            case "tool":
                return (self.place.project / "witness.txt").exists()
            case "approval":
                return bool(folded.open_approvals)
            case _:
                return any(load_state(store, one).open_approvals for one in self.family(store, name)[1:])

    def found(self, store: LogStore) -> Tale:
        """What the next process finds."""
        return {
            state: [self._found(store, one) for one in self.family(store, name)]
            for state, name in self.sessions.items()
        }

    def _found(self, store: LogStore, name: str) -> Tale:
        state = load_state(store, name)
        broken = [event for event in _events(store, name) if isinstance(event, e.ReplyInterrupted)]
        partial = [
            *(text_of(event.parts) for event in broken),
            text_of(stored_draft(store, name, state.last_seq).parts),
        ]
        return {
            "turn": state.turn is not None and len(state.turn.inputs),
            "calls": [(call.name, bool(call.started_seq)) for call in state.open_calls],
            "questions": [one.name for one in state.open_approvals],
            "unanswered": len(state.unanswered),
            "partial": "".join(partial),
            "ended": [event.outcome for event in _events(store, name) if isinstance(event, e.TurnEnded)],
        }

    def answer_questions(self, store: LogStore) -> None:
        service = SessionService(store, "http")
        for name in self.sessions.values():
            for one in self.family(store, name):
                for asked in load_state(store, one).open_approvals:
                    asyncio.run(service.answer(one, asked.seq, "deny"))

    def is_over(self, store: LogStore) -> bool:
        self.answer_questions(store)
        states = [load_state(store, name) for name in self.sessions.values()]
        return all(state.turn is None and not state.unanswered for state in states)

    def made(self, store: LogStore) -> Tale:
        """What came of it in the end."""
        return {state: [_made(store, one) for one in self.family(store, name)] for state, name in self.sessions.items()}


def _read_all(master: int) -> None:
    """Read what a terminal would show, or its program would stand still."""
    try:
        while os.read(master, 65536):
            pass
    except OSError:
        return


def _events(store: LogStore, name: str) -> list[e.Event | e.Opaque]:
    return [event for _, event in decode_events(store, store.read(name))]


def _made(store: LogStore, name: str) -> Tale:
    events = _events(store, name)
    return {
        "turns": sum(isinstance(event, e.TurnStarted) for event in events),
        "requests": sum(isinstance(event, e.ModelRequested) for event in events),
        "cut": [text_of(event.parts) for event in events if isinstance(event, e.ReplyInterrupted)],
        "said": [text_of(event.parts) for event in events if isinstance(event, e.AssistantReplied)],
        "calls": [(event.name, event.status) for event in events if isinstance(event, e.ToolCallFinished)],
        "asked": [event.name for event in events if isinstance(event, e.ApprovalRequested)],
        "ended": [(event.outcome, len(event.answered)) for event in events if isinstance(event, e.TurnEnded)],
    }


def stop(folder: Path, kind: str, states: tuple[str, ...], number: signal.Signals) -> tuple[Tale, Tale]:
    """Stop a process of this kind by this signal; return what the next one finds and makes of it."""
    folder.mkdir()
    with ExitStack() as scope:
        stopped = Stopped(folder, kind, states, scope)
        store = scope.enter_context(open_store(stopped.url))
        process = stopped.first()
        stopped.find_session(store)
        for state in states:
            until(lambda state=state: stopped.is_reached(store, state), f"{kind} did not reach {state}")
        time.sleep(0.3)
        process.send_signal(number)
        process.wait(PATIENCE)
        found = stopped.found(store)
        stopped.next()
        until(lambda: stopped.is_over(store), f"the next process does not end {stopped.found(store)}")
        return found, stopped.made(store)


def assert_equal(folder: Path, kind: str, states: tuple[str, ...]) -> None:
    killed = stop(folder / "killed", kind, states, signal.SIGKILL)
    asked = stop(folder / "asked", kind, states, signal.SIGTERM)
    assert asked[0] == killed[0]
    assert asked[1] == killed[1]
    for state, [session, *_] in asked[1].items():
        assert [outcome for outcome, _ in session["ended"]] == ["completed"] * session["turns"], state


@pytest.mark.parametrize("kind", SERVERS)
def test_a_server_that_is_asked_to_stop_leaves_what_a_killed_one_leaves(tmp_path: Path, kind: str) -> None:
    assert_equal(tmp_path, kind, tuple(state for state in STATES if (kind, state) != ("gateway", "child")))


ALONE = [
    *(("-p", state) for state in ("tool", "waiting", "streaming", "queued")),
    *(("repl", state) for state in ("child", "tool", "waiting", "streaming", "approval", "queued")),
]


@pytest.mark.parametrize(
    ("kind", "state"),
    [pytest.param(*one, marks=[] if one[1] in {"tool", "child"} else pytest.mark.soak) for one in ALONE],
)
def test_a_terminal_that_is_asked_to_stop_leaves_what_a_killed_one_leaves(
    tmp_path: Path, kind: str, state: str
) -> None:
    assert_equal(tmp_path, kind, (state,))
