"""Runs everyday commands in an arena, outside any sandbox and by an agent: `python -m ...both_runs PART PARTS`.

It prints one JSON object per command: exit codes, changed files, outputs and questions of both runs. The agent is a
real one in the default mode; its model proposes the commands one after the other. Where a result names a wall and how
to ask for it, the model asks for exactly that, once. The user answers every question with "for this session".
"""

import asyncio
import ctypes
import functools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any
from unittest.mock import patch

from outlast import CompletionResponse, ToolCall, open_store
from outlast.app.sandbox import command_sandbox
from outlast.app.settings import load_settings
from outlast.core import events as e
from outlast.core.messages import text_of
from outlast.models.port import Abilities, ModelEvent, ModelRequest
from outlast.runtime.sandbox import command_network
from outlast.runtime.sandbox.network.destination import forbidden_destination
from outlast.runtime.sandbox.network.proxy import NetworkProxy
from outlast.runtime.sandbox.port import SandboxTier
from outlast.runtime.turn.approvals import Question
from tests.sandbox.arena import WORLD
from tests.sandbox.friction.corpus import CORPUS
from tests.sandbox.friction.developer_home import ENVIRONMENT, create_home
from tests.sandbox.friction.everyday import OURS, PROJECT, PYTHON, Everyday
from tests.sandbox.friction.hosts import ADDRESS, HOSTS, hosts_served
from tests.sandbox.friction.tree_state import TreeState
from tests.support.agents import agent_with, only

SECONDS = 30.0
ASK = re.compile(r'\[blocked by the sandbox: [^\n]*?ask with needs=(\["[^\]]*"\])')
MS_BIND, MS_REC = 4096, 16384
MOVED = "[the folder is now "


@dataclass
class Run:
    """What one run of a command did."""

    code: int | None = None
    changes: dict[str, str] = field(default_factory=dict[str, str])
    output: str = ""
    questions: list[str] = field(default_factory=list[str])
    repeated: bool = False


