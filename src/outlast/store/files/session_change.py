"""What a commit does to one session, collected in memory before any of it is written."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy

from msgspec import UNSET

from outlast.core.event_row import StoredEvent
from outlast.core.header import REDACTED, Delta
from outlast.store.engine.transaction import HeaderRow
from outlast.store.files.line import EventLine, line_of
from outlast.store.files.session import SessionFiles
from outlast.store.port import Chunk, Snapshot


class SessionChange:
    """`row` is the header as it will be. `commits` holds the lines of each commit of a batch, in order."""

    __slots__ = (
        "blanks",
        "blobs",
        "buried",
        "chunks",
        "chunks_dropped",
        "commits",
        "created",
        "drop_after",
        "forgotten",
        "keep_blobs",
        "lease",
        "row",
        "scrubbed",
        "session",
        "snapshots",
        "snapshots_dropped",
    )

    def __init__(self, session: SessionFiles, row: HeaderRow) -> None:
        self.session = session
        self.row = row
        self.created: HeaderRow | None = None
        self.commits: list[list[EventLine]] = []
        self.lease = False
        self.scrubbed = False
        self.buried = False
        self.forgotten = False
        self.drop_after: int | None = None
        self.blanks: dict[int, bytes] = {}
        self.chunks: list[tuple[Chunk, int]] = []
        self.chunks_dropped = False
        self.blobs: dict[str, bytes] = {}
        self.keep_blobs: set[str] | None = None
        self.snapshots: list[Snapshot] = []
        self.snapshots_dropped = False

    def create(self) -> None:
        """Remember the header as it is given, before the first event."""
        self.created = copy(self.row)

    def append(self, events: list[StoredEvent]) -> None:
        if not self.commits:
            self.commits.append([])
        lines = lines_of(self.row, events)
        if events[-1].kind == "EventRedacted":
            masked = [name for name in ("title", "pending_text") if getattr(self.row, name) == REDACTED]
            if masked:
                lines[-1].masked = masked
        self.commits[-1] += lines

    def restore(self, events: list[StoredEvent], deltas: Mapping[int, Delta]) -> list[EventLine]:
        """The lines of rows that another store wrote."""
        lines = lines_of(self.row, events)
        lines[0].count = UNSET
        for line in lines:
            line.delta = deltas.get(line.seq, UNSET)
            line.imported = True
        self.commits.append(lines)
        return lines

    def save(self) -> None:
        """Note what was changed by hand: it was deleted, or its lease changed, or words were taken from its header."""
        if self.row.deleted_at is not None:
            self.buried = True
            return
        self.lease = True
        known = self.session.row
        self.scrubbed |= known is not None and (
            (self.row.title == REDACTED != known.title) or (self.row.pending_text == REDACTED != known.pending_text)
        )

    def follow(self, later: SessionChange) -> None:
        """Take in what the next commit of the same batch does."""
        self.row = later.row
        self.commits += later.commits
        self.lease |= later.lease
        self.chunks_dropped |= later.chunks_dropped
        self.chunks = later.chunks if later.chunks_dropped else self.chunks + later.chunks
        self.blobs |= later.blobs
        self.snapshots += later.snapshots

    def lines(self) -> list[EventLine]:
        """All lines, each knowing how many of its commit follow; the last one carries the lease, if that changed."""
        found: list[EventLine] = []
        for commit in self.commits:
            _count_down(commit)
            found += commit
        return found

    def effects(self) -> int:
        """How many files must change together."""
        lines = bool(self.commits) or self.created is not None
        heavy = self.buried or self.scrubbed or bool(self.blanks) or self.drop_after is not None
        cleaned = self.keep_blobs is not None or self.snapshots_dropped
        return lines + (self.lease and not lines) + bool(self.chunks) + 2 * (heavy or cleaned or self.forgotten)


def lines_of(row: HeaderRow, events: list[StoredEvent]) -> list[EventLine]:
    """The lines of one write, after which the header is `row`."""
    lines = [line_of(event, row.updated_at) for event in events]
    if len(lines) > 1:
        lines[0].count = len(lines)
        _count_down(lines)
    return lines


def _count_down(lines: list[EventLine]) -> None:
    """Each line of a commit knows how many follow."""
    for more, line in enumerate(reversed(lines)):
        if more:
            line.more = more
