"""The files that file tools of this process write, so that a shell command that runs meanwhile does not claim them.

Sub-agents and other sessions of a process may work in one folder at the same time. The call of a file tool records its
write in its own log; a command of another session that sees the new file between its two looks must not record it too.
A write is announced before it happens, because the command may look before the tool returns.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import msgspec

from outlast.runtime.changes.change_set import ChangedFile
from outlast.runtime.tools.port import Target

_KEPT = 1000


class _Write(msgspec.Struct, kw_only=True):
    session_id: str
    digests: dict[str, str]
    ended: int | None = None


class FileToolWrites:
    """Writes of file tools, in order. Used from the event loop only."""

    def __init__(self) -> None:
        self._writes: deque[_Write] = deque(maxlen=_KEPT)
        self._clock = count(1)

    def now(self) -> int:
        """Return a mark: `by_others` compares with the writes that had not ended at this moment."""
        return next(self._clock)

    @contextmanager
    def announced(self, session_id: str, project: Path, targets: Iterable[Target]) -> Generator[None]:
        """Announce the writes of one call, around its execution."""
        digests = {os.path.realpath(project / target.path): target.digest_after for target in targets}
        write = _Write(session_id=session_id, digests=digests)
        if digests:
            self._writes.append(write)
        try:
            yield
        finally:
            write.ended = next(self._clock)

    def by_others(self, session_id: str, since: int, project: Path, files: Iterable[ChangedFile]) -> set[str]:
        """Return the paths that are now as a file tool of another session left them, after the mark `since`."""
        written = {
            (path, digest)
            for write in self._writes
            if write.session_id != session_id and (write.ended is None or write.ended > since)
            for path, digest in write.digests.items()
        }
        return _written(project, files, written)

    def left_as_written(self, project: Path, files: Iterable[ChangedFile]) -> set[str]:
        """Return the paths that are now as a file tool of any session left them."""
        written = {(path, digest) for write in self._writes for path, digest in write.digests.items()}
        return _written(project, files, written)


def _written(project: Path, files: Iterable[ChangedFile], written: set[tuple[str, str]]) -> set[str]:
    return {file.path for file in files if (os.path.realpath(project / file.path), file.after.digest) in written}


FILE_TOOL_WRITES = FileToolWrites()
"""The writes of this process."""
