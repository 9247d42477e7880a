"""The sandbox through an agent: what commands share, what they cannot reach, what is asked, and that all of it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from outlast import Agent, open_store
from outlast.app.sandbox import command_sandbox, sandbox_report
from outlast.app.settings import load_settings
from outlast.core import events as e
from outlast.core.messages import text_of
from outlast.runtime.sandbox.port import SandboxTier
from outlast.runtime.turn.approvals import Question
from outlast.store.log_store import LogStore
from tests.conftest import everything_is_required
from tests.support.agents import agent_with, call, only

DONE = ["Done."]
SERVER = "python3 -m http.server 3000 --bind 127.0.0.1"
ASKS = "for n in 1 2 3 4 5 6 7 8 9 10; do sleep 0.2; python3 -c {} && break; done"
GET = "'import urllib.request; print(urllib.request.urlopen(\"http://127.0.0.1:3000/here.txt\").read())'"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OUTLAST_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("OUTLAST_SANDBOX", raising=False)
    return tmp_path / "home"


@pytest.fixture
def store(home: Path, tmp_path: Path) -> Iterator[LogStore]:
    settings = load_settings()
    report = sandbox_report(settings)
    if report.tier is not SandboxTier.BUBBLEWRAP:
        (pytest.fail if everything_is_required() else pytest.skip)(report.reason)
    found = open_store(f"sqlite:///{tmp_path}/x.db")
    yield found
    sandbox = command_sandbox(settings)
    assert sandbox is not None
    sandbox.close()


def results(agent: Agent) -> list[str]:
    return [text_of(found.parts) for found in only(agent, e.ToolCallFinished)]


class Answers:
    """Answers questions from a list and keeps their reasons."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.reasons: list[str | None] = []

    async def __call__(self, question: Question) -> str:
        self.reasons.append(question.reason)
        return self.answers.pop(0)


async def test_commands_of_a_session_share_tmp_jobs_and_loopback(store: LogStore, tmp_path: Path) -> None:
    project = tmp_path / "proj"
    agent = agent_with(
        store,
        project,
        call("bash", "c1", command="echo of-this-session > /tmp/note; echo found > here.txt"),
        call("bash", "c2", command=SERVER, background=True),
        call("bash", "c3", command=ASKS.format(GET)),
        call("bash", "c4", command="cat /tmp/note"),
        *DONE,
    )
    assert await agent.run("Serve it.") == "Done."
    assert "found" in results(agent)[2]
    assert results(agent)[3] == "of-this-session"
    other = agent_with(store, project, call("bash", command=f"cat /tmp/note; python3 -c {GET}; ps aux"), *DONE)
    await other.run("Look.")
    [text] = results(other)
    assert "of-this-session" not in text
    assert "http.server" not in text
    assert "refused" in text


async def test_read_only_command_runs_on_a_throw_away_copy(store: LogStore, tmp_path: Path) -> None:
    project = tmp_path / "proj"
    agent = agent_with(
        store,
        project,
        call("bash", "c1", command="echo made > made; cat made; rm -f kept; ls"),
        call("bash", "c2", command="ls"),
        *DONE,
        permission_mode="read-only",
    )
    (project / "kept").write_text("kept")
    await agent.run("Try it.")
    first, second = results(agent)
    assert first.startswith("made\nmade\n[read-only: the command ran on a throw-away copy")
    assert second.startswith("kept\n")
    assert [path.name for path in project.iterdir()] == ["kept"]


