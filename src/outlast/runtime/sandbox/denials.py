"""Recognises that the sandbox made a command fail, and names the wall to the model and the user.

A command's own message never names the sandbox: it says "Read-only file system" or "Could not resolve host". Only
failed commands are looked at, and only the end of their output.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

TAIL = 20_000
MOST_PATHS = 3
_READ_ONLY = re.compile(r"read-only file system|\bEROFS\b|Errno 30", re.IGNORECASE)
_REFUSED = re.compile(r"permission denied|operation not permitted|\bEACCES\b|\bEPERM\b", re.IGNORECASE)
_BUSY = re.compile(r"device or resource busy|\bEBUSY\b", re.IGNORECASE)
"""How the kernel refuses to rename or remove a protected path, which is a mount point."""
_PROTECTED = re.compile(r"(?:^|[\s'\"\u2018\u201c])((?:[\w./@+-]*/)?\.(?:git|outlast)(?:/[\w./@+-]+)?)(?![\w.-])")
_EITHER = re.compile(f"{_READ_ONLY.pattern}|{_REFUSED.pattern}", re.IGNORECASE)
_QUOTES = "'\"\u2018\u2019\u201c\u201d"
_PATH = re.compile(rf"[{_QUOTES} ](/[^{_QUOTES}:\n]{{1,300}})|^(/[^:\n]{{1,300}}):", re.MULTILINE)
_NETWORK = re.compile(
    r"could not resolve (?:hostname|host|proxy)[: ]*'?(?P<curl>[\w.-]+)?|temporary failure in name resolution|"
    r"name or service not known|network is unreachable|\bENOTFOUND\b(?: (?P<node>[\w.-]+))?|\bEAI_AGAIN\b|"
    r"\bENETUNREACH\b|no address associated with hostname|failed to lookup address|no such host",
    re.IGNORECASE,
)


def named_denials(
    output: str,
    roots: Sequence[Path],
    hidden: Sequence[Path],
    *,
    looking: bool,
    network: bool = True,
    permissions: bool = False,
) -> list[str]:
    """Return a line for each wall that a failed command seems to have met. `network` False: the caller has named the
    refused connections itself. `permissions`: the kernel refuses writes as permissions do, as Landlock does."""
    tail = output[-TAIL:]
    reads = _reads(tail, hidden)
    notes = [*_writes(tail, roots, looking, _EITHER if permissions and not reads else _READ_ONLY), *reads]
    found = _NETWORK.search(tail) if network else None
    if found is not None:
        host = found.group("curl") or found.group("node") or "HOST"
        notes.append(
            f'[blocked by the sandbox: no network here except through its proxy; ask with needs=["network:{host}"]]'
        )
    return notes


def _writes(tail: str, roots: Sequence[Path], looking: bool, refusal: re.Pattern[str]) -> list[str]:
    lines = [line for line in tail.splitlines() if refusal.search(line) or _is_protected(line)]
    outside = dict.fromkeys(path for line in lines for path in _paths(line) if not _is_free(path, roots))
    obeyed = dict.fromkeys(found for line in lines if not _paths(line) for found in _PROTECTED.findall(line))
    named = list(outside | obeyed)[:MOST_PATHS]
    if named and looking:
        return [f"[blocked by the sandbox: read-only and plan mode write nowhere outside /tmp: {', '.join(named)}]"]
    if named:
        needs = ", ".join(f'"write:{path}"' for path in named)
        return [f"[blocked by the sandbox: this command may not write to {', '.join(named)}; ask with needs=[{needs}]]"]
    return ['[blocked by the sandbox: a write outside the project; ask with needs=["write:PATH"]]'] if lines else []


def _is_protected(line: str) -> bool:
    return _BUSY.search(line) is not None and _PROTECTED.search(line) is not None


def _reads(tail: str, hidden: Sequence[Path]) -> list[str]:
    lines = [line for line in tail.splitlines() if _REFUSED.search(line)]
    paths = dict.fromkeys(path for line in lines for path in _paths(line) if _is_below(path, hidden))
    named = list(paths)[:MOST_PATHS]
    if not named:
        return []
    needs = ", ".join(f'"read:{path}"' for path in named)
    return [f"[blocked by the sandbox: it hides {', '.join(named)}; ask with needs=[{needs}]]"]


def _is_below(path: str, folders: Iterable[Path]) -> bool:
    return any(Path(path).is_relative_to(folder) for folder in folders)


def _paths(line: str) -> list[str]:
    return [os.path.normpath(found[1] or found[2]) for found in _PATH.finditer(line)]


def _is_free(path: str, roots: Sequence[Path]) -> bool:
    """Whether the sandbox lets a command write there: in the project, but not to what git and Outlast obey."""
    if _is_below(path, roots):
        return not {".git", ".outlast"} & set(Path(path).parts)
    return Path(path).is_relative_to("/tmp")  # noqa: S108
