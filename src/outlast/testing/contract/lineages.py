"""Forks, rotations and the routes that follow them."""

from __future__ import annotations

import pytest

from outlast.core import events as e
from outlast.core.errors import ConflictError, SessionEnded, SessionNotFound, StaleLease
from outlast.core.header import ACTIVE, ENDED, Header
from outlast.core.ids import is_id
from outlast.store import lineage
from outlast.store.port import (
    Base,
    Create,
    Delete,
    Lease,
    MoveRoutes,
    NewEvent,
    PutRoute,
    Query,
    Redact,
)
from outlast.testing.contract.exam import OPAQUE_HOLDER, Exam, admitted, new_id, said


class LineageQuestions(Exam):
    def fork(self, session_id: str, at: int | None = None) -> str:
        child = new_id()
        self.store.commit(lineage.fork(self.store.head(session_id), child, at=at, messages=0 if at else None))
        return child

    def rotate(self, session_id: str, *, lease: Lease | None = None, carried: list[int] | None = None) -> str:
        tip = new_id()
        self.store.commit(
            *lineage.rotate(
                self.store.head(session_id), tip, token="tip", holder=OPAQUE_HOLDER, lease=lease, carried=carried
            )
        )
        return tip

    # --- forks

    def test_a_fork_reads_its_parents_history_and_goes_on_by_itself(self) -> None:
        parent = self.begin("one", "two")
        child = self.fork(parent)
        self.append(child, said("in the child"))
        self.append(parent, said("in the parent"))
        assert self.texts(child) == ["one", "two", "in the child"]
        assert self.texts(parent) == ["one", "two", "in the parent"]
        assert self.kinds(child)[3] == "SessionForked"
        assert [row.session_id for row in self.events(child)] == [parent] * 3 + [child] * 2

    def test_a_forks_first_event_is_chained_on_the_base_event(self) -> None:
        parent = self.begin("one", "two", "three")
        child = self.fork(parent, at=2)
        head = self.store.head(child)
        assert (head.base_id, head.base_seq, head.last_seq, head.root_id) == (parent, 2, 3, child)
        assert self.events(child)[:2] == self.events(parent)[:2]

    def test_forks_of_short_and_long_sessions_read_gapless(self) -> None:
        for length in (1, 10, 1000):
            parent = self.begin()
            if length > 1:
                self.append(parent, *(said(str(n)) for n in range(length - 1)))
            for at in {1, (length + 1) // 2, length}:
                child = self.fork(parent, at)
                self.append(child, said("more"))
                assert len(self.events(child)) == at + 2
                assert self.events(child)[:at] == self.events(parent)[:at]

    def test_a_fork_of_a_fork_reads_through_both(self) -> None:
        first = self.begin("1")
        second = self.fork(first)
        self.append(second, said("2"))
        third = self.fork(second)
        self.append(third, said("3"))
        self.append(first, said("not in the forks"))
        assert self.texts(third) == ["1", "2", "3"]
        assert self.store.head(third).base_id == second

    def test_a_fork_at_an_inherited_event_stands_on_the_session_that_owns_it(self) -> None:
        first = self.begin("1", "2")
        second = self.fork(first)
        third = self.fork(second, at=2)
        assert self.texts(third) == ["1"]
        assert self.store.head(third).base_id == first

    def test_a_fork_at_an_event_that_is_not_there_is_refused(self) -> None:
        parent = self.begin("1")
        for seq in (0, -1, 3, 2**40):
            with pytest.raises(ConflictError):
                self.fork_raw(parent, seq)
        with pytest.raises(SessionNotFound):
            self.fork_raw(new_id(), 1)

    def fork_raw(self, parent: str, seq: int) -> None:
        forked = NewEvent(event=e.SessionForked(base_session_id=parent, base_seq=seq))
        self.store.commit(Create(header=Header(session_id=new_id()), events=(forked,), base=Base(parent, seq)))

    def test_nothing_of_the_parent_is_live_in_a_fork(self) -> None:
        parent = self.begin()
        lease = self.claim(parent)
        self.append(parent, admitted("waiting"))
        self.append(parent, NewEvent(event=e.TurnStarted(), turn="t1"), lease=lease)
        self.store.commit(PutRoute(route="r", session_id=parent))
        child = self.fork(parent)
        head = self.store.head(child)
        assert (head.turn, head.pending_count, head.pending_text, head.epoch) == (None, 0, None, 0)
        assert (head.input_tokens, head.state) == (0, ACTIVE)
        assert self.store.holder(child) is None
        assert self.store.route("r") == parent
        with pytest.raises(StaleLease):
            self.append(child, said("x"), lease=Lease(child, lease.epoch, lease.token))

    def test_a_fork_of_an_ended_session_is_active(self) -> None:
        parent = self.begin("1")
        self.append(parent, e.SessionClosed())
        child = self.fork(parent)
        self.append(child, said("2"))
        assert self.texts(child) == ["1", "2"]

    def test_a_fork_inherits_what_a_list_shows(self) -> None:
        header = Header(session_id=new_id(), owner_id="me", project_key="p", project_root="/p")
        parent = self.begin("hello", header=header, created=e.SessionCreated(model="m", persona="x"))
        head = self.store.head(self.fork(parent))
        assert (head.owner_id, head.project_key, head.project_root) == ("me", "p", "/p")
        assert (head.title, head.model, head.persona, head.message_count) == ("hello", "m", "x", 1)

    def test_forks_are_found_by_what_they_stand_on(self) -> None:
        parent = self.begin("1")
        children = {self.fork(parent) for _ in range(3)}
        self.begin("other")
        assert {head.session_id for head in self.store.find(Query(base_id=parent)).headers} == children

    def test_many_forks_of_one_session_do_not_mix(self) -> None:
        parent = self.begin("0")
        children = [self.fork(parent) for _ in range(10)]
        for n, child in enumerate(children):
            self.append(child, said(f"only in {n}"))
        assert [self.texts(child) for child in children] == [["0", f"only in {n}"] for n in range(10)]

    # --- rotations

    def test_a_rotation_moves_everything_in_one_commit(self) -> None:
        parent = self.begin("1")
        lease = self.claim(parent)
        waiting = self.append(parent, admitted("unanswered")).seq
        self.store.commit(PutRoute(route="r1", session_id=parent), PutRoute(route="r2", session_id=parent))
        tip = self.rotate(parent, lease=lease, carried=[waiting])
        old, new = self.store.head(parent), self.store.head(tip)
        assert (old.state, old.rotated_to, self.kinds(parent)[-1]) == (ENDED, tip, "SessionRotated")
        assert (new.state, new.root_id, new.base_id, new.base_seq) == (ACTIVE, parent, parent, waiting)
        assert (new.pending_count, new.pending_text, new.parent_session_id) == (1, "unanswered", parent)
        assert [self.store.route(route) for route in ("r1", "r2")] == [tip, tip]
        assert self.store.holder(parent) is None
        held = self.store.holder(tip)
        assert held is not None
        assert held.epoch == 1
        assert self.texts(tip) == ["1", "unanswered"]

    def test_a_sub_agent_that_rotates_still_works_for_whoever_began_it(self) -> None:
        parent, child = self.begin("1"), new_id()
        created = NewEvent(event=e.SessionCreated(parent_session_id=parent, depth=1))
        header = Header(session_id=child, parent_session_id=parent, depth=1)
        self.store.commit(Create(header=header, events=(created,)))
        tip = self.store.head(self.rotate(child))
        assert (tip.parent_session_id, tip.depth) == (parent, 1)

    def test_a_refused_rotation_changes_nothing(self) -> None:
        parent = self.begin("1")
        self.store.commit(PutRoute(route="r", session_id=parent))
        head, tip = self.store.head(parent), new_id()
        self.append(parent, said("2"))
        with pytest.raises(ConflictError):
            self.store.commit(*lineage.rotate(head, tip, token="t", holder="h"))
        with pytest.raises(SessionNotFound):
            self.store.head(tip)
        assert self.store.route("r") == parent
        assert self.store.tip(parent) == parent
        self.append(parent, said("3"), to_tip=True)
        assert self.texts(parent) == ["1", "2", "3"]

    def test_a_driver_that_was_replaced_cannot_rotate(self) -> None:
        parent = self.begin("1")
        lease = self.claim(parent, "a")
        self.claim(parent, "b", force=True)
        with pytest.raises(StaleLease):
            self.rotate(parent, lease=lease)
        assert self.store.tip(parent) == parent

    def test_a_session_is_rotated_only_once(self) -> None:
        parent = self.begin("1")
        tip = self.rotate(parent)
        with pytest.raises(SessionEnded):
            self.rotate(parent)
        assert self.store.tip(parent) == tip

    def test_a_write_to_the_tip_lands_there_from_anywhere_in_the_lineage(self) -> None:
        first = self.begin("1")
        second = self.rotate(first)
        third = self.rotate(second, lease=self.claim(second, "tip"))
        for n, session_id in enumerate((first, second, third)):
            receipt = self.append(session_id, said(f"to the tip {n}"), to_tip=True)
            assert receipt.session_id == third
        assert self.texts(third) == ["1", "to the tip 0", "to the tip 1", "to the tip 2"]
        assert [self.store.tip(session_id) for session_id in (first, second, third)] == [third] * 3
        assert {self.store.head(session_id).root_id for session_id in (first, second, third)} == {first}

    def test_a_write_without_to_tip_is_refused_by_a_rotated_session(self) -> None:
        parent = self.begin("1")
        tip = self.rotate(parent)
        with pytest.raises(SessionEnded, match=tip):
            self.append(parent, said("2"))

    def test_a_rotated_session_has_ended_for_good(self) -> None:
        parent = self.begin("1")
        self.rotate(parent)
        with pytest.raises(SessionEnded):
            self.append(parent, e.SessionReopened())
        self.append(parent, e.SessionArchived(), e.SessionRenamed(title="old"))
        with pytest.raises(SessionEnded):
            self.append(parent, said("2"))
        self.append(parent, e.SessionUnarchived())
        with pytest.raises(SessionEnded):
            self.append(parent, said("2"))
        assert self.texts(parent) == ["1"]

    def test_reading_the_parent_never_leads_to_the_tip(self) -> None:
        parent = self.begin("1")
        tip = self.rotate(parent)
        self.append(tip, said("2"))
        assert self.texts(parent) == ["1"]
        assert self.store.head(parent).session_id == parent
        assert self.store.resolve(parent) == parent
        child = self.fork(parent)
        assert self.texts(child) == ["1"]
        self.store.commit(Redact(session_id=parent, seq=2, actor="user"))
        self.store.commit(Delete(session_id=parent, actor="user"))
        assert self.texts(tip) == ["2"]

    def test_a_fork_in_the_middle_of_a_lineage_is_a_lineage_of_its_own(self) -> None:
        first = self.begin("1")
        second = self.rotate(first)
        aside = self.fork(second)
        third = self.rotate(second, lease=self.claim(second, "tip"))
        assert self.store.tip(aside) == aside
        assert self.store.head(aside).root_id == aside
        assert self.store.tip(first) == third
        self.append(aside, said("aside"), to_tip=True)
        assert self.texts(aside) == ["1", "aside"]

    def test_the_tip_is_the_same_after_opening_again(self) -> None:
        parent = self.begin("1")
        tip = self.rotate(parent)
        self.reopened()
        assert self.store.tip(parent) == tip
        assert self.append(parent, said("2"), to_tip=True).session_id == tip

    def test_a_repeated_rotation_with_a_key_happens_once(self) -> None:
        parent = self.begin("1")
        writes = lineage.rotate(self.store.head(parent), new_id(), token="t", holder="h", key="rotate-1")
        assert not any(receipt.replayed for receipt in self.store.commit(*writes))
        assert all(receipt.replayed for receipt in self.store.commit(*writes))
        assert self.kinds(parent) == ["SessionCreated", "MessageAppended", "SessionRotated"]

    # --- routes

    def test_a_route_leads_where_it_was_put_last(self) -> None:
        first, second = self.begin(), self.begin()
        assert self.store.route("telegram:1") is None
        self.store.commit(PutRoute(route="telegram:1", session_id=first))
        assert self.store.route("telegram:1") == first
        self.store.commit(PutRoute(route="telegram:1", session_id=second))
        assert self.store.route("telegram:1") == second
        self.store.commit(PutRoute(route="telegram:1", session_id=None))
        assert self.store.route("telegram:1") is None

    def test_moving_routes_moves_all_of_one_session_and_no_others(self) -> None:
        first, second, third = self.begin(), self.begin(), self.begin()
        for n in range(3):
            self.store.commit(PutRoute(route=f"a{n}", session_id=first), PutRoute(route=f"b{n}", session_id=third))
        self.store.commit(MoveRoutes(from_session_id=first, to_session_id=second))
        assert {self.store.route(f"a{n}") for n in range(3)} == {second}
        assert {self.store.route(f"b{n}") for n in range(3)} == {third}

    def test_a_route_to_nowhere_is_refused(self) -> None:
        with pytest.raises(SessionNotFound):
            self.store.commit(PutRoute(route="r", session_id=new_id()))

    def test_routes_go_with_a_deleted_session(self) -> None:
        session_id = self.begin()
        self.store.commit(PutRoute(route="r", session_id=session_id))
        self.store.commit(Delete(session_id=session_id, actor="user"))
        assert self.store.route("r") is None

    def test_any_valid_text_is_a_route(self) -> None:
        session_id = self.begin()
        routes = ["telegram:-100/7", "../..", "a'b\"", "ключ", "🧭", " ", "%", "x" * 500, "\n", "R", "r"]
        for route in routes:
            self.store.commit(PutRoute(route=route, session_id=session_id))
        self.reopened()
        assert [self.store.route(route) for route in routes] == [session_id] * len(routes)
        assert is_id(session_id)
