"""Reads a repository's index and objects with git, without ever reading the repository's configuration.

git runs with a git directory of our own, whose object store names the repository's as an alternate. So no filter, hook,
monitor or helper that the repository configures can run, whatever it says; the commands below run none anyway. Where
git is missing or fails, there is no answer (None), and the caller keeps copies instead.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from outlast.runtime.git_repository import GitRepository, read_head
from outlast.runtime.prompt.git_facts import git_program
from outlast.runtime.safe_open import read_inside

SECONDS = 30.0
REFS = 1000
REFS_BYTES = 4 * 1024 * 1024
BLOB_LIMIT = 64 * 1024 * 1024
_HEX = frozenset("0123456789abcdef")
_COMMIT = 40


class Tracked(NamedTuple):
    """A path of the index. `blob` is empty for what is no plain file, such as a submodule."""

    path: str
    blob: str


class GitObjects:
    """One repository, read through the git directory `own`."""

    def __init__(self, repository: GitRepository, own: Path, search_path: str | None = None) -> None:
        self.repository = repository
        self._own = own
        self._program = git_program(search_path, repository.top)

    def index_stamp(self) -> tuple[int, int, int] | None:
        """Return a value that changes when the index does; None without an index."""
        try:
            found = os.stat(self.repository.folder / "index")
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def tracked(self) -> list[Tracked] | None:
        """Return the files of the index, with paths relative to the working tree; None if it cannot be read."""
        output = self._run("ls-files", "--stage", "-z")
        if output is None:
            return None
        rows: list[Tracked] = []
        for line in output.split(b"\0")[:-1]:
            head, _, name = line.partition(b"\t")
            mode, blob, _ = head.split(b" ", 2)
            rows.append(Tracked(os.fsdecode(name), blob.decode() if mode.startswith(b"100") else ""))
        return rows

    def blobs(self, ids: Iterable[str]) -> dict[str, bytes]:
        """Return the contents of these blobs; a blob that is missing or too large is left out."""
        wanted = [blob for blob in dict.fromkeys(ids) if blob and set(blob) <= _HEX]
        if not wanted:
            return {}
        sizes = self._run("cat-file", "--batch-check", given=_lines(wanted)) or b""
        small = [row[0] for line in sizes.split(b"\n") if len(row := line.decode().split(" ")) == 3 and _is_small(row)]
        return _contents(self._run("cat-file", "--batch", given=_lines(small)) or b"") if small else {}

    def has_in_commits(self, path: str, blob: str, commits: Sequence[str]) -> bool:
        """Whether one of these commits has exactly this blob at this path of the working tree."""
        if "\n" in path or not commits:
            return False
        asked = _lines(f"{commit}:{path}" for commit in commits)
        output = self._run("cat-file", "--batch-check=%(objectname)", given=asked)
        return output is not None and blob.encode() in output.split(b"\n")

    def has_path(self, path: str, commit: str) -> bool:
        """Whether a commit has this path; True if that cannot be told."""
        output = (
            self._run("cat-file", "--batch-check", given=_lines([f"{commit}:{path}"])) if "\n" not in path else None
        )
        return output is None or not output.rstrip(b"\n").endswith(b" missing")

    def is_reachable(self, commit: str, tips: Sequence[str]) -> bool:
        """Whether a commit is one of these tips or an ancestor of one."""
        if not commit or not tips:
            return False
        output = self._run("rev-list", "--max-count=1", "--stdin", given=_lines([commit, *(f"^{tip}" for tip in tips)]))
        return output == b""

    def tips(self) -> tuple[str, ...]:
        """Return the commits that HEAD, branches, tags, remote branches and the stash name, at most `REFS`."""
        found = dict.fromkeys([read_head(self.repository).commit])
        packed = read_inside(self.repository.common, "packed-refs", REFS_BYTES) or b""
        found |= dict.fromkeys(line[:_COMMIT].decode("ascii", "replace") for line in packed.split(b"\n"))
        for folder, _, names in os.walk(self.repository.common / "refs"):
            for name in names:
                found[_first_line(Path(folder) / name)] = None
            if len(found) > REFS:
                break
        return tuple(tip for tip in found if tip and len(tip) == _COMMIT and set(tip) <= _HEX)[:REFS]

    def head(self) -> str:
        return read_head(self.repository).commit

    def _run(self, *words: str, given: bytes = b"") -> bytes | None:
        if self._program is None or not self._prepare():
            return None
        try:
            ended = subprocess.run(
                [self._program, "--no-pager", "--no-optional-locks", *words],
                cwd=self._own,
                env=self._environment(self._program),
                input=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=SECONDS,
                check=False,
                start_new_session=True,
            )
        except (OSError, subprocess.TimeoutExpired):  # git is an optimisation here; copies are kept without it
            return None
        return ended.stdout if ended.returncode == 0 else None

    def _prepare(self) -> bool:
        """Make our git directory. False if the path of the objects cannot be written into its `alternates`."""
        objects = str(self.repository.common / "objects")
        if "\n" in objects or objects.startswith(("#", '"')):
            return False
        if (self._own / "HEAD").exists():
            return True
        for folder in ("objects/info", "refs"):
            (self._own / folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        (self._own / "objects/info/alternates").write_bytes(os.fsencode(objects) + b"\n")
        (self._own / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = false\n")
        (self._own / "HEAD").write_text("ref: refs/heads/none\n")
        return True

    def _environment(self, program: str) -> Mapping[str, str]:
        return {
            "PATH": os.pathsep.join((os.path.dirname(program), "/usr/bin", "/bin")),
            "LC_ALL": "C.UTF-8",
            "GIT_DIR": str(self._own),
            "GIT_WORK_TREE": str(self._own),
            "GIT_INDEX_FILE": str(self.repository.folder / "index"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_SYSTEM": os.devnull,
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_ALLOW_PROTOCOL": "",
            "GIT_TERMINAL_PROMPT": "0",
        }


def _lines(words: Iterable[str]) -> bytes:
    return b"".join(os.fsencode(word) + b"\n" for word in words)


def _is_small(row: Sequence[str]) -> bool:
    return row[1] == "blob" and row[2].isdigit() and int(row[2]) <= BLOB_LIMIT


def _contents(output: bytes) -> dict[str, bytes]:
    """Split the output of `cat-file --batch`: a line with id, type and size, the bytes, a line feed."""
    found: dict[str, bytes] = {}
    at = 0
    while (end := output.find(b"\n", at)) >= 0:
        row = output[at:end].decode().split(" ")
        if len(row) != 3:
            break
        size = int(row[2])
        found[row[0]] = output[end + 1 : end + 1 + size]
        at = end + 2 + size
    return found


def _first_line(path: Path) -> str:
    data = read_inside(path.parent, path.name, 200) or b""
    return data.split(b"\n")[0].decode("ascii", "replace").strip()
