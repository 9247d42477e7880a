"""Keys: repeating a write with the same key stores it once."""

from __future__ import annotations

import pytest

from outlast.core import events as e
from outlast.core.errors import ConflictError, InvalidInput
from outlast.core.header import Header
from outlast.store import lineage
from outlast.store.port import Append, Create, Delete, Lease, NewEvent, PutRoute, Receipt
from outlast.testing.contract.exam import OPAQUE_HOLDER, Exam, new_id, said


class KeyQuestions(Exam):
    def keyed(self, session_id: str, key: str = "k") -> Receipt:
        return self.append(session_id, said("once"), said("and only once"), key=key)

    def check_repeat(self, session_id: str, first: Receipt, key: str = "k") -> None:
        """Check that a repeat returns the first receipt, and that other content under the same key is refused."""
        again = self.keyed(session_id, key)
        assert again == Receipt(session_id=first.session_id, seq=first.seq, first_seq=first.first_seq, replayed=True)
        with pytest.raises(ConflictError):
            self.append(session_id, said("something else"), key=key)

    def test_same_key_twice_returns_the_first_receipt(self) -> None:
        session_id = self.begin()
        first = self.keyed(session_id)
        assert not first.replayed
        self.check_repeat(session_id, first)
        assert len(self.events(session_id)) == 3

    def test_same_key_with_other_content_is_a_conflict(self) -> None:
        session_id = self.begin()
        self.append(session_id, said("a"), key="k")
        for other in ((said("b"),), (said("a"), said("a")), (said("a"), said("b"))):
            with pytest.raises(ConflictError):
                self.append(session_id, *other, key="k")
        assert self.texts(session_id) == ["a"]

    def test_time_and_actor_do_not_make_content_another_one(self) -> None:
        session_id = self.begin()
        event = said("a").event
        first = self.append(session_id, NewEvent(event=event, actor="user", at=1), key="k")
        again = self.append(session_id, NewEvent(event=event, actor="user/retry", at=2), key="k")
        assert (again.seq, again.replayed) == (first.seq, True)

    def test_a_repeat_after_others_appended_returns_the_first_receipt(self) -> None:
        session_id = self.begin()
        first = self.keyed(session_id)
        for n in range(5):
            self.append(session_id, said(str(n)))
        self.check_repeat(session_id, first)

    def test_a_repeat_after_the_end_returns_the_first_receipt(self) -> None:
        session_id = self.begin()
        first = self.keyed(session_id)
        self.append(session_id, e.SessionClosed())
        self.check_repeat(session_id, first)

    def test_a_repeat_with_a_stale_lease_or_expectation_returns_the_first_receipt(self) -> None:
        session_id = self.begin()
        lease = self.claim(session_id)
        first = self.append(session_id, said("driven"), key="k", lease=lease, expect=1)
        self.claim(session_id, "other", force=True)
        again = self.append(session_id, said("driven"), key="k", lease=lease, expect=1)
        assert (again.seq, again.replayed) == (first.seq, True)

    def test_a_repeat_after_rotation_returns_the_first_receipt(self) -> None:
        session_id, tip = self.begin(), new_id()
        first = self.keyed(session_id)
        self.store.commit(*lineage.rotate(self.store.head(session_id), tip, token="t", holder=OPAQUE_HOLDER))
        self.check_repeat(session_id, first)
        self.check_repeat(tip, first)
        assert self.store.head(tip).last_seq == 4

    def test_a_key_used_on_the_tip_is_known_on_the_root(self) -> None:
        session_id, tip = self.begin(), new_id()
        self.store.commit(*lineage.rotate(self.store.head(session_id), tip, token="t", holder=OPAQUE_HOLDER))
        first = self.append(session_id, said("to the tip"), key="k", to_tip=True)
        assert first.session_id == tip
        again = self.append(session_id, said("to the tip"), key="k", to_tip=True)
        assert (again.session_id, again.seq, again.replayed) == (tip, first.seq, True)

    def test_a_fork_does_not_share_its_parents_keys(self) -> None:
        session_id, child = self.begin(), new_id()
        self.keyed(session_id)
        self.store.commit(lineage.fork(self.store.head(session_id), child))
        assert not self.keyed(child).replayed

    def test_a_repeat_after_delete_returns_the_first_receipt(self) -> None:
        session_id = self.begin()
        first = self.keyed(session_id)
        self.store.commit(Delete(session_id=session_id, actor="user"))
        self.check_repeat(session_id, first)

    def test_repeats_after_delete_return_the_first_receipt_while_forks_keep_its_events(self) -> None:
        session_id = self.begin()
        first = self.keyed(session_id)
        self.store.commit(lineage.fork(self.store.head(session_id), new_id(), at=1, messages=0))
        self.store.commit(Delete(session_id=session_id, actor="user"))
        for _ in range(3):
            self.check_repeat(session_id, first)
        self.reopened()
        self.check_repeat(session_id, first)

    def test_a_repeat_after_opening_again_returns_the_first_receipt(self) -> None:
        session_id = self.begin()
        first = self.keyed(session_id)
        self.reopened()
        self.check_repeat(session_id, first)

    def test_a_repeat_on_another_handle_returns_the_first_receipt(self) -> None:
        session_id = self.begin()
        write = Append(session_id=session_id, events=(said("x"),), key="k")
        [first] = self.store.commit(write)
        [again] = self.another().commit(write)
        assert (again.seq, again.replayed) == (first.seq, True)

    def test_the_same_key_means_nothing_in_another_session(self) -> None:
        first, second = self.begin(), self.begin()
        self.append(first, said("a"), key="k")
        assert not self.append(second, said("b"), key="k").replayed

    def test_an_explicit_scope_is_shared_between_sessions(self) -> None:
        first, second = self.begin(), self.begin()
        receipt = self.append(first, said("a"), key="k", scope="telegram:42")
        again = self.append(second, said("a"), key="k", scope="telegram:42")
        assert (again.session_id, again.seq, again.replayed) == (first, receipt.seq, True)
        assert not self.append(second, said("a"), key="k", scope="telegram:43").replayed
        with pytest.raises(ConflictError):
            self.append(second, said("b"), key="k", scope="telegram:42")

    def test_a_keyed_create_is_done_once(self) -> None:
        session_id = new_id()
        write = Create(header=Header(session_id=session_id), events=(NewEvent(event=e.SessionCreated()),), key="c")
        assert [receipt.replayed for _ in range(2) for receipt in self.store.commit(write)] == [False, True]
        assert len(self.events(session_id)) == 1
        with pytest.raises(ConflictError):
            self.store.commit(Create(header=write.header, events=write.events))

    def test_a_repeated_commit_of_several_writes_changes_nothing(self) -> None:
        session_id, other = self.begin(), self.begin()
        writes = (
            Append(session_id=session_id, events=(said("a"),), key="k"),
            Append(session_id=other, events=(said("b"),)),
            PutRoute(route="r", session_id=other),
        )
        self.store.commit(*writes)
        self.store.commit(PutRoute(route="r", session_id=session_id))
        receipts = self.store.commit(*writes)
        assert [receipt.replayed for receipt in receipts] == [True, True, True]
        assert (receipts[0].session_id, receipts[0].seq) == (session_id, 2)
        assert (self.texts(session_id), self.texts(other)) == (["a"], ["b"])
        assert self.store.route("r") == session_id

    def test_two_writes_of_one_commit_may_not_share_a_key(self) -> None:
        session_id = self.begin()
        write = Append(session_id=session_id, events=(said("a"),), key="k")
        with pytest.raises((ConflictError, InvalidInput)):
            self.store.commit(write, write)
        assert self.texts(session_id) == []
        assert not self.append(session_id, said("a"), key="k").replayed

    def test_a_refused_write_does_not_use_up_its_key(self) -> None:
        session_id = self.begin()
        with pytest.raises(ConflictError):
            self.append(session_id, said("a"), key="k", expect=50)
        assert not self.append(session_id, said("b"), key="k").replayed

    def test_any_valid_text_is_a_key(self) -> None:
        session_id = self.begin()
        keys = ["x" * 512, " ", "ключ", "🗝️", "a'b\"c\\d", "%_", "~0123", "\n\t", "/../x", "K", "k"]
        receipts = {key: self.append(session_id, said(key), key=key) for key in keys}
        for key, receipt in receipts.items():
            assert self.append(session_id, said(key), key=key).seq == receipt.seq
        assert [row.key for row in self.events(session_id)][1:] == keys

    def test_what_is_no_valid_key_is_refused(self) -> None:
        session_id = self.begin()
        for key in ("", "x" * 513, "\ud800", "a\0b"):
            with pytest.raises(InvalidInput):
                self.append(session_id, said("x"), key=key)

    def test_a_lease_of_nobody_does_not_get_past_a_key(self) -> None:
        session_id = self.begin()
        self.append(session_id, said("a"), key="k")
        with pytest.raises(ConflictError):
            self.append(session_id, said("b"), key="k", lease=Lease(session_id, 9, "nobody"))
