"""Kills the processes that a killed supervisor leaves behind, found by their session or by a mark in the environment.

A second line of defence only. An unconfined command can kill its supervisor; init then inherits the command's
processes, and a process that both left the session and cleared its environment is not found. A confined command cannot
send that signal.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

MARK = "OUTLAST_COMMAND"
PATIENCE = 5.0
_PROC = Path("/proc")


def sweep(session: int, mark: str) -> int:
    """SIGKILL every process of that session or with that mark until none is left; return how many there were."""
    seen: set[int] = set()
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        found = _marked(session, f"{MARK}={mark}".encode())
        if not found:
            break
        seen |= found
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        time.sleep(0.01)
    return len(seen)


def _marked(session: int, mark: bytes) -> set[int]:
    pids = [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()] if _PROC.is_dir() else []
    return {pid for pid in pids if pid != os.getpid() and _is_ours(pid, session, mark)}


def _is_ours(pid: int, session: int, mark: bytes) -> bool:
    try:
        fields = (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
        if fields[0] in (b"Z", b"X"):
            return False
        return int(fields[3]) == session or mark in (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except (OSError, IndexError):
        return False  # it has ended, or belongs to another user
