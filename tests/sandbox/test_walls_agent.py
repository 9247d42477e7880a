"""Walls as a user meets them: lifted ones are open, standing ones are named, and nothing of them stays behind."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.sandbox.sandboxed import git, repository
from tests.sandbox.shell_session import ShellSession
from tests.support.terminal import Place, call, reply


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return repository(tmp_path.resolve() / "project")


@pytest.fixture
async def session(tmp_path: Path, project: Path) -> AsyncIterator[ShellSession]:
    found = ShellSession(tmp_path.resolve(), project, dict(os.environ))
    yield found
    await found.close()


async def test_lifted_git_configuration_can_be_written_as_git_writes_it(session: ShellSession, project: Path) -> None:
    """Git replaces the file by a rename, which fails on a mount point."""
    text = await session.run("git config user.nickname one && echo written", "write:.git/config")
    assert text == "written"
    assert git(project, "config", "user.nickname") == "one\n"
    blocked = await session.run("git config user.nickname two")
    assert f'ask with needs=["write:{project}/.git/config"]' in blocked
    assert git(project, "config", "user.nickname") == "one\n"
    hook = await session.run("echo x > .git/hooks/pre-commit && echo written", "write:.git/config")
    assert "written" not in hook, "another wall stays"


async def test_lifted_hook_that_does_not_exist_yet_can_be_created(session: ShellSession, project: Path) -> None:
    await session.run("echo x > .git/hooks/pre-commit", "write:.git/hooks/pre-commit")
    assert (project / ".git" / "hooks" / "pre-commit").read_text() == "x\n"


@pytest.mark.parametrize("folder", ["project", "elsewhere"])
async def test_socket_of_a_program_outside_is_a_wall(session: ShellSession, tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir(exist_ok=True)
    path = tmp_path.resolve() / folder / "service"
    connect = f"python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('{path}')\" && echo connected"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        assert "connected" not in await session.run(connect)
        assert "connected" in await session.run(connect, f"socket:{path}")


async def test_socket_of_the_session_itself_can_be_connected(session: ShellSession) -> None:
    server = "import socket, time; s = socket.socket(socket.AF_UNIX); s.bind('own.sock'); s.listen(); time.sleep(20)"
    await session.start(f'python3 -c "{server}"')
    client = "import socket; socket.socket(socket.AF_UNIX).connect('own.sock')"
    connect = f'until test -S own.sock; do sleep 0.1; done; python3 -c "{client}"'
    assert "connected" in await session.run(f"{connect} && echo connected")


def test_print_names_a_host_that_a_running_command_could_not_reach(place: Place) -> None:
    fetch = call("bash", command="curl -s http://example.test/ -o /dev/null; true")
    place.says(fetch, fetch, reply("Done."))
    done = place.run("-p", "fetch it", "--model", place.model, "--output-format", "json")
    assert done.stderr.count("was not allowed to reach example.test (--allow network:example.test allows it)") == 1
    assert len(json.loads(done.stdout)["denied"]) == 1


def test_print_names_an_obeyed_file_that_was_put_back(place: Place) -> None:
    made = "mkdir -p .github/workflows; echo x > .github/workflows/ci.yml"
    place.says(call("bash", command=made), reply("Done."))
    done = place.run("-p", "make it", "--model", place.model)
    assert "bash changed .github/workflows/ci.yml, which other programs obey: put back" in done.stderr
    assert list(place.project.iterdir()) == [], "the folders are gone, too"


def test_process_that_ends_with_a_running_job_leaves_no_stub(place: Place) -> None:
    place.says(call("bash", command="sleep 60", background=True), reply("Done."))
    git(place.project, "init", "-q")
    before = sorted(path.name for path in (place.project / ".git").iterdir())
    done = place.run("-p", "start it", "--model", place.model)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in place.project.iterdir()] == [".git"]
    assert sorted(path.name for path in (place.project / ".git").iterdir()) == before


def test_print_says_at_the_start_that_there_is_no_sandbox_in_full_access_mode(place: Place) -> None:
    place.says(reply("Done."))
    done = place.run("-p", "go", "--model", place.model, "--permission-mode", "danger-full-access")
    assert done.stderr == "outlast: danger-full-access: commands run without a sandbox and without questions\n"


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("config.toml", 'sandbox_hidden = ["keys"]\n', "'keys' in sandbox_hidden is no absolute path"),
        ("hidden-paths.txt", "keys\n", "hidden-paths.txt is no absolute path: begin it with / or ~/"),
        ("config.toml", "[sandbox_limits]\nfile_bytes = -1\n", "sandbox_limits is invalid"),
        ("config.toml", "[sandbox_limits]\nmemory_share = 80\n", "sandbox_limits is invalid"),
    ],
)
def test_malformed_setting_of_the_sandbox_is_told_at_the_start(place: Place, name: str, text: str, told: str) -> None:
    place.home.mkdir(exist_ok=True)
    (place.home / name).write_text(text)
    place.says(reply("Done."))
    done = place.run("-p", "go", "--model", place.model)
    assert done.returncode != 0
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1
