"""How a command is run: without a sandbox, as the user would, or through a sandbox."""

import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Protocol

from tests.sandbox.arena import bubblewrap
from tests.sandbox.world import HOME, OTHER, OURS, PROJECT

SECONDS = 10.0
PATH = os.pathsep.join(["", ".", str(HOME / ".local/bin"), "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"])
"""The PATH of a careless user: with an empty and a relative element."""


def user_environment(keys: dict[str, str]) -> dict[str, str]:
    """Return the environment in which the agent was started: provider keys, sockets and tokens are in it."""
    return {
        "PATH": PATH,
        "HOME": str(HOME),
        "USER": "user",
        "SHELL": "/bin/bash",
        "LANG": "C.UTF-8",
        "TERM": "xterm",
        "OUTLAST_HOME": str(OURS),
        "SSH_AUTH_SOCK": "/tmp/ssh-agent/agent.1",
        "DBUS_SESSION_BUS_ADDRESS": "unix:path=/run/user/0/bus",
        "XDG_RUNTIME_DIR": "/run/user/0",
        "DISPLAY": ":0",
        "WAYLAND_DISPLAY": "wayland-0",
        "DOCKER_HOST": "unix:///run/docker.sock",
        "TMUX": "/tmp/tmux-0/default,1,0",
        **keys,
    }


class Runner(Protocol):
    """Runs a command in a project and returns its output; a call that is refused is an output too.

    `elsewhere` runs it in another session, whose project is another one."""

    def run(self, command: str, *, read_only: bool = False, elsewhere: bool = False) -> str: ...

    def close(self) -> None: ...


class BareRunner:
    """No sandbox: the shell is a child of the trial, and what it leaves behind stays."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.environment = environment

    def run(self, command: str, *, read_only: bool = False, elsewhere: bool = False) -> str:
        # The shell's parent is another shell, since some attacks kill or read their parent.
        start = ["sh", "-c", '"$@"; exit 0', "sh", "bash", "--noprofile", "--norc"]
        return run_shell(start, command, self.environment, OTHER if elsewhere else PROJECT)

    def close(self) -> None:
        """Nothing is kept."""


class PlainBubblewrapRunner:
    """A bubblewrap of a few lines, to tell failures of the corpus from failures of the product."""

    def __init__(self, environment: dict[str, str]) -> None:
        kept = ("HOME", "LANG", "TERM", "USER")
        self.environment = {**{name: environment[name] for name in kept}, "PATH": "/usr/local/bin:/usr/bin:/bin"}

    def run(self, command: str, *, read_only: bool = False, elsewhere: bool = False) -> str:
        program = bubblewrap()
        assert program is not None
        project = OTHER if elsewhere else PROJECT
        argv = [program, "--unshare-all", "--unshare-user", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
        argv += ["--tmpfs", "/run", "--tmpfs", "/tmp", "--tmpfs", "/var/tmp", "--tmpfs", str(HOME)]
        argv += ["--ro-bind" if read_only else "--bind", str(project), str(project), "--cap-drop", "ALL"]
        if not read_only:
            for name in (".git/config", ".git/hooks", ".outlast"):
                argv += ["--ro-bind-try", str(project / name), str(project / name)]
        argv += ["--new-session", "--die-with-parent", "--disable-userns", "--chdir", str(project), "--", "bash"]
        return run_shell(argv, command, self.environment, project)

    def close(self) -> None:
        """Nothing is kept."""


def run_shell(start: list[str], command: str, environment: dict[str, str], folder: Path) -> str:
    """Run a command until its shell ends, not until its output does: processes it left may hold that open."""
    with tempfile.TemporaryFile(dir="/srv") as output:
        process = subprocess.Popen(
            [*start, "-c", "--", command], cwd=folder, env=environment,
            stdin=subprocess.DEVNULL, stdout=output, stderr=output,
        )  # fmt: skip
        until = time.monotonic() + SECONDS
        while process.poll() is None:
            if time.monotonic() > until:
                os.kill(process.pid, signal.SIGKILL)
            time.sleep(0.001)
        output.seek(0)
        return output.read(1 << 20).decode("utf-8", "replace")
