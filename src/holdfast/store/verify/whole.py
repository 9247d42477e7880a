"""What holds between sessions: lists, routes, lineages, and what the adapter itself finds."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.core.errors import HoldfastError
from holdfast.core.header import Header
from holdfast.store.log_store import FIRST
from holdfast.store.port import Query
from holdfast.store.tx import Row
from holdfast.store.verify.history import readable_header
from holdfast.store.verify.report import Finding, What
from holdfast.store.view import View, public

PAGE = 512


class Sessions:
    """Every session there is, with its header where that can be read."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.names, self.trouble = view.everything()
        self.rows: dict[str, Row | None] = {name: readable_header(view, name) for name in self.names}
        self.standing_on: dict[str, int] = {}
        """Up to which event forks stand on a session."""
        for row in self.rows.values():
            if row is not None and row.base_id is not None:
                self.standing_on[row.base_id] = max(self.standing_on.get(row.base_id, 0), row.base_seq)

    def findings(self, deep: bool) -> Iterator[Finding]:
        for text in (*self.trouble, *self.view.checks(deep)):
            yield Finding(what=What.STORE, text=text)
        for check in (self._lists, self._routes, self._lineages):
            try:
                yield from check()
            except HoldfastError as error:
                yield Finding(what=What.STORE, text=f"cannot be checked to the end: {error}")

    def _lists(self) -> Iterator[Finding]:
        """Each owner's list holds exactly that owner's sessions, as their headers say."""
        live = {name: row for name, row in self.rows.items() if row is not None and row.deleted_at is None}
        listed: dict[str, Header] = {}
        for owner in sorted({row.owner_id for row in live.values()}):
            for name, row in self._listed(owner):
                if row is not None:
                    listed[name] = row
        for name in sorted(live.keys() - listed.keys()):
            yield Finding(what=What.LIST, session_id=name, text="the list of sessions does not show it")
        for name in sorted(listed.keys() - live.keys()):
            yield Finding(what=What.LIST, session_id=name, text="the list shows it, but it is not there or deleted")
        for name in sorted(live.keys() & listed.keys()):
            if public(listed[name]) != public(live[name]):
                yield Finding(what=What.LIST, session_id=name, text="the list shows another header than its own")

    def _listed(self, owner: str) -> Iterator[tuple[str, Header | None]]:
        position = FIRST
        while page := self.view.listed(Query(owner_id=owner), position, PAGE):
            for name, updated_at, row in page:
                yield name, row
                if (updated_at, name) >= position:
                    return  # the list is not in order: a damaged index, which the adapter's own checks name
                position = (updated_at, name)

    def _routes(self) -> Iterator[Finding]:
        for route, name in self.view.routes():
            if name not in self.rows:
                yield Finding(
                    what=What.ROUTE, session_id=name, text=f"route {route!r} leads to it, but it is not there"
                )
            elif (row := self.rows[name]) is not None and row.deleted_at is not None:
                yield Finding(what=What.ROUTE, session_id=name, text=f"route {route!r} leads to it, but it was deleted")

    def _lineages(self) -> Iterator[Finding]:
        tips = dict(self.view.lineages())
        for root, tip in sorted(tips.items()):
            row = self.rows.get(tip)
            if root not in self.rows or tip not in self.rows:
                gone = root if root not in self.rows else tip
                yield Finding(what=What.LINEAGE, session_id=root, text=f"its lineage names {gone}, which is not there")
            elif row is not None and row.root_id != root:
                yield Finding(what=What.LINEAGE, session_id=root, text=f"its newest session {tip} belongs to another")
        for name, row in self.rows.items():
            if row is None or row.rotated_to is None:
                continue
            if row.rotated_to not in self.rows:
                text = f"it goes on as {row.rotated_to}, which is not there"
                yield Finding(what=What.LINEAGE, session_id=name, text=text)
            elif row.root_id not in tips:
                text = "it was rotated, but its lineage has no newest session"
                yield Finding(what=What.LINEAGE, session_id=name, text=text)
