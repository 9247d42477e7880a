"""Work: which sessions need a driver, in which order, and how their headers show it."""

from __future__ import annotations

import msgspec
import pytest

from outlast.core import events as e
from outlast.core.errors import InvalidInput
from outlast.core.header import REQUESTS, Header
from outlast.core.messages import TextPart, Usage
from outlast.store import lineage
from outlast.store.port import Delete, Query, Redact
from outlast.testing.contract.exam import Exam, NewEvent, admitted, new_id

LARGE = "a long question " * 8_000
ALL = Query()


def at(moment: int, text: str = "please") -> NewEvent:
    return NewEvent(event=admitted(text).event, at=moment)


class WorkQuestions(Exam):
    def pending(self, among: Query = ALL) -> list[str]:
        """Return the sessions with work, oldest first, read page by page."""
        query = msgspec.structs.replace(among, pending=True, oldest_first=True, limit=2)
        found: list[str] = []
        while True:
            page = self.store.find(query)
            assert page.damaged == []
            found += [header.session_id for header in page.headers]
            if page.cursor is None:
                return found
            query = msgspec.structs.replace(query, cursor=page.cursor)

    def test_work_is_an_unanswered_input_an_open_turn_or_a_boundary_asked_for(self) -> None:
        idle, waiting, running, asked = (self.begin(name) for name in "abcd")
        self.append(waiting, at(30))
        self.append(running, NewEvent(event=e.TurnStarted(), turn="t", at=10))
        self.append(asked, NewEvent(event=e.BoundaryRequested(what="clear"), at=20))
        for _ in range(2):
            assert self.pending() == [running, asked, waiting]
            assert [header.session_id for header in self.store.find(Query(pending=False)).headers] == [idle]
            self.reopened()
        self.append(running, NewEvent(event=e.TurnEnded(outcome="done"), turn="t"))
        self.append(asked, e.HistoryCleared())
        self.append(waiting, e.InputWithdrawn(inputs=[3]))
        assert self.pending() == []

    def test_the_one_that_has_waited_longest_comes_first_and_keeps_its_place(self) -> None:
        names = [self.begin() for _ in range(5)]
        for moment, name in zip((50, 10, 40, 20, 30), names, strict=True):
            self.append(name, at(moment))
        by_age = [names[n] for n in (1, 3, 4, 2, 0)]
        assert self.pending() == by_age
        self.append(names[1], at(60, "more"))
        self.append(names[3], NewEvent(event=e.TurnStarted(inputs=[2]), turn="t", at=70))
        assert self.pending() == by_age
        head = self.store.head(names[1])
        assert (head.work_since, head.pending_at, head.has_work) == (10, 60, True)

    def test_those_who_waited_equally_long_are_each_shown_once(self) -> None:
        names = [self.begin() for _ in range(5)]
        for name in names:
            self.append(name, at(7))
        assert self.pending() == sorted(names)

    def test_work_by_newest_activity_is_paged_like_any_list(self) -> None:
        names = [self.begin() for _ in range(3)]
        for name in names:
            self.append(name, admitted("please"))
        self.begin("idle")
        first = self.store.find(Query(pending=True, limit=2))
        second = self.store.find(Query(pending=True, limit=2, cursor=first.cursor))
        found = [header.session_id for page in (first, second) for header in page.headers]
        assert (found, second.cursor) == (names[::-1], None)

    def test_work_is_filtered_like_any_list(self) -> None:
        mine = self.begin(header=Header(session_id=new_id(), owner_id="me", project_key="p"))
        local = self.begin(header=Header(session_id=new_id(), project_key="p", project_fingerprint="f"))
        other = self.begin(header=Header(session_id=new_id(), project_key="q"))
        for name in (mine, local, other):
            self.append(name, admitted("please"))
        self.append(other, e.SessionArchived())
        assert self.pending(Query(owner_id="me")) == [mine]
        assert self.pending(Query(project_key="p")) == [local]
        assert self.pending(Query(project_key="x", project_fingerprint="f")) == [local]
        assert self.pending(Query(state="archived")) == [other]

    def test_only_work_can_be_listed_oldest_first(self) -> None:
        for pending in (None, False):
            with pytest.raises(InvalidInput):
                self.store.find(Query(pending=pending, oldest_first=True))

    def test_an_ended_or_deleted_session_has_no_work(self) -> None:
        ended, archived, gone = (self.begin() for _ in range(3))
        for name in (ended, archived, gone):
            self.append(name, at(5))
        self.append(archived, e.SessionArchived())
        self.append(ended, e.SessionClosed())
        assert sorted(self.pending()) == sorted([archived, gone])
        self.store.commit(Delete(session_id=gone, actor="user"))
        self.append(archived, e.SessionClosed())
        assert self.pending() == []
        self.append(ended, NewEvent(event=e.SessionReopened(), at=9))
        assert (self.pending(), self.store.head(ended).work_since) == ([ended], 9)

    def test_work_is_the_same_however_its_events_are_grouped(self) -> None:
        turn = (at(1), NewEvent(event=e.TurnStarted(inputs=[2]), turn="t"), NewEvent(event=e.ModelRequested(model="m")))
        done = (NewEvent(event=e.TurnEnded(outcome="done", answered=[2]), turn="t"), at(8, "next"))
        one, many = self.begin(), self.begin()
        self.append(one, *turn)
        for event in turn:
            self.append(many, event)
        assert [self.store.head(name).work_since for name in (one, many)] == [1, 1]
        self.append(one, *done)
        for event in done:
            self.append(many, event)
        assert [self.store.head(name).work_since for name in (one, many)] == [8, 8]

    def test_a_request_is_open_until_its_own_boundary_is_drawn_or_refused(self) -> None:
        session_id = self.begin()
        self.append(session_id, e.BoundaryRequested(what="clear"), e.BoundaryRequested(what="rotate"))
        assert self.store.head(session_id).requests == REQUESTS["clear"] | REQUESTS["rotate"]
        self.append(session_id, e.HistoryCleared())
        assert self.store.head(session_id).requests == REQUESTS["rotate"]
        self.append(session_id, e.RuntimeStateChanged(changes={"boundary_refused": {"what": "rotate", "why": "no"}}))
        assert (self.store.head(session_id).requests, self.pending()) == (0, [])

    def test_nothing_that_waits_in_the_parent_waits_in_its_fork(self) -> None:
        parent, child, tip = self.begin(), new_id(), new_id()
        self.append(parent, at(3), e.BoundaryRequested(what="clear"))
        self.store.commit(lineage.fork(self.store.head(parent), child))
        assert self.pending() == [parent]
        head = self.store.head(child)
        assert (head.requests, head.work_since, head.estimated_tokens) == (0, None, 0)
        self.store.commit(*lineage.rotate(self.store.head(parent), tip, token="t", holder="h", carried=[2]))
        assert self.pending() == [tip]

    # --- tokens

    def test_what_was_admitted_is_estimated_until_a_provider_reports(self) -> None:
        session_id = self.begin("history that nobody sends is not counted")
        self.append(session_id, admitted("x" * 400), admitted(LARGE))
        estimate = 100 + len(LARGE) // 4
        assert self.store.head(session_id).estimated_tokens == estimate
        request = self.append(session_id, e.ModelRequested(model="m")).seq
        self.append(session_id, e.ReplyInterrupted(attempt_seq=request))
        assert self.reopened().head(session_id).estimated_tokens == estimate
        self.append(
            session_id,
            e.AssistantReplied(attempt_seq=request, parts=(TextPart("a"),), usage=Usage(input_tokens=90)),
            admitted("more"),
        )
        head = self.store.head(session_id)
        assert (head.input_tokens, head.estimated_tokens) == (90, 1)

    def test_redaction_keeps_estimates_plan_mode_and_work(self) -> None:
        session_id = self.begin()
        self.append(session_id, at(4, "x" * 40), at(5, LARGE))
        self.append(session_id, e.RuntimeStateChanged(changes={"workflow_mode": "plan"}))
        before = self.store.head(session_id)
        for seq in (2, 3, 4):
            self.store.commit(Redact(session_id=session_id, seq=seq, actor="user"))
        for _ in range(2):
            after = self.store.head(session_id)
            for name in ("estimated_tokens", "plan_mode", "work_since", "pending_count"):
                assert getattr(after, name) == getattr(before, name)
            assert (after.plan_mode, after.estimated_tokens) == (True, 10 + len(LARGE) // 4)
            self.reopened()

    # --- plan mode

    def test_plan_mode_is_what_the_runtime_said_last(self) -> None:
        session_id = self.begin(created=e.SessionCreated(settings={"plan_mode": True}))
        assert self.store.head(session_id).plan_mode
        for mode, plans in (("execute", False), ("plan", True), ("verify", False), ("plan", True)):
            self.append(session_id, e.RuntimeStateChanged(changes={"workflow_mode": mode, "other": 1}))
            self.append(session_id, e.RuntimeStateChanged(changes={"other": 2}))
            assert self.store.head(session_id).plan_mode is plans
        child = new_id()
        self.store.commit(lineage.fork(self.store.head(session_id), child))
        assert self.reopened().head(child).plan_mode
