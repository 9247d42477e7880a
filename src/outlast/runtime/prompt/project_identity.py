"""Identity of a project folder: a key from its real path, and a fingerprint that survives when the folder moves.

The fingerprint names the repository by its `origin` URL, else by its first commit, and the folder inside it. It is read
from git's own files; the git program runs only if they do not contain the first commit and the repository's
configuration runs nothing.
"""

from __future__ import annotations

import hashlib
import re
import time
from pathlib import Path

GIT_SECONDS = 2.0
_ORIGIN = re.compile(r'^\s*\[remote "origin"\]\s*$(.*?)(?=^\s*\[|\Z)', re.MULTILINE | re.DOTALL)
_URL = re.compile(r'^\s*url\s*=\s*"?(.+?)"?\s*$', re.MULTILINE)
_FIRST = re.compile(r"0{40,64} ([0-9a-f]{40,64}) .*\tcommit \(initial\)")
_ADDRESS = re.compile(r"(?:[a-z0-9+.-]+://)?(?:[^/@\s]+@)?([^/:\s]+)(?::\d+(?=/)|[:/])/?(.+)")
MOST = 64 * 1024


def project_key(root: Path) -> str:
    """Return a key for the real path of a project folder."""
    return hashlib.sha256(str(root.resolve()).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def project_fingerprint(root: Path) -> str | None:
    """Return a fingerprint from the project's repository; None without a repository, or without origin and commits."""
    root = root.resolve()
    top = next((folder for folder in (root, *root.parents) if _is_there(folder / ".git")), None)
    git = _git_folder(top / ".git") if top is not None else None
    if top is None or git is None:
        return None
    known = _origin(git) or _first_commit(git, top)
    if known is None:
        return None
    inside = root.relative_to(top).as_posix()
    return hashlib.sha256(f"{known}\n{inside}".encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # the name is too long, or the folder is not accessible
        return False


def _git_folder(place: Path) -> Path | None:
    """Return the git folder that all worktrees of a repository share, or None."""
    if place.is_dir():
        return place
    told = _text(place).removeprefix("gitdir:").strip()
    folder = (place.parent / told) if told else None
    if folder is None or not folder.is_dir():
        return None
    shared = _text(folder / "commondir").strip()
    return (folder / shared).resolve() if shared and "\0" not in shared else folder


def _origin(git: Path) -> str | None:
    """Return the normalised address of `origin`, without scheme, user, password, port and `.git`."""
    section = _ORIGIN.search(_text(git / "config"))
    url = _URL.search(section[1]) if section else None
    if url is None:
        return None
    address = _ADDRESS.fullmatch(url[1])
    if address is None:
        return f"origin {url[1]}"
    return f"origin {address[1].lower()}/{address[2].strip('/').removesuffix('.git')}"


def _first_commit(git: Path, top: Path) -> str | None:
    told = _FIRST.match(_text(git / "logs" / "HEAD"))
    if told is not None:
        return f"root {told[1]}"
    # Rarely needed, and listing sessions must start quickly.
    from outlast.runtime.git_repository import find_repository
    from outlast.runtime.prompt.git_facts import git_outputs

    repository = find_repository(top)
    words = ("rev-list", "--max-parents=0", "HEAD")
    outputs = git_outputs(repository, [words], time.monotonic() + GIT_SECONDS) if repository is not None else None
    commits = sorted(outputs[0].split()) if outputs is not None else []
    return f"root {commits[0]}" if commits else None


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(MOST).decode("utf-8", "replace")
    except OSError:
        return ""
