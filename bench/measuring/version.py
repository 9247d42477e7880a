"""One version of the package: its interpreter, its name, and how its programs are started."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Version:
    """An interpreter and the name of the package in it."""

    label: str
    python: str
    name: str

    @classmethod
    def parse(cls, label: str, text: str) -> Version:
        """Read `PYTHON:NAME`."""
        python, colon, name = text.rpartition(":")
        if not colon or not name.isidentifier():
            raise SystemExit(f"--{label} takes PYTHON:NAME, not '{text}'")
        return cls(label, python, name)

    def environment(self, home: Path, **more: str) -> dict[str, str]:
        """A process gets this environment: its own home, no settings and no keys of the user who runs us."""
        ours = f"{self.name.upper()}_"
        kept = {
            key: value
            for key, value in os.environ.items()
            if not key.endswith("_API_KEY") and not key.startswith((ours, "OUTLAST_", "PYTHON"))
        }
        fixed = {"LC_ALL": "C.UTF-8", "TZ": "UTC", "NO_COLOR": "1", "PYTHONHASHSEED": "0", "COLUMNS": "120"}
        return kept | fixed | {f"{ours}HOME": str(home)} | more

    def command(self, *words: str) -> list[str]:
        """The command line of the package."""
        return [self.python, "-m", self.name, *words]

    def script(self, file: str, *words: str) -> list[str]:
        """One of our own scripts in this version's interpreter."""
        return [self.python, str(HERE / file), self.name, *words]

    def start(self, command: list[str], home: Path, folder: Path, **more: Any) -> subprocess.Popen[str]:
        """Start a process of this version with pipes for its streams."""
        given: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
        return subprocess.Popen(command, cwd=folder, env=self.environment(home), text=True, **given)

    def folder_of(self, package: str) -> Path:
        """Where the interpreter finds that package."""
        code = f"import importlib.util as u; print(u.find_spec({package!r}).submodule_search_locations[0])"
        done = subprocess.run([self.python, "-c", code], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{self.python} has no {package}: the PostgreSQL server comes with it")
        return Path(done.stdout.strip())
