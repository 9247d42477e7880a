"""Git facts for the first message of a session: branch, changed files, last commits.

This is the only command that the runtime runs of its own. It runs only in a repository whose configuration runs nothing
(`git_repository.is_inert`), with every program of git's switched off once more, and for half a second at most.
Otherwise branch and last commit are read from git's files.
"""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

from outlast.core.text import visible_line
from outlast.runtime.git_repository import GitRepository, find_repository, is_inert, read_head

SECONDS = 0.5
OUTPUT_LIMIT = 64 * 1024
STATUS_LINES = 20
COMMITS = 5
LINE_LENGTH = 120

_SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "core.fsmonitor": "false",
        "core.hooksPath": os.devnull,
        "core.attributesFile": os.devnull,
        "core.pager": "cat",
        "core.sshCommand": "false",
        "core.gitProxy": "",
        "core.askPass": "",
        "credential.helper": "",
        "diff.external": "",
        "diff.ignoreSubmodules": "all",
        "log.showSignature": "false",
        "protocol.allow": "never",
        "status.submoduleSummary": "false",
        "submodule.recurse": "false",
        "safe.bareRepository": "explicit",
        "safe.directory": "*",
    }
)
_STATUS = (
    "status",
    "--short",
    "--branch",
    "--no-ahead-behind",
    "--no-renames",
    "--untracked-files=normal",
    "--ignore-submodules=all",
    "--",
    ".",
)
_LOG = ("log", f"-{COMMITS}", "--no-color", "--no-decorate", "--no-show-signature", "--no-notes", "--format=%h %s")


def git_facts(project: Path, search_path: str, seconds: float = SECONDS) -> str | None:
    """Return what the model is told about the project's repository; None without one."""
    deadline = time.monotonic() + seconds
    repository = find_repository(project)
    if repository is None:
        return None
    commands = (_STATUS, _LOG) if read_head(repository).commit else (_STATUS,)
    outputs = git_outputs(repository, commands, deadline, search_path=search_path, folder=project)
    if outputs is not None:
        return _told(*outputs)
    return _from_files(repository)


def _told(status: str, log: str = "") -> str:
    head, *changed = status.rstrip("\n").split("\n")
    lines = [f"Git at the start of the session (not updated later). Branch: {_line(head.removeprefix('## '))}"]
    if changed:
        lines += ["  Changed files (git status --short):", *(f"    {_line(line)}" for line in changed[:STATUS_LINES])]
        if len(changed) > STATUS_LINES:
            lines.append(f"    ... and {len(changed) - STATUS_LINES} more")
    else:
        lines.append("  No changed files.")
    commits = [line for line in log.split("\n") if line.strip()]
    if commits:
        lines += ["  Last commits:", *(f"    {_line(line)}" for line in commits[:COMMITS])]
    return "\n".join(lines)


def _from_files(repository: GitRepository) -> str | None:
    head = read_head(repository)
    if not head.branch and not head.commit:
        return None
    branch = _line(head.branch) if head.branch else "none (detached)"
    last = (
        f" Last commit: {_line(f'{head.commit[:10]} {head.subject}'.strip())}." if head.commit else " No commits yet."
    )
    return f"Git at the start of the session (not updated later). Branch: {branch}.{last} Its status was not read."


def _line(text: str) -> str:
    """Return a line of git's output for the model; leading columns of the status stay."""
    indent = len(text) - len(text.lstrip(" "))
    return " " * indent + visible_line(text, LINE_LENGTH)


def git_program(search_path: str | None, top: Path) -> str | None:
    """Return the git program of the search path, by default this process's; relative entries and those inside the
    repository do not count."""
    if search_path is None:
        found = shutil.which("git")
        search_path = os.path.dirname(found) if found else ""
    folders = [folder for folder in search_path.split(os.pathsep) if os.path.isabs(folder)]
    own = [folder for folder in folders if not Path(os.path.realpath(folder)).is_relative_to(top)]
    return shutil.which("git", path=os.pathsep.join(own)) if own else None


def _environment(program: str, repository: GitRepository) -> dict[str, str]:
    settings = {f"GIT_CONFIG_KEY_{n}": key for n, key in enumerate(_SETTINGS)}
    settings |= {f"GIT_CONFIG_VALUE_{n}": value for n, value in enumerate(_SETTINGS.values())}
    return {
        "PATH": os.pathsep.join((os.path.dirname(program), "/usr/bin", "/bin")),
        "LC_ALL": "C.UTF-8",
        "GIT_COMMON_DIR": str(repository.common),  # the directory whose configuration was read
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_COUNT": str(len(_SETTINGS)),
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_ALLOW_PROTOCOL": "",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_PAGER": "cat",
        "GIT_EDITOR": "false",
        "GIT_ASKPASS": "false",
        "GIT_SSH_COMMAND": "false",
        **settings,
    }


def git_outputs(
    repository: GitRepository,
    commands: Sequence[Sequence[str]],
    deadline: float,
    *,
    search_path: str | None = None,
    folder: Path | None = None,
) -> list[str] | None:
    """Run these git commands at the same time; None if git cannot be run without care here, if one of them fails, or if
    they are not done by the deadline."""
    program = git_program(search_path, repository.top)
    if program is None or not is_inert(repository):
        return None
    places = (f"--git-dir={repository.folder}", f"--work-tree={repository.top}")
    start = (program, "--no-pager", "--no-optional-locks", *places)
    running: list[subprocess.Popen[bytes]] = []
    try:
        for words in commands:
            running.append(_started([*start, *words], folder or repository.top, _environment(program, repository)))
        return _read_all(running, deadline)
    except OSError:  # git cannot be started here
        return None
    finally:
        for process in running:
            _end(process)


def _started(command: Sequence[str], folder: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _read_all(running: Sequence[subprocess.Popen[bytes]], deadline: float) -> list[str] | None:
    """Read what the processes print. A process that prints too much is read no further and counts as done."""
    outputs = [bytearray() for _ in running]
    by_stream: dict[int, bytearray] = {}
    with selectors.DefaultSelector() as waiting:
        for process, output in zip(running, outputs, strict=True):
            assert process.stdout is not None
            by_stream[waiting.register(process.stdout, selectors.EVENT_READ).fd] = output
        while waiting.get_map():
            left = deadline - time.monotonic()
            ready = waiting.select(left) if left > 0 else []
            if not ready:
                return None
            for key, _ in ready:
                piece, output = os.read(key.fd, OUTPUT_LIMIT), by_stream[key.fd]
                output += piece
                if not piece or len(output) > OUTPUT_LIMIT:
                    waiting.unregister(key.fileobj)
    for process, output in zip(running, outputs, strict=True):
        if len(output) <= OUTPUT_LIMIT and not _is_done(process, deadline):
            return None
    return [bytes(output[:OUTPUT_LIMIT]).decode("utf-8", "replace") for output in outputs]


def _is_done(process: subprocess.Popen[bytes], deadline: float) -> bool:
    """Whether the process has ended well."""
    try:
        code = process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return False
    return code == 0


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
