"""`outlast demo`: a turn with tools, a real kill -9 in the middle of it, and the resume, narrated as it happens."""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from outlast.agent import Agent
from outlast.app.maintenance import verify_store
from outlast.app.settings import load_settings
from outlast.app.stores import store_at
from outlast.core.errors import OutlastError
from outlast.core.messages import Role
from outlast.doors.cli.options import Store
from outlast.doors.cli.output import counted
from outlast.doors.terminal_text import plain
from outlast.runtime.agent_config import AgentConfig
from outlast.session import ConversationSession

app = typer.Typer()
TASK = "Create notes.txt, then run the slow job once."
WITNESS = "witness.txt"
SCRIPT = [
    {"tool_calls": [{"id": "w1", "name": "write", "arguments": {"file_path": "notes.txt", "content": "kept\n"}}]},
    {"tool_calls": [{"id": "b1", "name": "bash", "arguments": {"command": f"echo ran >> {WITNESS}; sleep 30"}}]},
    {"content": "notes.txt is written. The slow job was interrupted; I did not run it again without asking you."},
]


@app.command("demo")
def demo(store: Store = None, child: Annotated[str | None, typer.Option("--child", hidden=True)] = None) -> None:
    """Kill an agent with SIGKILL while one of its tools runs, resume it, and see that nothing is lost or done twice."""
    if child is not None:
        _agent(store, Path(child)).run_sync(TASK)
        return
    with tempfile.TemporaryDirectory(prefix="outlast-demo-") as folder:
        _show(store or f"sqlite:///{Path(folder) / 'demo.db'}", Path(folder))


def _agent(url: str | None, folder: Path) -> Agent:
    """The agent of the demo: it plays a script, and may run shell commands in its own folder."""
    project = folder / "project"
    script = folder / "script.json"
    settings = load_settings(project_root=project, store=url, model=f"scripted:{script}")
    config = AgentConfig(auto_context=False, allow=("bash",))
    return Agent(None, config, project, store=store_at(url), settings=settings)


def _show(url: str, folder: Path) -> None:
    (folder / "project").mkdir()
    (folder / "script.json").write_text(json.dumps(SCRIPT))
    _say(f"Store: {url.split('@')[-1]}")
    name = _killed(url, folder)
    _resumed(url, folder, name)
    _say("Nothing is lost, and nothing was done twice.")


def _killed(url: str, folder: Path) -> str:
    """Run a child process until its second tool runs, kill it, and return the id of its session."""
    words = [sys.executable, "-m", "outlast", "demo", "--store", url, "--child", str(folder)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as child:
        _say(f"1. A child process (pid {child.pid}) works on: {TASK}")
        while not (folder / "project" / WITNESS).exists():
            if child.poll() is not None:
                told = child.stderr.read().strip() if child.stderr is not None else ""
                raise OutlastError(f"the child ended by itself: {told or child.returncode}")
            time.sleep(0.02)
        child.kill()
    with closing(store_at(url)) as store:
        newest = ConversationSession.list(store=store, project_root=folder / "project", limit=1)[0]
        _say(f"2. kill -9 {child.pid}, while its shell command runs. Session {newest.session_id[:6]} has an open turn.")
        for stored in store.read(newest.session_id, kinds=frozenset({"InputAdmitted", "ToolCallStarted"})):
            _say(f"     event {stored.seq}: {stored.kind}")
        return newest.session_id


def _resumed(url: str, folder: Path, name: str) -> None:
    began = time.perf_counter()
    agent = _agent(url, folder)
    with closing(agent.store):
        if not agent.resume_session(name):
            raise OutlastError(f"session {name} is gone; this must not happen, please report it")
        answer = asyncio.run(agent.resume())
        _say(f"3. Resumed and finished in {(time.perf_counter() - began) * 1000:.0f} ms. What the model was told:")
        for message in agent.session.history():
            if message.role is Role.TOOL:
                _say(f"     {plain(message.content.splitlines()[0])}")
        _say(f"4. The answer: {plain(answer)}")
        ran = len((folder / "project" / WITNESS).read_text().splitlines())
        _say(f"5. The slow job ran {ran} time{'' if ran == 1 else 's'}.")
        if ran != 1:
            raise OutlastError("a command was run twice; this must not happen, please report it")
        _verify(url, name)


def _verify(url: str, name: str) -> None:
    report = verify_store(url, name)
    _say(f"6. Verified {counted(report.events, 'event')}: {'every hash is right.' if report.ok else 'DAMAGED.'}")
    for finding in report.damage:
        _say(f"     {plain(finding.line())}")
    if not report.ok:
        raise OutlastError("the store is damaged; this must not happen, please report it")


def _say(line: str) -> None:
    print(line, flush=True)
