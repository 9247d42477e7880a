"""Garbage collection: what a store removes on its own, and what it must keep."""

from __future__ import annotations

import hashlib
import time

import pytest

from outlast.core import events as e
from outlast.core.errors import ConflictError, DamagedSession, SessionDeleted
from outlast.store import lineage
from outlast.store.port import Delete, PutBlob
from outlast.testing.contract.exam import Exam, new_id, said

LARGE = "larger " * 20_000


def in_hours(hours: float) -> int:
    return time.time_ns() // 1000 + int(hours * 3_600_000_000)


class GcQuestions(Exam):
    def bury(self, session_id: str) -> None:
        self.store.commit(Delete(session_id=session_id, actor="user/exam"))

    def test_keys_outlive_a_deleted_session_by_thirty_days(self) -> None:
        session_id, living = self.begin(), self.begin()
        keys = [("a", None), ("b", None), ("a", "room/1")]
        for key, scope in keys:
            self.append(session_id, said(key), key=key, scope=scope)
        self.append(living, said("mine"), key="a")
        self.append(living, said("mine too"), key="c", scope="room/1")
        self.bury(session_id)
        assert self.store.sweep(in_hours(29 * 24)).keys == 0
        for key, scope in keys:
            assert self.append(session_id, said(key), key=key, scope=scope).replayed
        assert self.store.sweep(in_hours(31 * 24)).keys >= 3  # some stores also keep keys that they made themselves
        for _ in range(2):
            for key, scope in keys:
                with pytest.raises(SessionDeleted):
                    self.append(session_id, said(key), key=key, scope=scope)
            assert self.append(living, said("mine"), key="a").replayed
            assert self.append(living, said("mine too"), key="c", scope="room/1").replayed
            assert self.store.sweep(in_hours(31 * 24)).keys == 0
            self.reopened()
        assert not self.append(living, said("a"), key="a", scope="room/1").replayed

    def put_blob(self, session_id: str, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        self.store.commit(PutBlob(session_id=session_id, sha256=digest, data=data))
        return digest

    def test_a_blob_that_nobody_names_goes_after_a_day(self) -> None:
        session_id = self.begin(LARGE)
        named, mentioned, unnamed = (self.put_blob(session_id, data) for data in (b"named", b"mentioned", b"unnamed"))
        self.append(session_id, e.RuntimeStateChanged(changes={"file": {"before": named}}))
        self.append(session_id, said(f"it is sha256:{mentioned}, see there"))
        large = hashlib.sha256(LARGE.encode()).hexdigest()
        assert self.store.sweep(in_hours(23)).blobs == 0
        assert self.store.blob(session_id, unnamed) == b"unnamed"
        assert self.store.sweep(in_hours(25)).blobs == 1
        for _ in range(2):
            with pytest.raises(DamagedSession):
                self.store.blob(session_id, unnamed)
            assert self.store.blob(session_id, named) == b"named"
            assert self.store.blob(session_id, mentioned) == b"mentioned"
            assert self.store.blob(session_id, large) == LARGE.encode()
            assert self.store.sweep(in_hours(26)).blobs == 0
            self.reopened()
        again = self.put_blob(session_id, b"unnamed")
        assert self.store.blob(session_id, again) == b"unnamed"

    def test_blobs_of_a_session_with_forks_stay(self) -> None:
        parent = self.begin("one")
        digest = self.put_blob(parent, b"shared")
        child = new_id()
        self.store.commit(lineage.fork(self.store.head(parent), child))
        self.append(child, e.RuntimeStateChanged(changes={"file": digest}))
        self.store.sweep(in_hours(25))
        assert self.store.blob(child, digest) == b"shared"

    def test_sweeping_an_empty_store_does_nothing(self) -> None:
        assert self.store.sweep() == self.store.sweep()
        assert self.store.sweep().done

    def test_a_swept_store_goes_on_as_before(self) -> None:
        session_id = self.begin("one")
        self.append(session_id, said("two"), key="k")
        before = self.events(session_id)
        self.store.sweep(in_hours(100 * 24))
        assert self.events(session_id) == before
        with pytest.raises(ConflictError):
            self.append(session_id, said("other"), key="k")
        self.append(session_id, said("three"))
        assert self.texts(self.reopened_session(session_id)) == ["one", "two", "three"]

    def reopened_session(self, session_id: str) -> str:
        self.reopened()
        return session_id
