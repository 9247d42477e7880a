"""Leases: only the holder may drive a session; doors write without a lease."""

from __future__ import annotations

import subprocess
import sys

import pytest

from outlast.core import events as e
from outlast.core.errors import SessionBusy, StaleLease
from outlast.store.port import Append, Claim, Delete, Lease, PutChunk, Release, Renew
from outlast.store.process_identity import boot_id, holder, hostname, started
from outlast.testing.contract.exam import Exam, admitted, said


def dead_holder() -> str:
    """Return the holder name of a process of this host and boot that has just ended."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    words = f"{hostname()} {boot_id()} {child.pid} {started(child.pid)}"
    child.communicate(b"\n")
    return words


class LeaseQuestions(Exam):
    def test_a_free_session_is_claimed_with_the_next_epoch(self) -> None:
        session_id = self.begin()
        assert self.store.holder(session_id) is None
        lease = self.claim(session_id, "token-1")
        assert lease == Lease(session_id, 1, "token-1")
        assert self.store.head(session_id).epoch == 1
        held = self.store.holder(session_id)
        assert held is not None
        assert (held.epoch, held.expired) == (1, False)

    def test_a_held_session_is_busy_for_others(self) -> None:
        session_id = self.begin()
        self.claim(session_id, "a")
        with pytest.raises(SessionBusy):
            self.claim(session_id, "b")
        assert self.store.head(session_id).epoch == 1

    def test_claiming_again_with_our_own_token_keeps_the_epoch(self) -> None:
        session_id = self.begin()
        assert self.claim(session_id, "a") == self.claim(session_id, "a")

    def test_a_forced_claim_takes_over(self) -> None:
        session_id = self.begin()
        first = self.claim(session_id, "a")
        second = self.claim(session_id, "b", force=True)
        assert second.epoch == first.epoch + 1
        with pytest.raises(StaleLease):
            self.append(session_id, said("late"), lease=first)
        self.append(session_id, said("mine now"), lease=second)
        assert self.texts(session_id) == ["mine now"]

    def test_an_expired_lease_may_be_taken_over(self) -> None:
        session_id = self.begin()
        first = self.claim(session_id, "a", ttl_ms=0)
        held = self.store.holder(session_id)
        assert held is not None
        assert held.expired
        second = self.claim(session_id, "b")
        assert second.epoch == first.epoch + 1
        for write in (
            Append(session_id=session_id, events=(said("late"),), lease=first),
            Renew(lease=first),
            PutChunk(lease=first, attempt_seq=1, n=1, part="text", data=b"x"),
        ):
            with pytest.raises(StaleLease):
                self.store.commit(write)

    def test_expiry_alone_does_not_revoke(self) -> None:
        session_id = self.begin()
        lease = self.claim(session_id, "a", ttl_ms=0)
        self.append(session_id, said("still mine"), lease=lease)
        self.store.commit(Renew(lease=lease, ttl_ms=60_000))
        with pytest.raises(SessionBusy):
            self.claim(session_id, "b")

    def test_a_holder_that_died_on_this_host_is_replaced_at_once(self) -> None:
        session_id = self.begin()
        [receipt] = self.store.commit(
            Claim(session_id=session_id, token="dead", holder=dead_holder(), ttl_ms=3_600_000)
        )
        assert self.claim(session_id, "alive").epoch == 2
        assert receipt.lease is not None
        with pytest.raises(StaleLease):
            self.append(session_id, said("from the grave"), lease=receipt.lease)

    def test_a_holder_that_lives_is_not_replaced(self) -> None:
        session_id = self.begin()
        self.store.commit(Claim(session_id=session_id, token="a", holder=holder(), ttl_ms=3_600_000))
        with pytest.raises(SessionBusy, match="process"):
            self.claim(session_id, "b")

    def test_a_holder_of_another_host_is_not_taken_for_dead(self) -> None:
        session_id = self.begin()
        elsewhere = f"another-host {boot_id()} 999999999 1"
        self.store.commit(Claim(session_id=session_id, token="a", holder=elsewhere, ttl_ms=3_600_000))
        with pytest.raises(SessionBusy):
            self.claim(session_id, "b")

    def test_a_released_lease_is_free_and_the_next_epoch_is_higher(self) -> None:
        session_id = self.begin()
        lease = self.claim(session_id, "a")
        self.store.commit(Release(lease=lease))
        assert self.store.holder(session_id) is None
        with pytest.raises(StaleLease):
            self.append(session_id, said("released"), lease=lease)
        assert self.claim(session_id, "b").epoch == lease.epoch + 1

    def test_releasing_a_lease_that_was_taken_over_changes_nothing(self) -> None:
        session_id = self.begin()
        first = self.claim(session_id, "a")
        second = self.claim(session_id, "b", force=True)
        self.store.commit(Release(lease=first))
        self.append(session_id, said("ours"), lease=second)

    def test_a_driver_needs_epoch_and_token_both(self) -> None:
        session_id = self.begin()
        lease = self.claim(session_id, "token")
        for wrong in (
            Lease(session_id, lease.epoch, "other"),
            Lease(session_id, lease.epoch + 1, "token"),
            Lease(session_id, lease.epoch - 1 or 77, "token"),
            Lease(session_id, lease.epoch, ""),
            Lease(session_id, 0, "other"),
        ):
            with pytest.raises(StaleLease):
                self.append(session_id, said("forged"), lease=wrong)
        assert self.texts(session_id) == []

    def test_the_same_token_after_a_take_over_does_not_bring_the_old_epoch_back(self) -> None:
        session_id = self.begin()
        first = self.claim(session_id, "a")
        self.claim(session_id, "b", force=True)
        again = self.claim(session_id, "a", force=True)
        assert again.epoch == 3
        with pytest.raises(StaleLease):
            self.append(session_id, said("old life"), lease=first)

    def test_a_session_nobody_holds_refuses_a_driver(self) -> None:
        session_id = self.begin()
        for epoch in (0, 1):
            with pytest.raises(StaleLease):
                self.append(session_id, said("x"), lease=Lease(session_id, epoch, "t"))

    def test_driver_events_carry_the_epoch_and_door_events_none(self) -> None:
        session_id = self.begin()
        lease = self.claim(session_id)
        self.append(session_id, e.TurnStarted(), lease=lease)
        self.append(session_id, admitted("meanwhile"))
        assert [row.epoch for row in self.events(session_id)] == [None, 1, None]

    def test_doors_write_without_a_lease_while_somebody_drives(self) -> None:
        session_id = self.begin()
        lease = self.claim(session_id)
        for n in range(6):
            if n % 2:
                self.append(session_id, admitted(f"door {n}"))
            else:
                self.append(session_id, said(f"driver {n}"), lease=lease)
        assert self.texts(session_id) == ["driver 0", "door 1", "driver 2", "door 3", "driver 4", "door 5"]

    def test_claim_and_first_write_share_a_commit_with_epoch_zero(self) -> None:
        session_id = self.begin()
        claimed, appended = self.store.commit(
            Claim(session_id=session_id, token="t", holder="h"),
            Append(session_id=session_id, events=(said("driven"),), lease=Lease(session_id, 0, "t")),
        )
        assert claimed.lease == Lease(session_id, 1, "t")
        assert appended.seq == 2
        assert self.events(session_id)[-1].epoch == 1

    def test_a_refused_commit_gives_its_claim_back(self) -> None:
        session_id = self.begin()
        with pytest.raises(StaleLease):
            self.store.commit(
                Claim(session_id=session_id, token="t", holder="h"),
                Append(session_id=session_id, events=(said("x"),), lease=Lease(session_id, 7, "t")),
            )
        assert self.store.holder(session_id) is None
        assert self.store.head(session_id).epoch == 0

    def test_last_write_and_release_share_a_commit(self) -> None:
        session_id = self.begin()
        lease = self.claim(session_id)
        last = Append(session_id=session_id, events=(said("done"),), lease=lease)
        self.store.commit(last, Release(lease=lease))
        assert self.store.holder(session_id) is None
        assert self.texts(session_id) == ["done"]

    def test_leases_survive_opening_again(self) -> None:
        session_id = self.begin()
        lease = self.claim(session_id, "a")
        self.reopened()
        with pytest.raises(SessionBusy):
            self.claim(session_id, "b")
        self.append(session_id, said("same driver"), lease=lease)

    def test_a_take_over_on_another_handle_revokes_here(self) -> None:
        session_id = self.begin()
        lease = self.claim(session_id, "a")
        self.append(session_id, said("mine"), lease=lease)
        self.another().commit(Claim(session_id=session_id, token="b", holder="h", force=True))
        with pytest.raises(StaleLease):
            self.append(session_id, said("not mine any more"), lease=lease)

    def test_deleting_takes_the_lease_by_force(self) -> None:
        session_id = self.begin()
        self.claim(session_id)
        self.store.commit(Delete(session_id=session_id, actor="user"))

    def test_leases_of_different_sessions_are_independent(self) -> None:
        first, second = self.begin(), self.begin()
        lease = self.claim(first, "same")
        self.claim(second, "other")
        with pytest.raises(StaleLease):
            self.append(second, said("wrong door"), lease=Lease(second, lease.epoch, lease.token))
