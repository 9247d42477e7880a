"""`holdfast demo`: append, a real kill -9 in mid-append, reopen, compare, verify, go on. Told as it happens."""

import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from holdfast.app.integrity import verify_store
from holdfast.app.stores import store_at
from holdfast.core.errors import HoldfastError
from holdfast.core.messages import Message, Role
from holdfast.doors.cli.options import Store
from holdfast.doors.cli.printing import counted, plain
from holdfast.session import ConversationSession

app = typer.Typer()
ACKNOWLEDGED_BEFORE_THE_KILL = 100


@app.command("demo")
def demo(store: Store = None, writer: Annotated[str | None, typer.Option("--writer", hidden=True)] = None) -> None:
    """Kill a writer with SIGKILL in the middle of its work and see that nothing it acknowledged is lost."""
    if writer is not None:
        _write_for_ever(store, writer)
    elif store is not None:
        _show(store)
    else:
        with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder:
            _show(f"sqlite:///{Path(folder) / 'demo.db'}")


def _write_for_ever(url: str | None, session_id: str) -> None:
    """The child: one durable append after the other, each acknowledged on stdout. Never returns."""
    with closing(store_at(url)) as store:
        session = ConversationSession.load(session_id=session_id, store=store)
        if session is None:
            raise HoldfastError(f"no session {session_id} to write to")
        number = 0
        while True:
            number += 1
            seq = session.append(Message(role=Role.USER, content=f"message {number}"))
            sys.stdout.write(f"{seq}\n")
            sys.stdout.flush()


def _show(url: str) -> None:
    _say(f"Store: {url.split('@')[-1]}")
    with closing(store_at(url)) as store:
        session = ConversationSession(store=store, title="demo")
        session.persist()
    name = session.session_id
    acknowledged = _kill_a_writer(url, name)
    _reopen(url, name, acknowledged)


def _kill_a_writer(url: str, name: str) -> list[int]:
    """Run a child until it has acknowledged some appends, kill it, and return all that it acknowledged."""
    words = [sys.executable, "-m", "holdfast", "demo", "--store", url, "--writer", name]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        _say(f"1. A child process (pid {child.pid}) appends to session {name[:6]}, one synced commit a message.")
        lines: list[str] = []
        while len(lines) < ACKNOWLEDGED_BEFORE_THE_KILL and (line := child.stdout.readline()):
            lines.append(line)
            if len(lines) in (1, 2, 3, ACKNOWLEDGED_BEFORE_THE_KILL - 1):
                _say(f"     acknowledged: event {line.strip()}{' ...' if len(lines) == 3 else ''}")
        child.kill()
        lines += child.stdout.readlines()
        error = child.stderr.read().strip()
    if child.returncode != -9:
        raise HoldfastError(f"the child ended by itself: {error or child.returncode}")
    acknowledged = [int(line) for line in lines if line.endswith("\n")]
    _say(f"2. kill -9 {child.pid}, in the middle of an append. The last event it acknowledged: {acknowledged[-1]}.")
    return acknowledged


def _reopen(url: str, name: str, acknowledged: list[int]) -> None:
    began = time.perf_counter()
    with closing(store_at(url)) as store:
        session = ConversationSession.load(session_id=name, store=store)
        if session is None:
            raise HoldfastError(f"session {name} is gone; this must not happen, please report it")
        messages = session.history(limit=None)
        _say(
            f"3. Reopened in {(time.perf_counter() - began) * 1000:.0f} ms: {counted(len(messages), 'message')} there."
        )
        stored = {message.seq for message in messages}
        missing = [seq for seq in acknowledged if seq not in stored]
        doubled = len(messages) - len({message.content for message in messages})
        _say(f"     acknowledged {len(acknowledged)}, of these missing {len(missing)}, stored twice {doubled}.")
        if len(messages) > len(acknowledged):
            _say(f"     {len(messages) - len(acknowledged)} more was stored but not yet acknowledged: that may be.")
        _verify(url, name)
        seq = session.append(Message(role=Role.USER, content="still here"))
        _say(f"5. It goes on: event {seq} appended. The newest messages now:")
        for message in session.history(limit=3):
            _say(f"     {message.seq}  {plain(message.content)}")
    if missing or doubled:
        raise HoldfastError("acknowledged messages are missing or doubled; this must not happen, please report it")
    _say("Nothing that was acknowledged is lost.")


def _verify(url: str, name: str) -> None:
    report = verify_store(url, name)
    _say(f"4. Verified {counted(report.events, 'event')}: {'every hash is right.' if report.ok else 'DAMAGED.'}")
    for finding in report.damage:
        _say(f"     {plain(finding.line())}")
    if not report.ok:
        raise HoldfastError("the store is damaged; this must not happen, please report it")


def _say(line: str) -> None:
    print(line, flush=True)
