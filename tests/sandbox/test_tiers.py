"""Every tier for real, as the user of the tests and, where that is root, once more as an ordinary user."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast import open_store
from outlast.app.sandbox import sandbox_report, sandbox_warning, sandbox_word
from outlast.app.settings import load_settings
from outlast.core import events as e
from outlast.core.messages import text_of
from outlast.runtime.sandbox.port import Need, NeedKind, SandboxTier
from outlast.runtime.turn.approvals import Question
from tests.sandbox.tiers import NOBODY, WALLED, Walled, missing, ordinary_python, report_of, run_as_ordinary
from tests.support.agents import agent_with, call, only

TESTS = ("test_sandboxed_agent.py", "test_landlock_agent.py", "test_limits_hit.py", "test_tiers.py")


@pytest.mark.parametrize("tier", WALLED)
def test_tier_works_on_this_machine(tier: SandboxTier, tmp_path: Path) -> None:
    report = report_of(tier, tmp_path)
    assert report.tier is tier
    assert report.holds


@pytest.mark.parametrize("tier", WALLED)
async def test_socket_of_a_daemon_is_out_of_reach_unless_it_is_granted(tier: SandboxTier, tmp_path: Path) -> None:
    """Its folder is on no list: a daemon may put its socket anywhere."""
    walled, folder = Walled(tmp_path, tier), Path(tempfile.mkdtemp(dir=Path.home(), prefix="outlast-daemon-"))
    connect = 'python3 -c \'import socket; socket.socket(socket.AF_UNIX).connect("{}"); print("connected")\''
    try:
        with socket.socket(socket.AF_UNIX) as daemon:
            daemon.bind(str(folder / "daemon.sock"))
            daemon.listen()
            attempt = connect.format(folder / "daemon.sock")
            assert subprocess.run(["sh", "-c", attempt], capture_output=True).stdout == b"connected\n"
            assert "connected" not in (await walled.run(attempt)).text.splitlines()
            if tier is SandboxTier.BUBBLEWRAP:  # Landlock opens all sockets or none
                need = Need(NeedKind.SOCKET, str(folder / "daemon.sock"))
                assert (await walled.run(attempt, needs=(need,))).text == "connected"
    finally:
        await walled.close()
        shutil.rmtree(folder)


@pytest.mark.usefixtures("asks_first")
async def test_without_a_sandbox_unknown_commands_are_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTLAST_HOME", str(tmp_path / "home"))
    asked: list[str | None] = []

    async def deny(question: Question) -> str:
        asked.append(question.reason)
        return "deny"

    project = tmp_path / "proj"
    commands = [call("bash", "c1", command="cat kept"), call("bash", "c2", command="./build.sh > made")]
    agent = agent_with(open_store(f"sqlite:///{tmp_path}/x.db"), project, *commands, "Done.", answerer=deny)
    (project / "kept").write_text("kept")
    await agent.run("Build it.")
    first, second = (text_of(found.parts) for found in only(agent, e.ToolCallFinished))
    assert first == "kept"
    assert "declined" in second
    assert len(asked) == 1
    assert "not on the list of harmless ones" in (asked[0] or "")
    assert not (project / "made").exists()


@pytest.mark.usefixtures("asks_first")
def test_without_a_sandbox_one_line_says_so(tmp_path: Path) -> None:
    settings = load_settings(home=tmp_path, project_root=tmp_path)
    assert sandbox_report(settings).tier is SandboxTier.NONE
    line = sandbox_warning(settings, "workspace-write") or ""
    assert line.startswith("no sandbox, so you are asked about most commands")
    assert "\n" not in line
    assert sandbox_word(settings, "workspace-write") == "no sandbox"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder of the ordinary user; those of pytest are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="outlast-tiers-"))
    os.chown(folder, NOBODY, NOBODY)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="the whole suite runs as an ordinary user here")
def test_tiers_work_as_an_ordinary_user(open_folder: Path) -> None:
    start = ordinary_python()
    if start is None:
        missing("needs setpriv and a Python with our packages that an ordinary user can run")
    files = [f"tests/sandbox/{name}" for name in TESTS]
    argv = [*start, "-m", "pytest", "-q", "-rs", "-n0", "-p", "no:cacheprovider", f"--basetemp={open_folder}/t", *files]
    result = run_as_ordinary(argv, open_folder, OUTLAST_HOME=str(open_folder / "home"))
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-2000:]
    skipped = re.findall(r"^SKIPPED.*", result.stdout, re.MULTILINE)
    assert [line for line in skipped if "ordinary user here" not in line and "control group" not in line] == []
