"""The pulse: how the processes that share a directory notice each other's commits without looking at every file.

A small file of slots. A writer that has its locks changes its slot before it writes; whoever polls sees that the file
changed and looks, and looking waits for the writer's lock. A writer that dies in between was announced all the same.
"""

from __future__ import annotations

import itertools
import os
import secrets
from pathlib import Path

from outlast.store.files import disk

SLOT = 16
SLOTS = 256


class ChangeCounter:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = self._open()
        if os.fstat(self._fd).st_size < SLOT * SLOTS:
            os.pwrite(self._fd, bytes(SLOT), SLOT * (SLOTS - 1))
        self._at = secrets.randbelow(SLOTS) * SLOT
        self._beats = itertools.count(secrets.randbits(63) << 64)

    def _open(self) -> int:
        return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, disk.MODE)

    def beat(self) -> None:
        os.pwrite(self._fd, next(self._beats).to_bytes(SLOT, "big"), self._at)

    def look(self) -> bytes:
        """Something that is another thing whenever somebody has beaten."""
        self._reopen_if_replaced()
        return os.pread(self._fd, SLOT * SLOTS, 0)

    def close(self) -> None:
        os.close(self._fd)

    def _reopen_if_replaced(self) -> None:
        try:
            same = os.stat(self._path).st_ino == os.fstat(self._fd).st_ino
        except FileNotFoundError:
            same = False
        if not same:
            previous, self._fd = self._fd, self._open()
            os.close(previous)
