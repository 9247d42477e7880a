"""Draft chunks: the streamed part of a reply, which is removed when the attempt is closed."""

from __future__ import annotations

import pytest

from outlast.core import events as e
from outlast.core.errors import ConflictError, StaleLease
from outlast.core.messages import TextPart
from outlast.store import lineage
from outlast.store.port import Append, Chunk, Lease, NewEvent, PutChunk
from outlast.testing.contract.exam import Exam, admitted, new_id


class DraftQuestions(Exam):
    def attempt(self) -> tuple[str, Lease, int]:
        """Create a session with an open attempt; return its id, its lease and the attempt's seq."""
        session_id = self.begin()
        lease = self.claim(session_id)
        receipt = self.append(session_id, e.TurnStarted(), e.ModelRequested(model="m"), lease=lease)
        return session_id, lease, receipt.seq

    def put(self, lease: Lease, attempt_seq: int, n: int, data: bytes, part: str = "text") -> None:
        self.store.commit(PutChunk(lease=lease, attempt_seq=attempt_seq, n=n, part=part, data=data))

    def draft(self, session_id: str, after: int | None = None, chunk: int = 0) -> list[Chunk]:
        """Return the chunks that a follower gets if it knows every event."""
        after = self.store.head(session_id).last_seq if after is None else after
        return [
            one for batch in self.store.follow(session_id, after=after, chunk=chunk, timeout=0) for one in batch.chunks
        ]

    def test_chunks_come_back_in_order_with_their_part(self) -> None:
        session_id, lease, attempt = self.attempt()
        pieces = [("reasoning", b"hm"), ("text", b"Hel"), ("text", "lö".encode()), ("tool_call:1", b"\x00\xff{")]
        for n, (part, data) in enumerate(pieces, 1):
            self.put(lease, attempt, n, data, part)
        expected = [Chunk(attempt_seq=attempt, n=n, part=part, data=data) for n, (part, data) in enumerate(pieces, 1)]
        assert self.draft(session_id) == expected
        assert self.draft(session_id, chunk=2) == expected[2:]

    def test_a_gap_between_chunks_is_refused(self) -> None:
        session_id, lease, attempt = self.attempt()
        self.put(lease, attempt, 1, b"a")
        for n in (0, -1, 3, 2**30):
            with pytest.raises(ConflictError):
                self.put(lease, attempt, n, b"x")
        assert [chunk.n for chunk in self.draft(session_id)] == [1]

    def test_repeating_a_chunk_changes_nothing_and_other_bytes_are_a_conflict(self) -> None:
        session_id, lease, attempt = self.attempt()
        for n in (1, 2, 3, 1, 2, 3):
            self.put(lease, attempt, n, b"%d" % n)
        with pytest.raises(ConflictError):
            self.put(lease, attempt, 2, b"other")
        with pytest.raises(ConflictError):
            self.put(lease, attempt, 3, b"3", "reasoning")
        assert [chunk.data for chunk in self.draft(session_id)] == [b"1", b"2", b"3"]

    def test_chunks_go_in_the_commit_that_closes_the_attempt(self) -> None:
        for closing in (e.AssistantReplied, e.ReplyInterrupted):
            session_id, lease, attempt = self.attempt()
            self.put(lease, attempt, 1, b"Hel")
            self.append(session_id, closing(attempt_seq=attempt, parts=(TextPart("Hello"),)), lease=lease)
            assert self.draft(session_id) == []
            self.append(session_id, e.ModelRequested(model="m", attempt=2), lease=lease)
            assert self.draft(session_id) == []

    def test_a_last_chunk_and_its_close_share_a_commit(self) -> None:
        session_id, lease, attempt = self.attempt()
        closed = NewEvent(event=e.AssistantReplied(attempt_seq=attempt, parts=(TextPart("a"),)))
        self.store.commit(
            PutChunk(lease=lease, attempt_seq=attempt, n=1, part="text", data=b"a"),
            Append(session_id=session_id, events=(closed,), lease=lease),
        )
        assert self.draft(session_id) == []

    def test_a_refused_close_keeps_the_draft(self) -> None:
        session_id, lease, attempt = self.attempt()
        self.put(lease, attempt, 1, b"Hel")
        with pytest.raises(ConflictError):
            self.append(session_id, e.ReplyInterrupted(attempt_seq=attempt), lease=lease, expect=1)
        assert [chunk.data for chunk in self.draft(session_id)] == [b"Hel"]

    def test_door_writes_leave_the_draft_alone(self) -> None:
        session_id, lease, attempt = self.attempt()
        self.put(lease, attempt, 1, b"Hel")
        self.append(session_id, admitted("wait"))
        self.put(lease, attempt, 2, b"lo")
        assert [chunk.data for chunk in self.draft(session_id)] == [b"Hel", b"lo"]

    def test_the_next_attempt_counts_from_one_again(self) -> None:
        session_id, lease, attempt = self.attempt()
        self.put(lease, attempt, 1, b"first")
        self.append(session_id, e.ReplyInterrupted(attempt_seq=attempt), lease=lease)
        again = self.append(session_id, e.ModelRequested(model="m", attempt=2), lease=lease).seq
        with pytest.raises(ConflictError):
            self.put(lease, again, 2, b"x")
        self.put(lease, again, 1, b"second")
        assert [(chunk.attempt_seq, chunk.data) for chunk in self.draft(session_id)] == [(again, b"second")]

    def test_a_new_attempt_replaces_the_draft_of_one_that_was_never_closed(self) -> None:
        session_id, lease, attempt = self.attempt()
        for n in (1, 2, 3):
            self.put(lease, attempt, n, b"left behind")
        again = self.append(session_id, e.ModelRequested(model="m", attempt=2), lease=lease).seq
        self.put(lease, again, 1, b"new")
        self.put(lease, again, 2, b"er")
        assert [(chunk.attempt_seq, chunk.data) for chunk in self.draft(session_id)] == [
            (again, b"new"),
            (again, b"er"),
        ]

    def test_a_draft_needs_an_open_attempt(self) -> None:
        session_id, lease, attempt = self.attempt()
        for never_opened in (attempt - 1, 1, 0, -1, attempt + 1, 2**40):
            with pytest.raises(ConflictError, match="no attempt"):
                self.put(lease, never_opened, 1, b"x")
        self.put(lease, attempt, 1, b"Hel")
        self.append(session_id, e.ReplyInterrupted(attempt_seq=attempt), lease=lease)
        for _ in range(2):
            with pytest.raises(ConflictError, match="is closed"):
                self.put(lease, attempt, 1, b"Hel")
            with pytest.raises(ConflictError):
                self.put(lease, attempt, 2, b"lo")
            self.append(session_id, *(admitted("wait") for _ in range(300)))
        assert self.draft(session_id) == []

    def test_an_attempt_takes_its_first_chunk_however_late(self) -> None:
        session_id, lease, attempt = self.attempt()
        self.append(session_id, *(admitted("wait") for _ in range(600)))
        self.put(lease, attempt, 1, b"Hel")
        assert [chunk.data for chunk in self.draft(session_id)] == [b"Hel"]

    def test_an_inherited_attempt_takes_no_draft(self) -> None:
        session_id, _, attempt = self.attempt()
        child = new_id()
        self.store.commit(lineage.fork(self.store.head(session_id), child))
        with pytest.raises(ConflictError, match="no attempt"):
            self.put(self.claim(child), attempt, 1, b"x")
        assert self.draft(child) == []

    def test_an_attempt_and_its_first_chunk_share_a_commit(self) -> None:
        session_id = self.begin()
        lease = self.claim(session_id)
        self.store.commit(
            Append(session_id=session_id, events=(NewEvent(event=e.ModelRequested(model="m")),), lease=lease),
            PutChunk(lease=lease, attempt_seq=2, n=1, part="text", data=b"a"),
        )
        assert [chunk.data for chunk in self.draft(session_id)] == [b"a"]

    def test_only_the_lease_may_draft(self) -> None:
        session_id, lease, attempt = self.attempt()
        self.put(lease, attempt, 1, b"mine")
        self.claim(session_id, "other", force=True)
        with pytest.raises(StaleLease):
            self.put(lease, attempt, 2, b"not mine")
        assert [chunk.data for chunk in self.draft(session_id)] == [b"mine"]

    def test_a_draft_survives_opening_again_for_the_next_driver(self) -> None:
        session_id, lease, attempt = self.attempt()
        self.put(lease, attempt, 1, b"Hel")
        self.reopened()
        assert [chunk.data for chunk in self.draft(session_id)] == [b"Hel"]
        taken = self.claim(session_id, "other", force=True)
        self.put(taken, attempt, 2, b"lo")
        assert [chunk.data for chunk in self.draft(session_id)] == [b"Hel", b"lo"]

    def test_drafts_of_sessions_do_not_mix(self) -> None:
        first, second = self.attempt(), self.attempt()
        for n in range(1, 4):
            self.put(first[1], first[2], n, b"first")
            self.put(second[1], second[2], n, b"second")
        self.append(first[0], e.ReplyInterrupted(attempt_seq=first[2]), lease=first[1])
        assert self.draft(first[0]) == []
        assert [chunk.data for chunk in self.draft(second[0])] == [b"second"] * 3

    def test_a_chunk_may_be_large_or_empty(self) -> None:
        session_id, lease, attempt = self.attempt()
        self.put(lease, attempt, 1, b"")
        self.put(lease, attempt, 2, bytes(range(256)) * 1024)
        assert [len(chunk.data) for chunk in self.draft(session_id)] == [0, 256 * 1024]
