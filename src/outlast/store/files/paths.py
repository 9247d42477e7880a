"""The names of a session's files. Only a checked id is ever joined into a path."""

from __future__ import annotations

import os
import re
from pathlib import Path

from outlast.core.errors import SessionNotFound
from outlast.core.ids import is_id

FILES = re.compile(r"([a-z2-7]{26})\.(?:(\d+)\.)?(jsonl|gone\.json|lease|lock)")
NOTE = "index/housekeeping.json"
_SHA256 = re.compile(r"[0-9a-f]{64}")


class SessionPaths:
    """Where one session lies."""

    __slots__ = ("draft", "folder", "gone", "gone_keys", "lease", "lineage", "live", "live_name", "session_id")

    def __init__(self, folder: Path, session_id: str) -> None:
        if not is_id(session_id):
            raise SessionNotFound(f"'{session_id}' is not a session id")
        self.folder = folder
        self.session_id = session_id
        self.live = folder / f"{session_id}.jsonl"
        self.live_name = str(self.live)  # looked at in every commit, and a Path is slow to turn into text
        self.lease = folder / f"{session_id}.lease"
        self.draft = folder / f"{session_id}.draft.jsonl"
        self.gone = folder / f"{session_id}.gone.json"
        self.gone_keys = folder / f"{session_id}.gone.keys.json"
        self.lineage = folder / f"{session_id}.lineage.json"

    def sealed(self, number: int) -> Path:
        return self.folder / f"{self.session_id}.{number}.jsonl"

    def torn(self, number: int) -> Path:
        return self.folder / f"{self.session_id}.torn.{number}"

    def blobs(self) -> Path:
        return self.folder / "blobs" / self.session_id

    def blob(self, sha256: str) -> Path | None:
        """None for what is no name of a blob."""
        return self.blobs() / sha256 if _SHA256.fullmatch(sha256) else None

    def snapshots(self) -> Path:
        return self.folder / "snapshots" / self.session_id

    def keys(self) -> Path:
        return self.folder / "index" / f"{self.session_id}.keys"


def blobs_in(place: SessionPaths) -> dict[str, int]:
    """The blobs that lie there, and when each was last put (microseconds UTC)."""
    try:
        with os.scandir(place.blobs()) as entries:
            return {entry.name: entry.stat().st_mtime_ns // 1000 for entry in entries if _SHA256.fullmatch(entry.name)}
    except FileNotFoundError:
        return {}