async def test_write_outside_is_blocked_named_and_lifted_by_an_answer(store: LogStore, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    answers = Answers("deny", "session")
    agent = agent_with(
        store,
        tmp_path / "proj",
        call("bash", "c1", command="touch /usr/outlast-canary"),
        call("bash", "c2", command=f"touch {outside}/a", needs=[f"write:{outside}"], why="The file belongs there."),
        call("bash", "c3", command=f"touch {outside}/b", needs=[f"write:{outside}"]),
        call("bash", "c4", command=f"touch {outside}/c", needs=[f"write:{outside}/c"]),
        *DONE,
        answerer=answers,
    )
    await agent.run("Write it.")
    texts = results(agent)
    assert "blocked by the sandbox: this command may not write to /usr/outlast-canary" in texts[0]
    assert 'needs=["write:/usr/outlast-canary"]' in texts[0]
    assert not Path("/usr/outlast-canary").exists()
    assert "declined" in texts[1]
    assert [path.name for path in sorted(outside.iterdir())] == ["b", "c"]
    assert len(answers.reasons) == 2
    assert "The file belongs there." in (answers.reasons[0] or "")


async def test_new_folder_is_granted_alone_and_goes_if_nothing_was_put_there(store: LogStore, tmp_path: Path) -> None:
    new, unused = tmp_path / "new", tmp_path / "unused"
    agent = agent_with(
        store,
        tmp_path / "proj",
        call("bash", "c1", command=f"mkdir -p {new}/deep && echo x > {new}/deep/file; touch {tmp_path}/beside",
             needs=[f"write:{new}/deep/file"]),
        call("bash", "c2", command="true", needs=[f"write:{unused}/deep/file"]),
        *DONE,
        answerer=Answers("session", "session"),
    )  # fmt: skip
    await agent.run("Write it.")
    assert (new / "deep" / "file").read_text() == "x\n"
    assert not (tmp_path / "beside").exists()
    assert not unused.exists()


async def test_home_keys_and_other_processes_are_out_of_reach(store: LogStore, home: Path, tmp_path: Path) -> None:
    (home / "state").mkdir(parents=True, exist_ok=True)
    (home / "state" / "token").write_text("THE-TOKEN")
    canary = subprocess.Popen(["sleep", "60"], env={"CANARY": "THE-KEY"})
    command = (
        f"cat {home}/state/token; cat /proc/*/environ | tr '\\0' '\\n' | grep CANARY; kill -9 {canary.pid}; ps aux"
    )
    agent = agent_with(store, tmp_path / "proj", call("bash", command=command), *DONE, permission_mode="allow")
    await agent.run("Take it.")
    [text] = results(agent)
    assert "THE-TOKEN" not in text
    assert "THE-KEY" not in text
    assert canary.poll() is None
    canary.kill()
    canary.wait()


async def test_danger_full_access_runs_outside_the_sandbox(store: LogStore, tmp_path: Path, home: Path) -> None:
    agent = agent_with(
        store, tmp_path / "proj", call("bash", command=f"touch {tmp_path}/outside"), *DONE,
        permission_mode="danger-full-access",
    )  # fmt: skip
    agent.settings = load_settings(permission_mode="danger-full-access", project_root=tmp_path / "proj")
    await agent.run("Write it.")
    assert (tmp_path / "outside").exists()
    [finished] = only(agent, e.ToolCallFinished)
    assert finished.facts["confined"] is False


async def test_sandbox_that_was_killed_is_started_again(store: LogStore, tmp_path: Path) -> None:
    agent = agent_with(
        store,
        tmp_path / "proj",
        call("bash", "c1", command="kill -9 -1; sleep 5; echo never"),
        call("bash", "c2", command="echo again"),
        *DONE,
    )
    await agent.run("Kill it.")
    assert results(agent)[1] == "again"


def test_everything_ends_with_a_killed_agent(home: Path, tmp_path: Path) -> None:
    """A real process with a background job in its sandbox is killed; nothing of the sandbox lives on."""
    mark = f"outlast-mark-{os.getpid()}"
    program = tmp_path / "agent.py"
    program.write_text(
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from outlast import open_store\n"
        "from tests.support.agents import agent_with, call\n"
        f"job = call('bash', 'c1', command='exec -a {mark} sleep 600', background=True)\n"
        "async def main():\n"
        f"    agent = agent_with(open_store('sqlite:///{tmp_path}/y.db'), Path('{tmp_path}/proj'), job, 'Done.')\n"
        "    await agent.run('Start it.')\n"
        "    print('started', flush=True)\n"
        "    await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    process = subprocess.Popen(
        [sys.executable, str(program)], stdout=subprocess.PIPE, cwd=Path.cwd(), env=_with_tests()
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"started\n"
    assert _eventually(lambda: _running(mark))
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert _eventually(lambda: not _running(mark))


def _eventually(holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + 10
    while not holds() and time.monotonic() < until:
        time.sleep(0.02)
    return holds()


def _with_tests() -> dict[str, str]:
    root = str(Path(__file__).parents[2])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))}


def _running(mark: str) -> bool:
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and mark.encode() in (folder / "cmdline").read_bytes().split(b"\0")[0]:
                return True
        except OSError:
            continue
    return False
