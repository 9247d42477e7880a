"""Recognises that the sandbox made a command fail, and names the wall to the model and the user.

A command's own message never names the sandbox: it says "Read-only file system" or "Could not resolve host". Only
failed commands are looked at, and only the end of their output; `passed_over` is for what is lost without a failure.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

TAIL = 20_000
MOST_PATHS = 3
_READ_ONLY = re.compile(r"read-only file system|\bEROFS\b|Errno 30", re.IGNORECASE)
_BUSY = re.compile(r"device or resource busy|\bEBUSY\b|Errno 16", re.IGNORECASE)
"""How the kernel refuses to rename or remove a protected path, which is a mount point."""
_REFUSED = re.compile(r"permission denied|operation not permitted|\bEACCES\b|\bEPERM\b", re.IGNORECASE)
_EITHER = re.compile(f"{_READ_ONLY.pattern}|{_REFUSED.pattern}", re.IGNORECASE)
_QUOTES = "'\"\u2018\u2019\u201c\u201d"
_PATH = re.compile(
    rf"[{_QUOTES} ]((?:/|\.\.?/|\.git|\.outlast)[^{_QUOTES}:\n]{{0,300}})"
    rf"|^(/[^:\n]{{1,300}}): *(?={_EITHER.pattern}|{_BUSY.pattern})",
    re.MULTILINE | re.IGNORECASE,
)
"""A path at the start of a line counts only if the refusal follows: else it is the program that prints the line."""
_CONFIGURATION = re.compile(r"could not (?:write|lock) config file (.{1,300}): Device or resource busy")
_MOVES = re.compile(r"\b(?:cd|pushd|-C)\b")
_NETWORK = re.compile(
    r"could not resolve (?:hostname|host|proxy)[: ]*'?(?P<curl>[\w.-]+)?|temporary failure in name resolution|"
    r"name or service not known|network is unreachable|\bENOTFOUND\b(?: (?P<node>[\w.-]+))?|\bEAI_AGAIN\b|"
    r"\bENETUNREACH\b|no address associated with hostname|failed to lookup address|no such host",
    re.IGNORECASE,
)
_LOGINS = {
    ".config/gh": ("gh", "gh auth login"),
    ".git-credentials": ("git", "could not read Username|Authentication failed for"),
    ".netrc": ("git", "could not read Username|Authentication failed for"),
    ".ssh": ("git|ssh|scp|rsync", r"Permission denied \(publickey"),
    ".aws": ("aws", "Unable to locate credentials|aws configure|aws sso login"),
    ".config/gcloud": ("gcloud|gsutil|bq", "gcloud auth login|application-default login"),
    ".azure": ("az", "az login"),
    ".kube": ("kubectl|helm", "connection to the server localhost:8080 was refused"),
    ".docker/config.json": ("docker", "docker login"),
    ".npmrc": ("npm|pnpm|yarn", r"\bENEEDAUTH\b|npm login|npm adduser"),
    ".cargo/credentials.toml": ("cargo", "cargo login"),
    ".terraform.d/credentials.tfrc.json": ("terraform", "terraform login"),
}
"""Where programs keep their logins: their names, and what they say without it."""


def named_denials(
    output: str,
    roots: Sequence[Path],
    hidden: Sequence[Path],
    *,
    looking: bool,
    folder: Path | None = None,
    network: bool = True,
    permissions: bool = False,
) -> list[str]:
    """Return a line for each wall that a failed command seems to have met. `folder` is where its relative paths start,
    None if that is unknown. `network` False: the caller has named the refused connections itself. `permissions`: the
    kernel refuses writes as permissions do, as Landlock does."""
    tail = output[-TAIL:]
    reads = _reads(tail, hidden)
    refusal = _EITHER if permissions and not reads else _READ_ONLY
    notes = [*_writes(tail, roots, looking, refusal, folder), *reads, *_logins(tail, hidden)]
    found = _NETWORK.search(tail) if network else None
    if found is not None:
        host = found.group("curl") or found.group("node") or "HOST"
        notes.append(
            f'[blocked by the sandbox: no network here except through its proxy; ask with needs=["network:{host}"]]'
        )
    return notes


def passed_over(output: str, command: str, hidden: Sequence[Path], folder: Path | None) -> list[str]:
    """Return a line for each wall that a command met although it ended well: git went on without writing its
    configuration, or a program without its login stood in a pipe."""
    tail = output[-TAIL:]
    notes = _logins(tail, hidden, command)
    found = _CONFIGURATION.search(tail)
    if found is None or "Update of config-file failed" in tail:  # of a deleted branch the settings may stay
        return notes
    path = _absolute(found[1].strip(_QUOTES), folder) or "PATH"
    return [*notes, f'[blocked by the sandbox: git could not change {path}; ask with needs=["write:{path}"]]']


def start_folder(command: str, folder: Path) -> Path | None:
    """Return where relative paths in the output of a command start; None if it may have gone elsewhere."""
    return None if _MOVES.search(command) else folder


def _writes(
    tail: str, roots: Sequence[Path], looking: bool, refusal: re.Pattern[str], folder: Path | None
) -> list[str]:
    lines = [line for line in tail.splitlines() if refusal.search(line)]
    busy = [path for line in tail.splitlines() if _BUSY.search(line) for path in _paths(line, folder)]
    paths = [path for line in lines for path in _paths(line, folder)] + [path for path in busy if _is_obeyed(path)]
    named = list(dict.fromkeys(path for path in paths if not _is_free(path, roots)))[:MOST_PATHS]
    if named and looking:
        return [f"[blocked by the sandbox: read-only and plan mode write nowhere outside /tmp: {', '.join(named)}]"]
    if named:
        needs = ", ".join(f'"write:{path}"' for path in named)
        return [f"[blocked by the sandbox: this command may not write to {', '.join(named)}; ask with needs=[{needs}]]"]
    return ['[blocked by the sandbox: a write outside the project; ask with needs=["write:PATH"]]'] if lines else []


def _reads(tail: str, hidden: Sequence[Path]) -> list[str]:
    lines = [line for line in tail.splitlines() if _REFUSED.search(line)]
    paths = dict.fromkeys(path for line in lines for path in _paths(line) if _is_below(path, hidden))
    named = list(paths)[:MOST_PATHS]
    if not named:
        return []
    needs = ", ".join(f'"read:{path}"' for path in named)
    return [f"[blocked by the sandbox: it hides {', '.join(named)}; ask with needs=[{needs}]]"]


def _logins(tail: str, hidden: Sequence[Path], command: str | None = None) -> list[str]:
    """Name the hidden login of a program that asks its user to log in; with a command, only of programs in it."""
    ends = [
        place
        for place, (programs, words) in _LOGINS.items()
        if re.search(words, tail) and (command is None or re.search(rf"\b(?:{programs})\b", command))
    ]
    paths = [path for path in hidden if any(str(path).endswith(f"/{end}") for end in ends)]
    return [
        f'[blocked by the sandbox: it hides {path}, where the login is kept; ask with needs=["read:{path}"]]'
        for path in paths[:MOST_PATHS]
    ]


def _is_below(path: str, folders: Iterable[Path]) -> bool:
    return any(Path(path).is_relative_to(folder) for folder in folders)


def _paths(line: str, folder: Path | None = None) -> list[str]:
    found = (_absolute((match[1] or match[2]).strip(), folder) for match in _PATH.finditer(line))
    return [path for path in found if path is not None]


def _absolute(path: str, folder: Path | None) -> str | None:
    if path.startswith("/"):
        return os.path.normpath(path)
    return os.path.normpath(folder / path) if folder is not None else None


def _is_free(path: str, roots: Sequence[Path]) -> bool:
    """Whether the sandbox lets a command write there: in the project, but not to what git and Outlast obey."""
    if _is_below(path, roots):
        return not _is_obeyed(path)
    return Path(path).is_relative_to("/tmp")  # noqa: S108


def _is_obeyed(path: str) -> bool:
    return bool({".git", ".outlast"} & set(Path(path).parts))
