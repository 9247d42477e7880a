"""Checks across sessions: lists, routes, lineages, and the adapter's own checks.

Other processes may write meanwhile, and not every store shows all sessions as of one moment. So headers are read first
and the rest afterwards: a difference is damage only if it is not newer, and a missing session is looked up again before
it is reported as missing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from outlast.core.errors import OutlastError
from outlast.core.header import Header
from outlast.store.log_store import LogStore
from outlast.store.port import Query
from outlast.store.read.inspection import StoreFlaw
from outlast.store.read.read_view import FIRST, ReadView
from outlast.store.verify.base_history import readable_header
from outlast.store.verify.report import DamageKind, Finding

PAGE = 512


class KnownSession(NamedTuple):
    """The header fields that are kept in memory for all sessions at once."""

    owner_id: str
    deleted: bool
    root_id: str
    rotated_to: str | None
    base_id: str | None
    base_seq: int
    last_seq: int
    updated_at: int
    epoch: int
    digest: bytes
    imported: bool


def _known(row: Header) -> KnownSession:
    fields = [getattr(row, name) for name in Header.__struct_fields__]
    digest = hashlib.sha256(msgspec.json.encode(fields)).digest()[:12]
    deleted = row.deleted_at is not None
    ends = (row.last_seq, row.updated_at, row.epoch)
    return KnownSession(
        row.owner_id,
        deleted,
        row.root_id,
        row.rotated_to,
        row.base_id,
        row.base_seq,
        *ends,
        digest,
        row.imported_seq > 0,
    )


class SessionIndex:
    """All sessions of the store; `known` maps to None if a header cannot be read."""

    def __init__(self, store: LogStore) -> None:
        self._store = store
        with store.inspect() as view:
            self.names, self.trouble = view.everything()
        self.known: dict[str, KnownSession | None] = {}
        for first in range(0, len(self.names), store.sessions_at_once):
            with store.inspect() as view:
                for name in self.names[first : first + store.sessions_at_once]:
                    row = readable_header(view, name)
                    self.known[name] = None if row is None else _known(row)
        self.standing_on: dict[str, int] = {}
        """By session: the last event that a fork shares."""
        for known in self.known.values():
            if known is not None and known.base_id is not None:
                self.standing_on[known.base_id] = max(self.standing_on.get(known.base_id, 0), known.base_seq)

    def findings(self, deep: bool) -> Iterator[Finding]:
        with self._store.inspect() as view:
            for text, damage in (*map(StoreFlaw, self.trouble), *view.checks(deep)):
                yield Finding(what=DamageKind.STORE, text=text, damage=damage)
            for check in (self._lists, self._routes, self._lineages):
                try:
                    yield from check(view)
                except OutlastError as error:
                    yield Finding(what=DamageKind.STORE, text=f"cannot be checked to the end: {error}")

    def _lists(self, view: ReadView) -> Iterator[Finding]:
        """Check that each owner's list shows exactly the owner's sessions, with their current headers."""
        live = {name: known for name, known in self.known.items() if known is not None and not known.deleted}
        listed: dict[str, KnownSession] = {}
        for owner in sorted({known.owner_id for known in live.values()}):
            listed |= {name: _known(row) for name, row in _listed(view, owner) if row is not None}
        for name in sorted(live.keys() - listed.keys()):
            if self._is_live(name):
                yield Finding(what=DamageKind.LIST, session_id=name, text="the list of sessions does not show it")
        for name in sorted(listed.keys() - live.keys()):
            if not self._is_live(name):
                yield Finding(
                    what=DamageKind.LIST, session_id=name, text="the list shows it, but it does not exist or is deleted"
                )
        for name in sorted(live.keys() & listed.keys()):
            if listed[name].digest != live[name].digest and not _newer(listed[name], live[name]):
                yield Finding(what=DamageKind.LIST, session_id=name, text="the list shows another header than its own")

    def _is_live(self, name: str) -> bool:
        """Whether the session exists now and is not deleted."""
        with self._store.inspect() as view:
            row = readable_header(view, name)
        return row is not None and row.deleted_at is None

    def _is_there(self, name: str) -> bool:
        if name in self.known:
            return True
        with self._store.inspect() as view:
            return readable_header(view, name) is not None

    def _routes(self, view: ReadView) -> Iterator[Finding]:
        for route, name in view.routes():
            if not self._is_there(name):
                yield Finding(
                    what=DamageKind.ROUTE, session_id=name, text=f"route {route!r} leads to it, but it does not exist"
                )
            elif (known := self.known.get(name)) is not None and known.deleted:
                text = f"route {route!r} leads to it, but it was deleted"
                yield Finding(what=DamageKind.ROUTE, session_id=name, text=text)

    def _lineages(self, view: ReadView) -> Iterator[Finding]:
        tips = dict(view.lineages())
        for root, tip in sorted(tips.items()):
            gone = [name for name in (root, tip) if not self._is_there(name)]
            known = self.known.get(tip)
            if gone:
                text = f"its lineage names {gone[0]}, which does not exist"
                yield Finding(what=DamageKind.LINEAGE, session_id=root, text=text)
            elif known is not None and known.root_id != root:
                yield Finding(
                    what=DamageKind.LINEAGE, session_id=root, text=f"its newest session {tip} belongs to another"
                )
        for name, known in self.known.items():
            if known is None or known.rotated_to is None:
                continue
            if not self._is_there(known.rotated_to):
                # A session may be imported without its successor.
                text = f"it continues as {known.rotated_to}, which does not exist"
                yield Finding(what=DamageKind.LINEAGE, session_id=name, text=text, damage=not known.imported)
            elif known.root_id not in tips:
                text = "it was rotated, but its lineage has no newest session"
                yield Finding(what=DamageKind.LINEAGE, session_id=name, text=text, damage=not known.imported)


def _listed(view: ReadView, owner: str) -> Iterator[tuple[str, Header | None]]:
    position = FIRST
    while page := view.listed(Query(owner_id=owner), position, PAGE):
        for name, updated_at, row in page:
            yield name, row
            if (updated_at, name) >= position:
                return  # out of order: a damaged index, which the adapter's own checks report
            position = (updated_at, name)


def _newer(now: KnownSession, before: KnownSession) -> bool:
    return (now.last_seq, now.updated_at, now.epoch) > (before.last_seq, before.updated_at, before.epoch)
