"""A world: one version on one store, with a home, a project and what was seen of it."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measuring.version import Version

PATIENCE = 30.0


def until(true: Callable[[], Any], what: str) -> Any:
    """Wait until something is so, and return it."""
    end = time.monotonic() + PATIENCE
    while not (found := true()):
        if time.monotonic() > end:
            raise AssertionError(f"it did not come to pass: {what}")
        time.sleep(0.03)
    return found


def call(name: str, /, **arguments: Any) -> dict[str, Any]:
    """A line of a script: the model asks for one tool call."""
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def said(text: str, **more: Any) -> dict[str, Any]:
    """A line of a script: the model says this."""
    return {"content": text, **more}


class World:
    """A home, a project and a store. The folder has the same path for both versions, so no path can differ."""

    def __init__(self, version: Version, folder: Path, store: str) -> None:
        self.version = version
        self.folder = folder
        self.store = store
        self.home = folder / "home"
        self.project = folder / "project"
        self.sessions: dict[str, str] = {}
        self.shown: list[tuple[str, Any]] = []
        self._batch: subprocess.Popen[str] | None = None

    def begin(self) -> None:
        """Make the folders anew and put the same files into them."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.home.mkdir(parents=True)
        self.project.mkdir()
        (self.project / "notes.txt").write_text("one\ntwo\nthree\n")
        (self.project / "code.py").write_text("def answer() -> int:\n    return 41\n")
        agents = self.home / "agents"
        agents.mkdir()
        (agents / "reviewer.md").write_text("---\nname: reviewer\ndescription: reads only\n---\nYou review code.\n")

    def script(self, name: str, *lines: dict[str, Any]) -> str:
        """Write a script for the scripted model and return the model's name."""
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(lines))
        return f"scripted:{path}"

    def show(self, title: str, what: Any) -> None:
        """Keep something that is compared."""
        self.shown.append((title, what))

    def named(self, label: str, session_id: str) -> str:
        """Give a session a name of the scenario."""
        self.sessions[label] = session_id
        return session_id

    # --- command lines

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a command in a process of its own."""
        return self.version.start(self.version.command(*words, "--store", self.store), self.home, self.project)

    def run(self, title: str, *words: str, code: int = 0) -> str:
        """Run a command in a process of its own, keep what it printed, and return that."""
        process = self.start(*words)
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == code, f"{words}: {process.returncode} {out} {err}"
        self.show(title, {"out": _read(out), "err": err})
        return out

    def quick(self, title: str, *words: str, code: int = 0, store: str | None = None) -> Any:
        """Run a command in the process that runs many, keep what it printed, and return that."""
        if self._batch is None:
            script = self.version.script("commands.py")
            self._batch = self.version.start(script, self.home, self.project, stderr=None)
        assert self._batch.stdin is not None
        assert self._batch.stdout is not None
        self._batch.stdin.write(json.dumps([*words, "--store", store or self.store]) + "\n")
        self._batch.stdin.flush()
        answer = json.loads(self._batch.stdout.readline())
        assert answer["code"] == code, f"{words}: {answer}"
        out = _read(answer["out"])
        self.show(title, {"out": out, "err": answer["err"]})
        return out

    def close(self) -> None:
        """Let the process for many commands go."""
        if self._batch is not None:
            self._batch.communicate(timeout=PATIENCE)
            self._batch = None


def _read(text: str) -> Any:
    """What a command printed, as JSON where it is some: one value, or one a line."""
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return [json.loads(line) for line in text.splitlines()]
    except ValueError:
        return text
