"""`outlast sessions ...` as a user runs it: real processes, one after another, on a store of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = [
    {"tool_calls": [{"id": "w", "name": "write", "arguments": {"file_path": "a.txt", "content": "one\n"}}]},
    {"content": "a.txt says 東京"},
    {"content": "and more"},
]


class Terminal:
    """A user's folder, home and command line."""

    def __init__(self, folder: Path, store: str | None = None) -> None:
        self.project = folder / "project"
        self.project.mkdir()
        (folder / "script.json").write_text(json.dumps(SCRIPT))
        self.model = f"scripted:{folder / 'script.json'}"
        self._environment = {**os.environ, "OUTLAST_HOME": str(folder / "home")}
        if store is not None:
            self._environment["OUTLAST_STORE"] = store

    def __call__(self, *words: str, code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "outlast", *words],
            cwd=self.project,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode == code, done.stderr
        if code:
            assert len(done.stderr.strip().splitlines()) == 1, done.stderr
        return done.stdout or done.stderr

    def ask(self, *words: str) -> None:
        self("-p", *words, "--model", self.model)


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    return Terminal(tmp_path)


def test_a_session_is_made_found_shown_moved_and_erased(terminal: Terminal, tmp_path: Path) -> None:
    terminal.ask("write a.txt, please")
    [row] = json.loads(terminal("sessions", "list", "--json"))["sessions"]
    name = row["id"]
    [hit] = json.loads(terminal("sessions", "search", "東", "--json"))["hits"]
    assert hit["session_id"] == name
    shown = json.loads(terminal("sessions", "show", name[:6], "--json"))
    assert hit["seq"] in [message["seq"] for message in shown["messages"]]
    fork = terminal("sessions", "fork", name[:6]).strip()
    path = tmp_path / "fork.jsonl"
    terminal("sessions", "export", fork, "-o", str(path))
    other = f"files:///{tmp_path}/other"
    terminal("sessions", "import", str(path), "--store", other)
    assert terminal("sessions", "export", fork, "--store", other).encode() == path.read_bytes()
    assert "no damage" in terminal("verify", "--store", other)
    assert "deleted" in terminal("sessions", "delete", name[:6], "--yes")
    assert "a.txt says 東京" in terminal("sessions", "export", fork[:6], "--format", "md")
    assert "1 session" in terminal("sessions", "stats")


def test_mistakes_are_one_sentence_and_the_right_code(terminal: Terminal) -> None:
    terminal("sessions", "show", "zzzzzz", "--store", "nonsense", code=1)
    terminal.ask("hello")
    terminal("sessions", "show", "zzzzzz", code=3)
    name = json.loads(terminal("sessions", "list", "--json"))["sessions"][0]["id"][:6]
    terminal("sessions", "end", name)
    assert "reopen" in terminal("sessions", "resume", name, code=4)
    terminal("sessions", "delete", name, code=4)


def test_resume_goes_on_with_the_session(terminal: Terminal) -> None:
    terminal.ask("write a.txt, please")
    name = json.loads(terminal("sessions", "list", "--json"))["sessions"][0]["id"]
    terminal("-p", "and now?", "--resume", name, "--model", terminal.model)
    assert "and more" in terminal("sessions", "show", name)
