"""A real terminal for tests: tmux, which draws what a person would see, and an `outlast` in it."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from outlast.store import open_store
from outlast.store.log_store import LogStore
from tests.conftest import needs

PATIENCE = 20.0
"""The folder of one run of the tests, whoever of its workers asks."""


def call(name: str, /, **arguments: Any) -> dict[str, Any]:
    """A line of a script that asks for one tool call."""
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def reply(text: str, **more: Any) -> dict[str, Any]:
    return {"content": text, **more}


class Place:
    """A project, a home and a script: what an `outlast` needs to run apart from whoever runs the tests."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        self.home = folder / "home"
        self.script = folder / "script.json"
        self.project.mkdir(parents=True)

    def says(self, *lines: dict[str, Any]) -> None:
        self.script.write_text(json.dumps(lines))

    @property
    def model(self) -> str:
        return f"scripted:{self.script}"

    def environment(self) -> dict[str, str]:
        """Compiled modules are kept for later starts: a hundred starts would compile them a hundred times."""
        left_out = {"PYTHONDONTWRITEBYTECODE", "XTERM_VERSION", "STY", "NO_COLOR"}
        kept = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
        own = {"OUTLAST_HOME": str(self.home), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
        return {name: value for name, value in (kept | own).items() if name not in left_out}

    def store(self) -> LogStore:
        """What the sessions are in, for a test that prepares or looks at them."""
        self.home.mkdir(exist_ok=True)
        return open_store(f"sqlite:///{self.home}/outlast.db")

    def run(self, *words: str, stdin: str = "", timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """One command, without a terminal."""
        return subprocess.run(
            [sys.executable, "-m", "outlast", *words],
            cwd=self.project,
            env=self.environment(),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "outlast", *words],
            cwd=self.project,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


class Terminal:
    """A `outlast` in a terminal of 110 by 45. Use as a context."""

    def __init__(self, place: Place, *words: str) -> None:
        self.place = place
        self._tmux = [needs("tmux"), "-L", f"outlast-{secrets.token_hex(6)}", "-f", os.devnull]
        command = shlex.join([sys.executable, "-m", "outlast", *words])
        shown = f"{command}; echo left with $?; exec sleep 1000"
        self._do("new-session", "-d", "-x", "110", "-y", "45", "-c", str(place.project), "sh", "-c", shown)

    def _do(self, *words: str) -> str:
        done = subprocess.run(
            [*self._tmux, *words], env=self.place.environment(), capture_output=True, text=True, timeout=20
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def screen(self) -> str:
        """Everything that is or was on the screen."""
        return self._do("capture-pane", "-p", "-J", "-S", "-500")

    def visible(self) -> list[str]:
        """What can be seen without scrolling back, without the empty lines at its end."""
        return self._do("capture-pane", "-p").rstrip("\n").split("\n")

    def resize(self, columns: int) -> None:
        self._do("resize-window", "-x", str(columns), "-y", "45")

    def sees(self, *texts: str, times: int = 1, patience: float = PATIENCE) -> str:
        """Wait until all of these are on the screen; the screen."""
        until = time.monotonic() + patience
        while True:
            found = self.screen()
            if all(found.count(text) >= times for text in texts):
                return found
            assert time.monotonic() < until, f"{texts} not on the screen:\n{found}"
            time.sleep(0.05)

    def until(self, true: Callable[[], bool]) -> None:
        """Wait until something outside the screen is so."""
        until(true, self.screen)

    def keys(self, *names: str) -> None:
        self._do("send-keys", *names)

    def types(self, text: str) -> None:
        """Type a line and press Enter."""
        self._do("send-keys", "-l", text)
        self._do("send-keys", "Enter")

    def kill(self) -> None:
        """kill -9 for the `outlast` in it, which is the only child of the shell."""
        shell = self._do("display-message", "-p", "#{pane_pid}").strip()
        [child] = Path(f"/proc/{shell}/task/{shell}/children").read_text().split()
        os.kill(int(child), signal.SIGKILL)

    def close(self) -> None:
        """Close the window, as a person would: everything in it gets SIGHUP."""
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, timeout=20)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def until(true: Callable[[], bool], told: Callable[[], str] = str) -> None:
    """Wait until this is so; `told` says what there is to see when it never is."""
    latest = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < latest, told()
        time.sleep(0.02)
