"""Restores: importing a session of another store keeps its rows and hashes, and changes no existing session."""

from __future__ import annotations

import hashlib

import pytest

from outlast.core import events as e
from outlast.core.errors import ConflictError, InvalidInput, SessionDeleted, SessionNotFound
from outlast.core.event_row import GENESIS, StoredEvent
from outlast.core.header import REQUESTS, Header, counted, delta_of
from outlast.core.messages import Role, TextPart, Usage
from outlast.store.engine.encode import seal
from outlast.store.port import Append, Base, Delete, NewEvent, Query, Redact, Restore, Write
from outlast.testing.contract.exam import Exam, admitted, new_id, said

LARGE = "a text that lies in a blob " * 8_000
TOP = 2**63 - 1


def elsewhere(
    session_id: str,
    *events: NewEvent | e.Event,
    after: StoredEvent | None = None,
    key: str | None = None,
    epoch: int | None = None,
) -> list[StoredEvent]:
    """Return the rows of these events as another store would have written them, after the row `after`."""
    news = tuple(event if isinstance(event, NewEvent) else NewEvent(event=event) for event in events)
    [sealed] = seal((Append(session_id=session_id, events=news, key=key),), compress=False).writes
    seq, previous = (after.seq, after.hash) if after is not None else (0, GENESIS)
    rows: list[StoredEvent] = []
    for event in sealed.events:
        seq += 1
        rows.append(event.row(session_id, seq, epoch, previous))
        previous = rows[-1].hash
    return rows


def talk(session_id: str, *texts: str) -> list[StoredEvent]:
    return elsewhere(session_id, e.SessionCreated(), *map(said, texts))


def blob_of(text: str) -> tuple[str, bytes]:
    data = text.encode()
    return hashlib.sha256(data).hexdigest(), data


def part(rows: list[StoredEvent], header: Header | None = None, base: Base | None = None, **rest: object) -> Restore:
    header = header or Header(session_id=rows[0].session_id)
    return Restore(header=header, events=tuple(rows), base=base, **rest)  # pyright: ignore[reportArgumentType]


