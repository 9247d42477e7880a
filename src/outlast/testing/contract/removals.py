"""Deliberate removal: tombstones, events that forks keep, redaction."""

from __future__ import annotations

import hashlib

import pytest

from outlast.core import events as e
from outlast.core.errors import ConflictError, DamagedSession, SessionDeleted
from outlast.core.event_row import StoredEvent
from outlast.core.events import EventRedacted
from outlast.core.messages import Role
from outlast.store import lineage
from outlast.store.port import Claim, Delete, PutBlob, PutSnapshot, Query, Redact
from outlast.testing.contract.exam import Exam, admitted, new_id, said

LARGE = "large " * 20_000


class RemovalQuestions(Exam):
    def delete(self, session_id: str, *, with_forks: bool = False) -> None:
        self.store.commit(Delete(session_id=session_id, actor="user/exam", with_forks=with_forks))

    def redact(self, session_id: str, seq: int, reason: str | None = None) -> None:
        self.store.commit(Redact(session_id=session_id, seq=seq, actor="user/exam", reason=reason))

    def forked(self, session_id: str) -> str:
        child = new_id()
        self.store.commit(lineage.fork(self.store.head(session_id), child))
        return child

    # --- delete

    def test_a_deleted_session_says_that_it_was_deleted(self) -> None:
        session_id = self.begin("secret")
        lease = self.claim(session_id)
        self.delete(session_id)
        for _ in range(2):
            with pytest.raises(SessionDeleted):
                self.store.head(session_id)
            with pytest.raises(SessionDeleted):
                self.store.read(session_id)
            with pytest.raises(SessionDeleted):
                self.append(session_id, said("x"))
            with pytest.raises(SessionDeleted):
                self.append(session_id, said("x"), lease=lease)
            with pytest.raises(SessionDeleted):
                self.store.holder(session_id)
            with pytest.raises(SessionDeleted):
                self.delete(session_id)
            with pytest.raises(SessionDeleted):
                self.forked_from_head(session_id)
            assert session_id not in [head.session_id for head in self.store.find(Query()).headers]
            self.reopened()

    def forked_from_head(self, session_id: str) -> None:
        parent = self.store.head(session_id)
        self.store.commit(lineage.fork(parent, new_id()))

    def test_a_deleted_id_is_never_used_again(self) -> None:
        session_id = self.begin("one")
        head = self.store.head(session_id)
        self.delete(session_id)
        with pytest.raises(ConflictError):
            self.begin("two", header=head)

    def test_a_deleted_session_is_not_found_by_its_prefix(self) -> None:
        session_id = self.begin("one")
        self.delete(session_id)
        with pytest.raises(Exception, match=session_id[:6]) as caught:
            self.store.resolve(session_id[:6])
        assert caught.type.__name__ == "SessionNotFound"

    def test_forks_keep_what_they_stand_on(self) -> None:
        parent = self.begin("1", "2")
        child = self.forked(parent)
        self.append(parent, said("not in the fork"))
        self.append(child, said("3"))
        before = self.events(child)
        self.delete(parent)
        assert self.events(child) == before
        assert self.texts(self.reopened_id(child)) == ["1", "2", "3"]

    def reopened_id(self, session_id: str) -> str:
        self.reopened()
        return session_id

    def test_a_fork_of_a_fork_survives_both_ancestors(self) -> None:
        first = self.begin("1")
        second = self.forked(first)
        self.append(second, said("2"))
        third = self.forked(second)
        self.append(third, said("3"))
        self.delete(first)
        self.delete(second)
        assert self.texts(third) == ["1", "2", "3"]
        self.delete(third)
        for gone in (first, second, third):
            with pytest.raises(SessionDeleted):
                self.store.head(gone)

    def test_a_fork_stays_when_its_sibling_goes(self) -> None:
        parent = self.begin("1", LARGE)
        keeps, goes = self.forked(parent), self.forked(parent)
        self.delete(parent)
        self.delete(goes)
        assert self.texts(keeps) == ["1", LARGE]

    def blob_of(self, session_id: str) -> str:
        """Append a text that is stored as a blob, and return its digest."""
        self.append(session_id, said(LARGE))
        return hashlib.sha256(LARGE.encode()).hexdigest()

    def test_what_a_deleted_session_said_is_gone(self) -> None:
        session_id = self.begin()
        digest = self.blob_of(session_id)
        self.store.commit(PutBlob(session_id=session_id, sha256=hashlib.sha256(b"x").hexdigest(), data=b"x"))
        self.delete(session_id)
        for name in (digest, hashlib.sha256(b"x").hexdigest()):
            with pytest.raises((SessionDeleted, DamagedSession)):
                self.store.blob(session_id, name)

    def test_the_last_fork_to_go_frees_the_parents_events(self) -> None:
        for order in ("parent first", "fork first"):
            parent = self.begin(order)
            digest = self.blob_of(parent)
            child = self.forked(parent)
            first, last = (parent, child) if order == "parent first" else (child, parent)
            self.delete(first)
            assert self.texts(last) == [order, LARGE]
            self.delete(last)
            with pytest.raises((SessionDeleted, DamagedSession)):
                self.store.blob(parent, digest)

    def test_deleting_with_forks_takes_all_that_stand_on_it(self) -> None:
        first = self.begin("1")
        second, sibling = self.forked(first), self.forked(first)
        third = self.forked(second)
        self.store.commit(Claim(session_id=third, token="t", holder="h"))
        unrelated = self.begin("stays")
        self.delete(first, with_forks=True)
        for session_id in (first, second, sibling, third):
            with pytest.raises(SessionDeleted):
                self.store.head(session_id)
        assert self.texts(unrelated) == ["stays"]

    def test_deleting_a_fork_leaves_its_parent_alone(self) -> None:
        parent = self.begin("1")
        child = self.forked(parent)
        self.delete(child, with_forks=True)
        assert self.texts(parent) == ["1"]

    # --- redaction

    def redacted_row(self, session_id: str, seq: int) -> StoredEvent:
        return self.events(session_id)[seq - 1]

    def test_a_redacted_body_is_gone_and_the_chain_still_verifies(self) -> None:
        session_id = self.begin("keep", "the password is swordfish", "keep too")
        before = self.redacted_row(session_id, 3)
        self.redact(session_id, 3, "secret")
        row = self.redacted_row(session_id, 3)
        assert row.redacted
        assert row.body == hashlib.sha256(before.body).digest()
        assert row.hash == before.hash
        assert self.texts(session_id) == ["keep", "keep too"]
        self.reopened()
        assert self.redacted_row(session_id, 3) == row

    def test_a_redaction_is_an_event_that_says_what_it_took(self) -> None:
        session_id = self.begin("swordfish")
        digest = hashlib.sha256(self.redacted_row(session_id, 2).body).hexdigest()
        self.redact(session_id, 2, "secret")
        last = self.events(session_id)[-1]
        event = self.decoded(last)
        assert event == EventRedacted(seq=2, body_digest=digest, reason="secret", counted={"messages": 1})
        assert last.actor == "user/exam"

    def test_redacting_twice_changes_nothing_more(self) -> None:
        session_id = self.begin("swordfish")
        self.redact(session_id, 2)
        before = self.events(session_id)
        self.redact(session_id, 2)
        assert self.events(session_id) == before

    def test_redacting_what_is_not_there_is_refused(self) -> None:
        parent = self.begin("1")
        child = self.forked(parent)
        for session_id, seq in (
            (parent, 0),
            (parent, 99),
            (child, 2),
            (parent, -5),
            (parent, 2**32 + 2),
            (parent, 2**40 + 2),
        ):
            with pytest.raises(ConflictError):
                self.redact(session_id, seq)

    def test_redaction_scrubs_the_title_that_the_message_gave(self) -> None:
        for text in ("swordfish", LARGE):
            session_id = self.begin(text)
            self.redact(session_id, 2)
            assert self.store.head(session_id).title == "[redacted]"
            assert self.store.find(Query(title=text[:5])).headers == []

    def test_redaction_scrubs_a_title_that_was_given(self) -> None:
        session_id = self.begin(created=e.SessionCreated(title="swordfish"))
        self.redact(session_id, 1)
        assert self.store.head(session_id).title == "[redacted]"
        self.append(session_id, e.SessionRenamed(title="swordfish again"))
        self.redact(session_id, 3)
        assert self.store.head(session_id).title == "[redacted]"

    def test_redaction_keeps_a_title_that_came_from_elsewhere(self) -> None:
        session_id = self.begin("harmless", "swordfish")
        self.redact(session_id, 3)
        assert self.store.head(session_id).title == "harmless"
        self.append(session_id, e.SessionRenamed(title="named"))
        self.redact(session_id, 2)
        assert self.store.head(session_id).title == "named"

    def test_redaction_scrubs_the_excerpt_of_a_waiting_input(self) -> None:
        for text in ("swordfish", LARGE):
            session_id = self.begin()
            seq = self.append(session_id, admitted(text)).seq
            self.redact(session_id, seq)
            head = self.store.head(session_id)
            assert (head.pending_text, head.pending_count) == ("[redacted]", 1)

    def test_redaction_takes_the_blobs_of_the_event_and_no_others(self) -> None:
        other = "other " * 20_000
        session_id = self.begin(LARGE, other, LARGE)
        shared, kept = (hashlib.sha256(text.encode()).hexdigest() for text in (LARGE, other))
        self.redact(session_id, 2)
        assert self.store.blob(session_id, shared) == LARGE.encode()
        self.redact(session_id, 4)
        with pytest.raises(DamagedSession):
            self.store.blob(session_id, shared)
        assert self.store.blob(session_id, kept) == other.encode()
        assert self.texts(session_id) == [other]

    def test_redaction_leaves_blobs_that_were_put_by_hand(self) -> None:
        session_id = self.begin(LARGE)
        put, named = (hashlib.sha256(data).hexdigest() for data in (b"put", b"named"))
        for digest, data in ((put, b"put"), (named, b"named")):
            self.store.commit(PutBlob(session_id=session_id, sha256=digest, data=data))
        self.append(session_id, e.RuntimeStateChanged(changes={"pre-image": named}))
        self.append(session_id, e.RuntimeStateChanged(changes={"pre-images": [f"sha256:{named}"]}))
        self.redact(session_id, 2)
        self.redact(session_id, 3)
        assert (self.store.blob(session_id, put), self.store.blob(session_id, named)) == (b"put", b"named")
        self.redact(session_id, 4)
        assert self.store.blob(session_id, put) == b"put"
        with pytest.raises(DamagedSession):
            self.store.blob(session_id, named)

    def test_redaction_leaves_a_blob_that_a_fork_names(self) -> None:
        parent = self.begin()
        digest = hashlib.sha256(b"shared").hexdigest()
        self.store.commit(PutBlob(session_id=parent, sha256=digest, data=b"shared"))
        self.append(parent, e.RuntimeStateChanged(changes={"pre-image": digest}))
        child = self.forked(parent)
        self.append(child, e.RuntimeStateChanged(changes={"pre-image": digest}))
        self.redact(parent, 2)
        assert self.store.blob(child, digest) == b"shared"

    def hidden(self) -> tuple[str, str, str, str]:
        """Create a deleted session, two forks that still show its events, and a fork of the first fork."""
        parent = self.begin("keep", "swordfish", LARGE, "not shown")
        first, second, third = new_id(), new_id(), new_id()
        head = self.store.head(parent)
        for child, at in ((first, 4), (second, 2)):
            self.store.commit(lineage.fork(head, child, at=at, messages=at - 1))
        self.append(first, said("mine"))
        self.store.commit(lineage.fork(self.store.head(first), third))
        self.delete(parent)
        return parent, first, second, third

    def test_what_a_deleted_session_said_is_redacted_through_a_fork_that_shows_it(self) -> None:
        parent, first, second, third = self.hidden()
        digest = hashlib.sha256(LARGE.encode()).hexdigest()
        assert self.texts(third) == ["keep", "swordfish", LARGE, "mine"]
        with pytest.raises(ConflictError):
            self.redact(second, 4)  # this fork does not show the event
        self.redact(third, 3, "secret")
        self.redact(first, 4)
        with pytest.raises((DamagedSession, SessionDeleted)):
            self.store.blob(first, digest)
        for _ in range(2):
            assert self.texts(first) == self.texts(third) == ["keep", "mine"]
            assert self.texts(second) == ["keep"]
            assert [self.kinds(name).count("EventRedacted") for name in (first, second, third)] == [1, 0, 1]
            with pytest.raises(SessionDeleted):
                self.store.read(parent)
            self.reopened()
        before = self.events(third)
        self.redact(third, 3)
        assert self.events(third) == before

    def test_what_a_deleted_session_said_is_redacted_by_its_own_id(self) -> None:
        parent, first, second, third = self.hidden()
        self.redact(parent, 3)
        assert self.texts(first) == self.texts(third) == ["keep", LARGE, "mine"]
        assert [self.kinds(name).count("EventRedacted") for name in (first, second, third)] == [1, 0, 1]
        for seq in (5, 99, 0, -1):
            with pytest.raises(SessionDeleted):
                self.redact(parent, seq)
        self.delete(third)
        self.delete(first)
        with pytest.raises(SessionDeleted):
            self.redact(parent, 4)
        assert self.texts(second) == ["keep"]

    def test_redaction_drops_snapshots_of_the_session_and_of_its_forks(self) -> None:
        parent = self.begin("swordfish")
        child = self.forked(parent)
        for session_id in (parent, child):
            self.store.commit(PutSnapshot(session_id=session_id, seq=2, fold_version=1, state=b"swordfish"))
        self.redact(parent, 2)
        assert self.store.snapshot(parent) is None
        assert self.store.snapshot(child) is None

    def test_redaction_reaches_the_forks_that_share_the_event(self) -> None:
        parent = self.begin("swordfish")
        child = self.forked(parent)
        self.append(child, said("mine"))
        self.redact(parent, 2)
        assert self.texts(child) == ["mine"]
        assert self.store.head(child).title == "[redacted]"

    def test_an_ended_session_can_be_redacted(self) -> None:
        session_id = self.begin("swordfish")
        self.append(session_id, e.SessionClosed())
        self.redact(session_id, 2)
        assert self.texts(session_id) == []

    def test_redaction_keeps_the_counts(self) -> None:
        session_id = self.begin("a")
        self.append(session_id, said("b", Role.ASSISTANT))
        before = self.store.head(session_id)
        self.redact(session_id, 2)
        after = self.store.head(session_id)
        assert (after.message_count, after.pending_count) == (before.message_count, before.pending_count)
