"""Commands that run at the same time: neither leads the mounts of the other astray, and what a job does is told."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.sandbox.sandboxed import git, repository, snapshot
from tests.sandbox.shell_session import ShellSession

SWAP = """python3 - <<'P'
import ctypes
libc = ctypes.CDLL(None)
while True:
    libc.renameat2(-100, b'inner', -100, b'link', 2)
P"""
ROUNDS = 12


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return repository(tmp_path.resolve() / "project")


@pytest.fixture
async def session(tmp_path: Path, project: Path) -> AsyncIterator[ShellSession]:
    found = ShellSession(tmp_path.resolve(), project, dict(os.environ))
    yield found
    await found.close()


async def test_folder_swapped_for_a_link_leads_no_mount_outside(
    session: ShellSession, project: Path, tmp_path: Path
) -> None:
    """The link leads to a repository of the user outside the project, which must stay as it is."""
    other = repository(tmp_path.resolve() / "other")
    repository(project / "inner")
    os.symlink("../other", project / "link")
    before = snapshot(other)
    job = await session.start(SWAP)
    for number in range(ROUNDS):
        await session.run(f"touch ../other/.git/evil{number}; ls -d ../other/.git")
        assert snapshot(other) == before, "the repository outside was changed"
    await session.call("bash_kill", job_id=job)
    assert snapshot(other) == before


async def test_settings_of_a_nested_repository_changed_during_a_swap_are_set_aside(
    session: ShellSession, project: Path, tmp_path: Path
) -> None:
    inner = repository(project / "inner")
    program = project / "evil"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    program.chmod(0o755)
    os.symlink("nowhere", project / "link")
    job = await session.start(SWAP)
    write = f"printf '[core]\\nfsmonitor = {program}\\n' >> $d/.git/config"
    for _ in range(ROUNDS):
        await session.run(f"for d in inner link; do {write}; done 2>/dev/null; true")
    await session.call("bash_kill", job_id=job)
    await session.run("true")
    for place in (inner, project / "link"):
        if place.is_dir() and (place / ".git").is_dir():
            git(place, "status")
    assert not (tmp_path / "ran").exists()


async def test_link_replaced_by_a_repository_with_the_same_inode_is_set_aside(
    session: ShellSession, project: Path
) -> None:
    """The kernel often gives the inode of a removed link to the next file."""
    repository(project / "inner")
    (project / "outer").mkdir()
    os.symlink("../inner/.git", project / "outer" / ".git")
    await session.run("true")
    made = "rm outer/.git; mkdir outer/.git; cp -r inner/.git/. outer/.git; "
    made += "echo '[core]fsmonitor = x' >> outer/.git/config"
    assert "its settings were set aside" in await session.run(made)
    assert not (project / "outer" / ".git" / "config").exists()


async def test_connections_and_repositories_of_a_job_are_told_with_its_end(
    session: ShellSession, project: Path
) -> None:
    job = await session.start("curl -s http://example.test/; git init -q n; git -C n config core.fsmonitor x")
    outcome = await session.ended(job)
    assert "no network to example.test" in outcome.text
    assert "n/.git was created by a command and can run programs" in outcome.text
    [connection] = outcome.facts["connections"]
    assert (connection["host"], connection["verdict"], connection["need"]) == (
        "example.test", "refused", "network:example.test"
    )  # fmt: skip
    again = await session.call("bash_output", job_id=job)
    assert "blocked by the sandbox" not in again.text


async def test_job_that_hits_its_time_limit_says_so(session: ShellSession) -> None:
    outcome = await session.call("bash", command="sleep 60", background=True, timeout=1)
    ended = await session.ended(str(outcome.facts["job_id"]))
    assert "it took longer than its limit of 1 s" in ended.text


async def test_forwarded_port_is_free_again_after_its_command(session: ShellSession) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        reached = f"python3 -c \"import socket; socket.create_connection(('127.0.0.1', {port}), 3)\" && echo reached"
        assert "reached" in await session.run(reached, f"localhost:{port}")
        own = f"python3 -c \"import socket; socket.create_server(('127.0.0.1', {port}))\" && echo bound"
        assert "bound" in await session.run(own)
