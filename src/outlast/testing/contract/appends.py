"""Writes: receipts, seqs, atomicity, expectations, the end of a session."""

from __future__ import annotations

import hashlib
import time

import pytest

from outlast.core import events as e
from outlast.core.errors import ConflictError, InvalidInput, Refused, SessionEnded, SessionNotFound
from outlast.core.event_row import GENESIS
from outlast.core.header import ACTIVE, ARCHIVED, ENDED, Header
from outlast.store.port import (
    Append,
    Claim,
    Create,
    Delete,
    NewEvent,
    PutBlob,
    PutChunk,
    PutRoute,
    PutSnapshot,
    Receipt,
    Redact,
    Release,
    Renew,
    Write,
)
from outlast.testing.contract.exam import Exam, admitted, new_id, said


class AppendQuestions(Exam):
    def test_an_append_returns_where_it_was_written(self) -> None:
        session_id = self.begin()
        assert self.append(session_id, said("one")) == Receipt(session_id=session_id, seq=2, first_seq=2)
        assert self.append(session_id, said("two"), said("three")) == Receipt(session_id=session_id, seq=4, first_seq=3)
        assert self.texts(session_id) == ["one", "two", "three"]

    def test_seqs_are_gapless_from_one_in_every_session(self) -> None:
        first, second = self.begin(), self.begin()
        for n in range(20):
            self.append(first if n % 3 else second, said(str(n)))
        assert [row.seq for row in self.events(first)] == list(range(1, 15))
        assert [row.seq for row in self.events(second)] == list(range(1, 9))

    def test_every_field_of_a_row_comes_back(self) -> None:
        session_id = self.begin()
        self.append(
            session_id, NewEvent(event=e.TurnStarted(), actor="user/cli/me/c1", turn="turn-1", at=123_456), key="k"
        )
        row = self.events(session_id)[-1]
        assert (row.session_id, row.seq, row.kind, row.v, row.at) == (session_id, 2, "TurnStarted", 1, 123_456)
        assert (row.actor, row.turn, row.key, row.epoch, row.enc) == ("user/cli/me/c1", "turn-1", "k", None, "plain")
        assert (row.body, row.redacted) == (b"{}", False)

    def test_an_event_without_a_time_gets_the_clock_now(self) -> None:
        before = time.time_ns() // 1000
        session_id = self.begin()
        assert before <= self.events(session_id)[0].at <= time.time_ns() // 1000

    def test_the_writers_clock_never_orders(self) -> None:
        session_id = self.begin()
        for at in (2**62, 5, -7, 0):
            self.append(session_id, NewEvent(event=e.SessionRenamed(title=str(at)), at=at))
        assert [row.at for row in self.events(session_id)[1:]] == [2**62, 5, -7, 0]

    def test_a_new_session_begins_its_chain_at_nothing(self) -> None:
        session_id = self.begin("hello")
        head = self.store.head(session_id)
        rows = self.events(session_id)
        assert (head.last_seq, head.root_id, head.base_id, head.base_seq) == (2, session_id, None, 0)
        assert head.head_hash == rows[-1].hash != GENESIS

    def test_creating_a_session_that_exists_is_a_conflict(self) -> None:
        session_id = self.begin("mine")
        with pytest.raises(ConflictError):
            self.begin("other", header=Header(session_id=session_id))
        assert self.texts(session_id) == ["mine"]

    def test_creating_with_a_malformed_id_is_refused(self) -> None:
        for name in ("", "x", "../../../../etc/passwd/xxxx", "A" * 26, "a" * 25, "a" * 27, "a" * 25 + "\n", "é" * 26):
            with pytest.raises(Refused):
                self.begin(header=Header(session_id=name))

    def test_a_write_without_events_is_refused(self) -> None:
        session_id = self.begin()
        with pytest.raises(InvalidInput):
            self.append(session_id)
        with pytest.raises(InvalidInput):
            self.store.commit(Create(header=Header(session_id=new_id()), events=()))

    def test_a_commit_of_nothing_writes_nothing(self) -> None:
        assert self.store.commit() == []

    def test_several_writes_are_one_commit_with_one_receipt_each(self) -> None:
        session_id, other = new_id(), self.begin()
        created = Create(header=Header(session_id=session_id), events=(NewEvent(event=e.SessionCreated()),))
        receipts = self.store.commit(
            created,
            Append(session_id=session_id, events=(said("a"), said("b"))),
            Append(session_id=other, events=(said("c"),)),
            PutRoute(route="r", session_id=session_id),
        )
        assert [(receipt.session_id, receipt.first_seq, receipt.seq) for receipt in receipts] == [
            (session_id, 1, 1),
            (session_id, 2, 3),
            (other, 2, 2),
            (session_id, 0, 0),
        ]
        assert self.texts(session_id) == ["a", "b"]

    def test_a_refused_write_takes_the_whole_commit_with_it(self) -> None:
        session_id, other = self.begin(), self.begin()
        made = new_id()
        with pytest.raises(ConflictError):
            self.store.commit(
                Create(header=Header(session_id=made), events=(NewEvent(event=e.SessionCreated()),), key="made"),
                Append(session_id=session_id, events=(said("first"),), key="first"),
                PutRoute(route="r", session_id=session_id),
                Claim(session_id=session_id, token="t", holder="h"),
                Append(session_id=other, events=(said("second"),), expect=99),
            )
        assert self.texts(session_id) == []
        assert self.store.head(session_id).epoch == 0
        assert self.store.holder(session_id) is None
        assert self.store.route("r") is None
        with pytest.raises(SessionNotFound):
            self.store.head(made)
        assert not self.append(session_id, said("first"), key="first").replayed

    def test_a_refused_write_leaves_the_list_as_it_was(self) -> None:
        session_id = self.begin("title")
        before = self.store.head(session_id)
        with pytest.raises(ConflictError):
            self.append(session_id, said("x"), e.SessionRenamed(title="other"), expect=77)
        assert self.store.head(session_id) == before

    def test_an_expected_head_lets_the_write_through_and_another_one_does_not(self) -> None:
        session_id = self.begin()
        assert self.append(session_id, said("a"), expect=1).seq == 2
        for wrong in (0, 1, 3, 2**40):
            with pytest.raises(ConflictError):
                self.append(session_id, said("b"), expect=wrong)
        assert self.texts(session_id) == ["a"]

    def test_two_writes_of_one_commit_see_each_other(self) -> None:
        session_id = self.begin()
        self.store.commit(
            Append(session_id=session_id, events=(said("a"),), expect=1),
            Append(session_id=session_id, events=(said("b"),), expect=2),
        )
        assert self.texts(session_id) == ["a", "b"]

    def test_an_ended_session_refuses_messages_and_accepts_being_reopened(self) -> None:
        session_id = self.begin("a")
        self.append(session_id, e.SessionClosed(reason="done"))
        assert self.store.head(session_id).state == ENDED
        for event in (said("b").event, e.InputAdmitted(parts=()), e.TurnStarted(), e.SessionClosed()):
            with pytest.raises(SessionEnded):
                self.append(session_id, event)
        self.append(session_id, e.SessionRenamed(title="kept"))
        self.append(session_id, e.SessionReopened())
        assert self.store.head(session_id).state == ACTIVE
        self.append(session_id, said("b"))
        assert self.texts(session_id) == ["a", "b"]

    def test_an_ended_session_refuses_a_driver_too(self) -> None:
        session_id = self.begin()
        lease = self.claim(session_id)
        self.append(session_id, e.SessionClosed())
        with pytest.raises(SessionEnded):
            self.append(session_id, said("late"), lease=lease)

    def test_nothing_slips_in_behind_the_end_within_one_commit(self) -> None:
        session_id = self.begin()
        with pytest.raises(SessionEnded):
            self.store.commit(
                Append(session_id=session_id, events=(NewEvent(event=e.SessionClosed()),)),
                Append(session_id=session_id, events=(said("late"),)),
            )
        assert self.store.head(session_id).state == ACTIVE

    def test_an_archived_session_still_takes_input(self) -> None:
        session_id = self.begin()
        self.append(session_id, e.SessionArchived())
        assert self.store.head(session_id).state == ARCHIVED
        self.append(session_id, said("still here"))
        self.append(session_id, e.SessionUnarchived())
        assert self.store.head(session_id).state == ACTIVE

    def test_archiving_an_ended_session_does_not_reopen_it(self) -> None:
        session_id = self.begin()
        self.append(session_id, e.SessionClosed())
        self.append(session_id, e.SessionArchived())
        assert self.store.head(session_id).state == ARCHIVED
        for event in (said("late"), admitted("late"), NewEvent(event=e.SessionClosed())):
            with pytest.raises(SessionEnded):
                self.append(session_id, event)
        self.reopened()
        with pytest.raises(SessionEnded):
            self.append(session_id, said("later"))
        self.append(session_id, e.SessionUnarchived())
        assert self.store.head(session_id).state == ENDED
        self.append(session_id, e.SessionUnarchived())
        assert self.store.head(session_id).state == ENDED
        self.append(session_id, e.SessionArchived())
        self.append(session_id, e.SessionReopened())
        self.append(session_id, said("back"))
        assert self.store.head(session_id).state == ACTIVE

    def test_a_receipt_tells_what_was_written_and_where_the_session_stands(self) -> None:
        session_id = self.begin("one")
        lease = self.claim(session_id)
        started, requested = NewEvent(event=e.TurnStarted()), NewEvent(event=e.ModelRequested(model="m"))
        writes: list[Write] = [
            Append(session_id=session_id, events=(started, requested), lease=lease),
            PutChunk(lease=lease, attempt_seq=4, n=1, part="text", data=b"x"),
            PutBlob(session_id=session_id, sha256=hashlib.sha256(b"x").hexdigest(), data=b"x"),
            PutSnapshot(session_id=session_id, seq=2, fold_version=1, state=b"x"),
            PutRoute(route="room", session_id=session_id),
            Renew(lease=lease),
            Release(lease=lease),
            Redact(session_id=session_id, seq=2, actor="user/exam"),
            Delete(session_id=session_id, actor="user/exam"),
        ]
        told = [self.store.commit(write)[0] for write in writes]
        written = [(receipt.first_seq, receipt.seq) for receipt in told]
        assert written == [(3, 4), (0, 4), (0, 4), (0, 4), (0, 0), (0, 4), (0, 4), (5, 5), (0, 5)]
        assert {receipt.session_id for receipt in told} == {session_id}

    def test_what_a_header_shows_is_cut_and_what_names_is_refused(self) -> None:
        long = "x" * 5000
        header = Header(session_id=new_id(), title=long, model=long, persona=long, pending_count=1, pending_text=long)
        session_id = self.begin(header=header)
        for _ in range(2):
            head = self.store.head(session_id)
            assert (head.title, head.model, head.persona) == ("x" * 200,) * 3
            assert head.pending_text == "x" * 120
            self.reopened()
        for name in ("owner_id", "project_key", "project_root", "project_fingerprint", "parent_session_id"):
            header = Header(session_id=new_id())
            setattr(header, name, long)
            with pytest.raises(InvalidInput, match=f"Create.header.{name} has 5,000 characters"):
                self.begin(header=header)
        with pytest.raises(InvalidInput, match="turn has 5,000 characters"):
            self.append(session_id, NewEvent(event=e.TurnStarted(), turn=long))
        assert self.kinds(session_id) == ["SessionCreated"]

    def test_unknown_and_malformed_sessions_are_not_found(self) -> None:
        self.begin()
        for name in (new_id(), "", "nothing", "../x", "\0", "\ud800", "%", "a" * 25 + "%", "'; DROP TABLE events; --"):
            with pytest.raises(SessionNotFound):
                self.append(name, said("x"))
            with pytest.raises(SessionNotFound):
                self.store.head(name)
            with pytest.raises(SessionNotFound):
                self.store.read(name)
            with pytest.raises(SessionNotFound):
                self.claim(name)
            with pytest.raises(SessionNotFound):
                self.store.tip(name)
            with pytest.raises(SessionNotFound):
                self.store.holder(name)
            with pytest.raises(SessionNotFound):
                self.store.snapshot(name)
            with pytest.raises(SessionNotFound):
                self.store.blob(name, "0" * 64)
            with pytest.raises(SessionNotFound):
                next(iter(self.store.follow(name, timeout=0)))

    def test_everything_acknowledged_is_there_after_opening_again(self) -> None:
        session_id = self.begin()
        for n in range(30):
            self.append(session_id, said(f"message {n}"), key=f"k{n}")
        before, head = self.events(session_id), self.store.head(session_id)
        self.reopened()
        assert self.events(session_id) == before
        assert self.store.head(session_id) == head
        assert self.append(session_id, said("message 30")).seq == 32

    def test_everything_acknowledged_is_there_when_the_handle_was_never_closed(self) -> None:
        session_id = self.begin("a", "b")
        abandoned = self.events(session_id)
        assert self.events(session_id, self.another()) == abandoned