class RestoreQuestions(Exam):
    def refused(self, error: type[Exception], *writes: Write) -> None:
        """Check that the writes are refused and that existing sessions are unchanged."""
        sessions = {header.session_id: header for header in self.store.find(Query(limit=1000)).headers}
        logs = {name: self.store.read(name) for name in sessions}
        with pytest.raises(error):
            self.store.commit(*writes)
        for _ in range(2):
            assert {header.session_id: header for header in self.store.find(Query(limit=1000)).headers} == sessions
            assert {name: self.store.read(name) for name in sessions} == logs
            self.reopened()

    # --- accepted

    def test_a_restored_session_has_the_rows_and_hashes_that_it_came_with(self) -> None:
        session_id = new_id()
        rows = talk(session_id, "hello", "ünïcode \U0001f600", "x" * 9_000)
        [receipt] = self.store.commit(part(rows))
        assert (receipt.session_id, receipt.first_seq, receipt.seq, receipt.replayed) == (session_id, 1, 4, False)
        for _ in range(2):
            assert self.events(session_id) == rows
            head = self.store.head(session_id)
            assert (head.message_count, head.title, head.imported_seq, head.last_seq) == (3, "hello", 4, 4)
            self.reopened()

    def test_what_the_rows_do_not_tell_is_what_the_header_gives(self) -> None:
        given = Header(session_id=new_id(), owner_id="me", project_key="p", project_root="/some/where", depth=2)
        self.store.commit(part(talk(given.session_id, "hi"), given))
        head = self.reopened().head(given.session_id)
        for name in ("owner_id", "project_key", "project_root", "depth"):
            assert getattr(head, name) == getattr(given, name)
        assert head.root_id == given.session_id
        assert [found.session_id for found in self.store.find(Query(owner_id="me")).headers] == [given.session_id]

    def test_a_restored_session_goes_on_like_any_other(self) -> None:
        session_id = new_id()
        rows = talk(session_id, "hello")
        self.store.commit(part(rows))
        self.append(session_id, said("again"), key="k")
        assert self.events(session_id)[:2] == rows
        assert self.texts(session_id) == ["hello", "again"]
        head = self.store.head(session_id)
        assert (head.last_seq, head.imported_seq, head.message_count) == (3, 2, 2)

    def test_a_session_restored_in_parts_is_the_one_restored_at_once(self) -> None:
        names = [new_id(), new_id()]
        usage = Usage(input_tokens=7, output_tokens=3)
        heads: list[Header] = []
        for name, cuts in zip(names, ((7,), (1, 3, 4, 7)), strict=True):
            events = (said("one"), admitted("two"), e.TurnStarted(inputs=[3]), said("three", Role.ASSISTANT))
            answered = (e.UsageRecorded(usage=usage), e.TurnEnded(outcome="done", answered=[3]))
            fixed = tuple(
                NewEvent(event=event.event if isinstance(event, NewEvent) else event, turn="t", at=50 + n)
                for n, event in enumerate((e.SessionCreated(), *events, *answered))
            )
            rows = elsewhere(name, *fixed)
            first = 0
            for cut in cuts:
                self.store.commit(part(rows[first:cut], Header(session_id=name, created_at=9)))
                first = cut
                self.reopened()
            assert self.events(name) == rows
            heads.append(self.store.head(name))
        told = [
            {name: getattr(head, name) for name in Header.__struct_fields__ if name not in {"session_id", "root_id"}}
            for head in heads
        ]
        assert told[0] | {"head_hash": b""} == told[1] | {"head_hash": b""}

    def test_a_restored_session_is_listed_where_its_last_event_belongs(self) -> None:
        old, new = new_id(), self.begin("now")
        self.store.commit(part(elsewhere(old, *(NewEvent(event=e.SessionCreated(), at=at) for at in (5, 900)))))
        assert [header.session_id for header in self.store.find(Query()).headers] == [new, old]
        assert self.store.head(old).updated_at == 900

    def test_several_sessions_are_restored_together_or_not_at_all(self) -> None:
        first, second = new_id(), new_id()
        changed = [row._replace(actor="another actor") for row in talk(second, "b")]
        self.refused(InvalidInput, part(talk(first, "a")), part(changed))
        with pytest.raises(SessionNotFound):
            self.store.head(first)
        self.store.commit(part(talk(first, "a")), part(talk(second, "b")))
        assert [self.texts(name) for name in (first, second)] == [["a"], ["b"]]

    # --- blobs, keys and header values of restored rows

    def test_restored_texts_that_lie_in_blobs_are_read(self) -> None:
        session_id, digest = new_id(), blob_of(LARGE)
        rows = talk(session_id, "small", LARGE)
        self.store.commit(part(rows[:2]), part(rows[2:], blobs=(digest,)))
        assert self.texts(session_id) == ["small", LARGE]
        assert self.reopened().blob(session_id, digest[0]) == digest[1]

    def test_a_blob_of_an_earlier_part_serves_a_later_one(self) -> None:
        session_id = new_id()
        rows = elsewhere(session_id, e.SessionCreated(), admitted(LARGE), admitted(LARGE))
        self.store.commit(part(rows[:2], blobs=(blob_of(LARGE),)))
        self.store.commit(part(rows[2:]))
        assert self.texts(session_id) == [LARGE, LARGE]
        assert self.store.head(session_id).estimated_tokens == 2 * (len(LARGE) // 4)

    def test_a_blob_that_does_not_match_its_name_is_refused(self) -> None:
        name, data = blob_of(LARGE)
        self.refused(InvalidInput, part(talk(new_id(), LARGE), blobs=((name, data + b"!"),)))

    def test_a_restored_key_gives_its_first_receipt_again(self) -> None:
        session_id, new = new_id(), (said("paid"), said("once"))
        rows = talk(session_id, "hello")
        rows += elsewhere(session_id, *new, after=rows[-1], key="order 7")
        self.store.commit(part(rows))
        for _ in range(2):
            receipt = self.append(session_id, *new, key="order 7")
            assert (receipt.replayed, receipt.first_seq, receipt.seq) == (True, 3, 4)
            with pytest.raises(ConflictError):
                self.append(session_id, said("something else"), key="order 7")
            self.reopened()
        assert self.texts(session_id) == ["hello", "paid", "once"]

    def test_a_restored_redacted_event_is_redacted_and_still_counts(self) -> None:
        session_id = new_id()
        secret = e.AssistantReplied(attempt_seq=2, parts=(TextPart("swordfish"),), usage=Usage(input_tokens=11))
        rows = elsewhere(session_id, e.SessionCreated(), admitted("hi"), secret, admitted("x" * 40))
        told = e.EventRedacted(seq=3, body_digest="0" * 64, counted=counted(delta_of(secret)))
        rows += elsewhere(session_id, told, after=rows[-1])
        blanked = [
            row._replace(body=hashlib.sha256(row.body).digest(), redacted=True) if row.seq == 3 else row for row in rows
        ]
        self.store.commit(part(blanked[:4], counted={3: told.counted}), part(blanked[4:]))
        for _ in range(2):
            assert [row.redacted for row in self.events(session_id)] == [False, False, True, False, False]
            head = self.store.head(session_id)
            assert (head.message_count, head.input_tokens, head.estimated_tokens) == (3, 11, 10)
            assert head.head_hash == rows[-1].hash
            self.reopened()
        self.store.commit(Redact(session_id=session_id, seq=4, actor="user"))
        assert self.store.head(session_id).estimated_tokens == 10

    def test_drivers_of_a_restored_session_are_newer_than_those_in_its_rows(self) -> None:
        header = Header(session_id=new_id(), epoch=8)
        self.store.commit(part(elsewhere(header.session_id, e.SessionCreated(), said("x"), epoch=8), header))
        assert self.claim(header.session_id).epoch == 9

    def test_nothing_that_a_restored_session_asked_for_is_to_be_done_here(self) -> None:
        session_id = new_id()
        rows = elsewhere(session_id, e.SessionCreated(), e.BoundaryRequested(what="clear"))
        self.store.commit(part(rows))
        for _ in range(2):
            assert (self.store.head(session_id).requests, self.store.head(session_id).has_work) == (0, False)
            assert self.store.find(Query(pending=True)).headers == []
            self.reopened()
        self.append(session_id, e.BoundaryRequested(what="clear"))
        assert self.store.head(session_id).requests == REQUESTS["clear"]

    # --- forks and lineages

    def restored_pair(self) -> tuple[str, str, list[StoredEvent]]:
        """Restore a session and a fork of it at its second event; return both ids and the rows of the fork."""
        parent, child = new_id(), new_id()
        rows = talk(parent, "shared", "only here")
        forked = e.SessionForked(base_session_id=parent, base_seq=2)
        own = elsewhere(child, forked, said("in the fork"), after=rows[1])
        self.store.commit(part(rows))
        self.store.commit(part(own, Header(session_id=child, message_count=1), Base(parent, 2)))
        return parent, child, [*rows[:2], *own]

    def test_a_restored_fork_stands_on_its_base(self) -> None:
        parent, child, rows = self.restored_pair()
        for _ in range(2):
            assert self.events(child) == rows
            assert self.texts(child) == ["shared", "in the fork"]
            head = self.store.head(child)
            assert (head.base_id, head.base_seq, head.message_count, head.imported_seq) == (parent, 2, 2, 4)
            self.reopened()
        self.store.commit(Delete(session_id=parent, actor="user"))
        assert self.texts(child) == ["shared", "in the fork"]

    def test_a_fork_whose_base_is_not_there_is_refused(self) -> None:
        parent, child = new_id(), new_id()
        rows = talk(parent, "shared")
        own = elsewhere(child, e.SessionForked(base_session_id=parent, base_seq=2), after=rows[1])
        header = Header(session_id=child)
        self.refused(SessionNotFound, part(own, header, Base(parent, 2)))
        self.store.commit(part(rows))
        self.refused(InvalidInput, part(own, header, Base(parent, 1)))
        self.refused(ConflictError, part(own, header, Base(parent, 3)))
        self.refused(InvalidInput, part(own, header))
        other = self.begin("another", "history")
        self.refused(InvalidInput, part(own, header, Base(other, 2)))
        self.store.commit(part(own, header, Base(parent, 2)))
        assert self.texts(child) == ["shared"]

    def test_a_restored_rotation_is_the_tip_of_its_lineage(self) -> None:
        parent, tip = new_id(), new_id()
        rows = talk(parent, "before")
        rotated = elsewhere(parent, e.SessionRotated(to_session_id=tip), after=rows[-1])
        forked = e.SessionForked(base_session_id=parent, base_seq=2, reason="rotate")
        own = elsewhere(tip, forked, said("after"), after=rows[-1])
        header = Header(session_id=tip, message_count=1)
        self.store.commit(part([*rows, *rotated]))
        self.store.commit(part(own, header, Base(parent, 2), continues=parent))
        assert self.reopened().tip(parent) == tip
        assert self.store.head(tip).root_id == parent
        assert self.append(parent, said("to the tip"), to_tip=True).session_id == tip
        assert self.texts(tip) == ["before", "after", "to the tip"]

    # --- refused as InvalidInput: rows that were changed or have gaps

    def test_a_changed_row_is_refused(self) -> None:
        session_id = new_id()
        rows = talk(session_id, "one", "two")
        body = rows[1].body.replace(b"one", b"0ne")
        changes = ({"body": body}, {"at": 7}, {"actor": "x"}, {"kind": "InputAdmitted"}, {"hash": bytes(32)})
        for change in changes:
            self.refused(InvalidInput, part([rows[0], rows[1]._replace(**change), rows[2]]))
        with pytest.raises(SessionNotFound):
            self.store.head(session_id)

    def test_rows_with_a_gap_are_refused(self) -> None:
        rows = talk(new_id(), "one", "two", "three")
        for gap in (rows[1:], [rows[0], *rows[2:]], rows[::-1], [*rows, rows[-1]]):
            self.refused(InvalidInput, part(gap))
        self.store.commit(part(rows[:2]))
        self.refused(InvalidInput, part(rows[3:]))
        self.store.commit(part(rows[2:]))
        assert self.texts(rows[0].session_id) == ["one", "two", "three"]

    def test_a_part_of_another_history_is_refused(self) -> None:
        session_id = new_id()
        rows, other = talk(session_id, "one", "two"), talk(session_id, "ONE", "two")
        self.store.commit(part(rows[:2]))
        self.refused(InvalidInput, part(other[2:]))

    def test_a_row_of_another_session_is_refused(self) -> None:
        session_id = new_id()
        rows, other = talk(session_id, "one"), talk(new_id(), "one")
        self.refused(InvalidInput, part([rows[0], other[1]]))
        self.refused(InvalidInput, part(rows, Header(session_id=new_id())))

    def test_nothing_at_all_is_refused(self) -> None:
        self.refused(InvalidInput, Restore(header=Header(session_id=new_id()), events=()))
        self.refused(InvalidInput, part(talk(new_id(), "one"), Header(session_id="../../etc/passwd")))

    def test_times_and_sums_beyond_what_a_store_can_hold_are_refused(self) -> None:
        late = [NewEvent(event=e.SessionCreated(), at=TOP), NewEvent(event=e.HistoryCleared(), at=TOP)]
        self.refused(InvalidInput, part(elsewhere(new_id(), *late)))
        much = e.UsageRecorded(usage=Usage(input_tokens=TOP))
        self.refused(InvalidInput, part(elsewhere(new_id(), e.SessionCreated(), much, much)))

    # --- refused as ConflictError: the store has something else

    def test_a_session_that_is_here_is_not_restored_over(self) -> None:
        session_id = self.begin("mine")
        rows = self.events(session_id)
        self.refused(ConflictError, part(rows))
        self.refused(ConflictError, part(elsewhere(session_id, said("more"), after=rows[-1])))
        self.refused(ConflictError, part(talk(session_id, "theirs")))

    def test_a_restored_session_takes_no_further_part_once_something_was_written(self) -> None:
        session_id = new_id()
        rows = talk(session_id, "one", "two")
        self.store.commit(part(rows[:2]))
        self.append(session_id, said("mine"))
        self.refused(ConflictError, part(rows[2:]))
        self.refused(ConflictError, part(elsewhere(session_id, said("x"), after=self.events(session_id)[-1])))

    def test_a_part_that_is_here_already_is_refused(self) -> None:
        rows = talk(new_id(), "one", "two")
        self.store.commit(part(rows))
        self.refused(ConflictError, part(rows))
        self.refused(ConflictError, part(rows[1:]))

    def test_a_deleted_session_is_not_brought_back(self) -> None:
        session_id = new_id()
        rows = talk(session_id, "one", "two")
        self.store.commit(part(rows[:2]))
        self.store.commit(Delete(session_id=session_id, actor="user"))
        for again in (rows, rows[2:]):
            self.refused(SessionDeleted, part(again))
