"""Reads: every combination of bounds, compared with a plain list."""

from __future__ import annotations

import random
from typing import Any

import pytest

from outlast.core import events as e
from outlast.core.errors import DamagedSession
from outlast.core.event_row import StoredEvent
from outlast.store import lineage
from outlast.store.port import PutSnapshot, Snapshot
from outlast.testing.contract.exam import Exam, new_id, said, seqs


def selected(
    rows: list[StoredEvent],
    *,
    after: int = 0,
    before: int | None = None,
    limit: int | None = None,
    kinds: frozenset[str] | None = None,
    newest_first: bool = False,
) -> list[StoredEvent]:
    """Reference implementation of `read` over a plain list."""
    found = [row for row in rows if after < row.seq and (before is None or row.seq < before)]
    found = [row for row in found if kinds is None or row.kind in kinds]
    if newest_first:
        found.reverse()
    return found if limit is None else found[:limit]


class ReadQuestions(Exam):
    def mixed(self, length: int) -> str:
        """Create a session with events of several kinds, the last third of them in a fork."""
        session_id = self.begin()
        for part in range(2):
            events = [said(str(n)) if n % 3 else e.SessionRenamed(title=str(n)) for n in range(length // 3)]
            self.append(session_id, *events)
            self.append(session_id, e.HistoryCleared())
            if part == 0:
                parent, session_id = session_id, new_id()
                self.store.commit(lineage.fork(self.store.head(parent), session_id))
        return session_id

    def test_every_way_to_read_agrees_with_a_list(self) -> None:
        session_id = self.mixed(40)
        rows = self.events(session_id)
        choose = random.Random(1)
        kinds = [
            None,
            frozenset({"SessionRenamed"}),
            frozenset({"MessageAppended", "HistoryCleared"}),
            frozenset({"No"}),
        ]
        edges = [0, 1, 2, 5, 15, 16, 17, 30, len(rows) - 1, len(rows), len(rows) + 1, 10**9]
        for _ in range(400):
            how: dict[str, Any] = {
                "after": choose.choice(edges),
                "before": choose.choice([None, *edges]),
                "limit": choose.choice([None, 0, 1, 2, 7, 1000]),
                "kinds": choose.choice(kinds),
                "newest_first": choose.random() < 0.5,
            }
            assert self.store.read(session_id, **how) == selected(rows, **how), how

    def test_reading_nothing_is_an_empty_list(self) -> None:
        session_id = self.begin("1")
        assert self.store.read(session_id, after=2) == []
        assert self.store.read(session_id, after=5, before=2) == []
        assert self.store.read(session_id, limit=0) == []
        assert self.store.read(session_id, kinds=frozenset()) == []

    def test_a_long_session_is_read_whole_in_both_directions(self) -> None:
        session_id = self.begin()
        for _ in range(3):
            self.append(session_id, *(said(str(n)) for n in range(700)))
        assert seqs(self.store.read(session_id)) == list(range(1, 2102))
        assert seqs(self.store.read(session_id, newest_first=True)) == list(range(2101, 0, -1))
        assert seqs(self.store.read(session_id, after=600, limit=1000)) == list(range(601, 1601))

    def test_a_rare_kind_is_found_in_a_long_session(self) -> None:
        session_id = self.begin()
        self.append(session_id, e.HistoryCleared(), *(said(str(n)) for n in range(2000)), e.HistoryCleared())
        kinds = frozenset({"HistoryCleared"})
        assert seqs(self.store.read(session_id, kinds=kinds, limit=2)) == [2, 2003]
        assert seqs(self.store.read(session_id, kinds=kinds, limit=1, newest_first=True)) == [2003]
        assert seqs(self.store.read(session_id, kinds=kinds, limit=1, newest_first=True, before=2003)) == [2]

    def test_pages_by_cursor_see_every_event_once(self) -> None:
        session_id = self.mixed(60)
        seen: list[int] = []
        while page := self.store.read(session_id, after=seen[-1] if seen else 0, limit=7):
            seen += seqs(page)
        assert seen == seqs(self.events(session_id))

    def test_a_session_sees_only_its_own_events(self) -> None:
        sessions = [self.begin(str(n)) for n in range(20)]
        assert [self.texts(session_id) for session_id in sessions] == [[str(n)] for n in range(20)]

    # --- snapshots

    def test_the_newest_snapshot_is_given_back(self) -> None:
        session_id = self.begin("1", "2", "3")
        assert self.store.snapshot(session_id) is None
        for seq in (1, 3, 2):
            self.store.commit(PutSnapshot(session_id=session_id, seq=seq, fold_version=7, state=b"\0state %d" % seq))
        assert self.store.snapshot(session_id) == Snapshot(seq=3, fold_version=7, state=b"\0state 3")
        assert self.store.snapshot(session_id, at_most=2) == Snapshot(seq=2, fold_version=7, state=b"\0state 2")
        assert self.store.snapshot(session_id, at_most=0) is None
        self.reopened()
        assert self.store.snapshot(session_id) == Snapshot(seq=3, fold_version=7, state=b"\0state 3")

    def test_a_snapshot_of_the_same_event_replaces_the_older_one(self) -> None:
        session_id = self.begin("1")
        self.store.commit(PutSnapshot(session_id=session_id, seq=2, fold_version=1, state=b"old"))
        self.store.commit(PutSnapshot(session_id=session_id, seq=2, fold_version=2, state=b"new"))
        assert self.store.snapshot(session_id) == Snapshot(seq=2, fold_version=2, state=b"new")

    def test_a_snapshot_of_the_future_is_never_given_back(self) -> None:
        session_id = self.begin("1")
        self.store.commit(PutSnapshot(session_id=session_id, seq=3, fold_version=1, state=b"not yet"))
        assert self.store.snapshot(session_id) is None
        assert self.store.snapshot(session_id, at_most=100) is None
        self.append(session_id, said("2"), said("3"))
        assert self.store.snapshot(session_id) is None

    # --- absence and damage

    def test_a_missing_blob_is_damage_and_not_emptiness(self) -> None:
        session_id = self.begin("1")
        with pytest.raises(DamagedSession):
            self.store.blob(session_id, "0" * 64)
