"""Checks one session: hash chain, header, keys, blobs, drafts, snapshots."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

from outlast.core import codec
from outlast.core import events as e
from outlast.core.errors import DamagedSession, OutlastError
from outlast.core.event_row import StoredEvent
from outlast.core.fold import fold
from outlast.core.state import FOLD_VERSION, SessionState, state_to_bytes
from outlast.store.engine.encode import event_of, plain_body
from outlast.store.engine.transaction import HeaderRow
from outlast.store.maintenance.header_rebuild import Recount
from outlast.store.port import Snapshot
from outlast.store.read.inspection import StoredKey
from outlast.store.read.read_view import ReadView
from outlast.store.verify.base_history import MessageCounts, checked
from outlast.store.verify.chain import judged
from outlast.store.verify.keys import KeyCheck
from outlast.store.verify.report import DamageKind, Finding, VerifyReport


class SessionCheck:
    """Checks one session in one view; `run` adds the result to the report. `keys` is None if unreadable."""

    def __init__(self, view: ReadView, session_id: str, keys: list[StoredKey] | None, counts: MessageCounts) -> None:
        self.view = view
        self.session_id = session_id
        self.findings: list[Finding] = []
        self.events = self.blobs = self.snapshots = 0
        self._counts = counts
        self._keys = KeyCheck(keys)
        self._named: set[str] = set()
        self._open_attempts: set[int] = set()
        self._redacted: dict[int, Mapping[str, int]] = {}
        self._whole = True

    def run(self, report: VerifyReport, least: int = 0) -> None:
        """Run all checks. `least` is the last event that a fork shares."""
        row = self._header()
        self._keys.root_id = None if row is None else row.root_id
        recount = self._events(row, least)
        for text, damage in self.view.flaws(self.session_id):
            self._say(DamageKind.HEADER, text, damage=damage)
        if row is not None and row.deleted_at is None:
            self._parts(row, recount)
        report.sessions += 1
        report.events += self.events
        report.keys += self._keys.seen
        report.blobs += self.blobs
        report.snapshots += self.snapshots
        report.findings += self.findings

    def _parts(self, row: HeaderRow, recount: Recount) -> None:
        checks = [self._blobs, self._drafts]
        if self._whole:
            if recount.redacted:
                recount = self._again(row)
            self._say_all(DamageKind.HEADER, recount.differences(row))
            checks.append(self._snapshots)
        for check in checks:
            try:
                check(row)
            except OutlastError as error:
                self._say(DamageKind.STORE, f"cannot be checked to the end: {error}")
        for seq, text in self._keys.differences():
            self._say(DamageKind.KEY, text, seq)

    def _say(self, what: DamageKind, text: str, seq: int | None = None, *, damage: bool = True) -> None:
        self.findings.append(Finding(what=what, session_id=self.session_id, seq=seq, text=text, damage=damage))

    def _say_all(self, what: DamageKind, texts: Iterator[str]) -> None:
        for text in texts:
            self._say(what, text)

    def _header(self) -> HeaderRow | None:
        try:
            row = self.view.header(self.session_id)
        except OutlastError as error:
            self._say(DamageKind.HEADER, f"unreadable: {getattr(error, 'what', error)}")
            return None
        if row is None:
            self._say(DamageKind.HEADER, "is in the store, but readers cannot find it: the index over it is damaged")
        return row

    # --- events

    def _events(self, row: HeaderRow | None, least: int) -> Recount:
        recount = self._recount(row)
        own = 0
        for event, finding in judged(self.view, self.session_id, row, least):
            if finding is not None:
                self.findings.append(finding)
                self._whole = False
            if event is not None:
                own += 1
                decoded = self._decoded(event)
                self._note(event, decoded)
                recount.add(event, decoded)
        self.events = own
        return recount

    def _recount(self, row: HeaderRow | None) -> Recount:
        imported = 0 if row is None else row.imported_seq
        if row is None or row.base_id is None or row.deleted_at is not None:
            return Recount(self.session_id, 0, self._redacted, imported)
        try:
            inherited = self._counts.at(self.view, row.base_id, row.base_seq)
        except OutlastError:
            inherited = None  # the damage is reported for the session that has it
        return Recount(self.session_id, inherited, self._redacted, imported)

    def _again(self, row: HeaderRow) -> Recount:
        """Recount with known redactions: what a redacted event had added is recorded in a later event."""
        recount = self._recount(row)
        for event, _ in judged(self.view, self.session_id, row):
            if event is not None:
                recount.add(event, self._decoded(event))
        return recount

    def _decoded(self, event: StoredEvent) -> e.Event | e.Opaque:
        return event_of(event, lambda sha256: self._blob(event.session_id, sha256))

    def _blob(self, session_id: str, sha256: str) -> bytes:
        try:
            data = self.view.blob(session_id, sha256)
        except OutlastError:
            data = None
        if data is None or hashlib.sha256(data).hexdigest() != sha256:
            raise ValueError(f"blob {sha256} is missing or damaged")
        return data

    def _note(self, stored: StoredEvent, event: e.Event | e.Opaque) -> None:
        self._keys.note(stored)
        if not stored.redacted and stored.enc in ("plain", "zstd"):
            self._named |= codec.blobs_named(plain_body(stored))
        match event:
            case e.EventRedacted(seq=seq, counted=counted):
                self._redacted[seq] = counted
            case e.ModelRequested():
                self._open_attempts.add(stored.seq)
            case e.AssistantReplied(attempt_seq=seq) | e.ReplyInterrupted(attempt_seq=seq):
                self._open_attempts.discard(seq)
            case _:
                return

    # --- blobs, drafts, snapshots

    def _blobs(self, row: HeaderRow) -> None:
        for sha256 in sorted(self._named):
            self.blobs += 1
            data = self.view.blob(row.session_id, sha256)
            if data is None:
                self._say(DamageKind.BLOB, f"blob {sha256} is missing")
            elif hashlib.sha256(data).hexdigest() != sha256:
                self._say(DamageKind.BLOB, f"blob {sha256} does not match its name")
        idle = set(self.view.blobs_of(row.session_id)) - self._named
        if idle:
            self._say(
                DamageKind.BLOB, f"{len(idle)} blobs that no event names; they are swept after a day", damage=False
            )

    def _drafts(self, row: HeaderRow) -> None:
        attempts = {chunk.attempt_seq for chunk in self.view.chunks(row.session_id, 0)}
        for seq in sorted(attempts - self._open_attempts) if self._whole else ():
            self._say(DamageKind.DRAFT, "a draft of an attempt that is not open", seq, damage=False)

    def _snapshots(self, row: HeaderRow) -> None:
        found = _snapshots(self.view, row)
        self.snapshots = len(found)
        current = {snapshot.seq: snapshot for snapshot in found if snapshot.fold_version == FOLD_VERSION}
        state = SessionState()
        try:
            for stored in checked(self.view, row.session_id, 0, max(current, default=0)):
                fold(state, stored, self._decoded(stored))
                snapshot = current.get(stored.seq)
                if snapshot is not None and snapshot.state != state_to_bytes(state):
                    text = "the snapshot is not what the log folds to; it is only a cache"
                    self._say(DamageKind.SNAPSHOT, text, stored.seq)
        except DamagedSession:
            return  # damage in the inherited history is reported for the session that owns it


def _snapshots(view: ReadView, row: HeaderRow) -> list[Snapshot]:
    found: list[Snapshot] = []
    at_most = row.last_seq
    while (snapshot := view.snapshot(row.session_id, at_most)) is not None:
        if type(snapshot.seq) is not int or snapshot.seq > at_most:
            break  # a damaged row, which the adapter's own checks report
        found.append(snapshot)
        at_most = snapshot.seq - 1
    return found
