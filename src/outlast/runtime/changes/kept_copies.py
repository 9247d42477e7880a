"""Copies of files that no git blob holds, by the digest of their content, within the limits of a session.

A copy is made when a look first sees a content. The log records a pre-image only once a command has changed the file,
so the copies lie in the session's state folder and not in its log.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

FILE_LIMIT = 20 * 1024 * 1024
SESSION_LIMIT = 500 * 1024 * 1024


class KeptCopies:
    """The copies of one session. `size` is how many bytes they have, `refused` how many files did not fit."""

    def __init__(self, folder: Path, *, file_limit: int = FILE_LIMIT, session_limit: int = SESSION_LIMIT) -> None:
        self._folder = folder
        self.file_limit = file_limit
        self._session_limit = session_limit
        self._known: set[str] | None = None
        self.size = 0
        self.refused = 0

    def keep(self, digest: str, data: bytes) -> bool:
        """Keep this content; False if it does not fit the limits."""
        copies = self._copies()
        if digest in copies:
            return True
        if len(data) > self.file_limit or self.size + len(data) > self._session_limit:
            self.refused += 1
            return False
        place = self._place(digest)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = place.with_suffix(".new")
        temporary.write_bytes(data)
        os.replace(temporary, place)
        copies.add(digest)
        self.size += len(data)
        return True

    def read(self, digest: str) -> bytes | None:
        """Return a kept content; None if there is none, or if its copy was damaged."""
        try:
            data = self._place(digest).read_bytes()
        except FileNotFoundError:
            return None
        return data if hashlib.sha256(data).hexdigest() == digest else None

    def _place(self, digest: str) -> Path:
        return self._folder / digest[:2] / digest

    def _copies(self) -> set[str]:
        """Return the digests of the copies; those that an earlier process made are found in the folder."""
        if self._known is None:
            found = [file for file in self._folder.glob("??/*") if file.suffix != ".new"]
            self._known = {file.name for file in found}
            self.size = sum(file.stat().st_size for file in found)
        return self._known