def run_outside(command: str) -> Run:
    with tempfile.TemporaryFile() as output:
        argv = ["bash", "--noprofile", "--norc", "-c", "--", command]
        process = subprocess.Popen(
            argv, cwd=PROJECT, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            start_new_session=True,
        )  # fmt: skip
        code = process.wait(SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        output.seek(0)
        return Run(code=code if code >= 0 else 128 - code, output=output.read(20_000).decode("utf-8", "replace"))


class Proposer:
    """The model: it proposes the next command when it gets the result of the last one."""

    provider = "scripted"
    name = "everyday"

    def __init__(self, commands: Sequence[Everyday], tree: TreeState) -> None:
        self.abilities = Abilities(context_window=50_000_000, summarises=False)
        self.runs = [Run() for _ in commands]
        self._commands = commands
        self._tree = tree
        self._at = -1
        self._has_run = False
        self._is_moved = False
        self._needs: list[str] = []

    async def answer(self, question: Question) -> str:
        self.runs[self._at].questions.append(f"{question.reason}")
        return "session"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield self._next(request).finished(self.name)

    async def close(self) -> None:
        """Nothing is open."""

    def _next(self, request: ModelRequest) -> CompletionResponse:
        if self._has_run:
            self._look(text_of(request.messages[-1].parts))
        if self._is_moved:
            self._is_moved = self._has_run = False
            return self._call(f"cd {PROJECT}", f"back-{self._at}")
        self._has_run = True
        if self._needs:
            needs, self._needs = self._needs, []
            return self._call(self._commands[self._at].filled, f"again-{self._at}", needs)
        self._at += 1
        if self._at == len(self._commands):
            return CompletionResponse(content="Done.")
        return self._call(self._commands[self._at].filled, f"call-{self._at}")

    def _look(self, result: str) -> None:
        """Take down what the last command did, and put the files back."""
        run = self.runs[self._at]
        run.changes, run.output = self._tree.changes(), result
        self._tree.restore()
        self._is_moved = MOVED in result
        found = [] if run.repeated else ASK.findall(result)
        self._needs = list(dict.fromkeys(need for text in found for need in json.loads(text)))
        run.repeated = run.repeated or bool(found)

    def _call(self, command: str, call_id: str, needs: Sequence[str] = ()) -> CompletionResponse:
        arguments: dict[str, Any] = {"command": command}
        if needs:
            arguments |= {"needs": list(needs), "why": "The sandbox blocked it."}
        return CompletionResponse(tool_calls=[ToolCall(id=call_id, name="bash", arguments=arguments)])


async def run_inside(commands: Sequence[Everyday], tree: TreeState) -> list[Run]:
    """Run the commands in one session of an agent; return what each did in the end."""
    settings = load_settings(home=OURS, sandbox="auto")
    sandbox = command_sandbox(settings)
    assert sandbox is not None
    assert sandbox.report.tier is SandboxTier.BUBBLEWRAP, sandbox.report
    proposer = Proposer(commands, tree)
    store = open_store(f"sqlite:///{OURS}/sessions.db")
    agent = agent_with(store, PROJECT, backend=proposer, answerer=proposer.answer, prompting=True, max_steps=10_000)
    try:
        await agent.run("Do the everyday work.")
        codes = {finished.call_id: _code(finished.facts) for finished in only(agent, e.ToolCallFinished)}
    finally:
        sandbox.close()
    for at, run in enumerate(proposer.runs):
        run.code = codes[f"again-{at}" if run.repeated else f"call-{at}"]
    return proposer.runs


def _code(facts: dict[str, Any]) -> int | None:
    """Return the exit code, as a shell has it that was not killed itself."""
    name = facts.get("signal")
    return 128 + signal.Signals[name] if isinstance(name, str) else facts.get("exit_code")


def mount(source: str, target: str, kind: str, flags: int = 0) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(source.encode(), target.encode(), kind.encode(), flags, None) != 0:
        raise OSError(ctypes.get_errno(), f"the arena cannot mount {target}")


def enter_arena() -> None:
    """Give the arena its own processes and names, and this process the developer's environment."""
    mount("proc", "/proc", "proc")
    names = WORLD.parent / "hosts"
    names.write_text("127.0.0.1 localhost\n" + "".join(f"{ADDRESS} {host}\n" for host in HOSTS))
    mount(str(names), "/etc/hosts", "", MS_BIND)
    PYTHON.mkdir()
    mount(os.path.realpath(sys.base_prefix), str(PYTHON), "", MS_BIND | MS_REC)
    for name in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE"):
        os.environ.pop(name, None)
    os.environ.update(ENVIRONMENT, OUTLAST_HOME=str(OURS))


def only_hosts_are_public(address: str) -> str | None:
    """The rules of the proxy hold for every address but that of the arena's hosts."""
    return None if address == ADDRESS else forbidden_destination(address)


def as_row(command: Everyday, outside: Run, inside: Run) -> dict[str, Any]:
    return {"command": command.command, "kind": command.kind, "outside": asdict(outside), "inside": asdict(inside)}


def main() -> None:
    part, parts = map(int, sys.argv[1:3])
    commands = [one for at, one in enumerate(CORPUS) if at % parts == part]
    enter_arena()
    create_home()
    OURS.mkdir()
    tree = TreeState()
    proxy = functools.partial(NetworkProxy, forbids=only_hosts_are_public)
    with hosts_served(), patch.object(command_network, "NetworkProxy", proxy):
        began = time.monotonic()
        outside: list[Run] = []
        for command in commands:
            run = run_outside(command.filled)
            run.changes = tree.changes()
            tree.restore()
            outside.append(run)
        middle = time.monotonic()
        inside = asyncio.run(run_inside(commands, tree))
        ended = time.monotonic()
    for row in map(as_row, commands, outside, inside):
        print(json.dumps(row))
    seconds = {"outside": round(middle - began, 1), "inside": round(ended - middle, 1)}
    print(json.dumps({"seconds": seconds, "processor": round(sum(os.times()[:4]), 1)}))


if __name__ == "__main__":
    main()
