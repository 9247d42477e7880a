"""A commit whose outcome was unknown is run again, exactly as it was: it is done once, and its receipts come back.

The caller gave no key, so the one that the store made has to do.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from outlast.core import events as e
from outlast.core.header import Header
from outlast.core.ids import id_from
from outlast.core.messages import Role, TextPart
from outlast.store import lineage, open_store
from outlast.store.engine.encode import seal
from outlast.store.log_store import LogStore
from outlast.store.port import Append, Claim, Create, Delete, NewEvent, PutRoute, Receipt, Redact, Release, Write


@pytest.fixture
def store(store_url: str) -> Iterator[LogStore]:
    with open_store(store_url) as store:
        yield store


def new_id() -> str:
    return id_from(os.urandom(16))


def said(text: str) -> NewEvent:
    return NewEvent(event=e.MessageAppended(role=Role.USER, parts=(TextPart(text),)))


def begun(store: LogStore) -> str:
    session_id = new_id()
    store.commit(Create(header=Header(session_id=session_id), events=(NewEvent(event=e.SessionCreated()),)))
    return session_id


def twice(store: LogStore, *writes: Write) -> tuple[list[Receipt], list[Receipt]]:
    """The same sealed commit, run and then run again as after an unknown outcome."""
    commit = seal(writes, compress=store.compress)
    first = store._group.submit(commit)
    commit.rerun = True
    return first, store._group.submit(commit)


def check_same(first: list[Receipt], again: list[Receipt]) -> None:
    for one, two in zip(first, again, strict=True):
        assert two.replayed
        if one.first_seq:
            assert (two.session_id, two.first_seq, two.seq) == (one.session_id, one.first_seq, one.seq)


def test_an_append_is_done_once(store: LogStore) -> None:
    session_id = begun(store)
    check_same(*twice(store, Append(session_id=session_id, events=(said("a"), said("b"), said("c")))))
    assert store.head(session_id).last_seq == 4


def test_an_append_that_others_have_followed_is_done_once(store: LogStore) -> None:
    session_id = begun(store)
    commit = seal((Append(session_id=session_id, events=(said("a"), said("b"))),), compress=store.compress)
    first = store._group.submit(commit)
    for n in range(5):
        store.commit(Append(session_id=session_id, events=(said(str(n)),)))
    commit.rerun = True
    check_same(first, store._group.submit(commit))
    assert store.head(session_id).last_seq == 8


def test_an_append_to_the_tip_is_done_once(store: LogStore) -> None:
    session_id, tip = begun(store), new_id()
    store.commit(*lineage.rotate(store.head(session_id), tip, token="t", holder="h"))
    first, again = twice(store, Append(session_id=session_id, events=(said("a"), said("b")), to_tip=True))
    assert first[0].session_id == tip
    check_same(first, again)
    assert store.head(tip).last_seq == 4


def test_an_append_that_a_rotation_followed_is_done_once(store: LogStore) -> None:
    session_id, tip = begun(store), new_id()
    write = Append(session_id=session_id, events=(said("a"),), to_tip=True)
    commit = seal((write,), compress=store.compress)
    first = store._group.submit(commit)
    store.commit(*lineage.rotate(store.head(session_id), tip, token="t", holder="h"))
    commit.rerun = True
    check_same(first, store._group.submit(commit))
    assert store.head(tip).last_seq == 3


def test_a_create_is_done_once(store: LogStore) -> None:
    created = NewEvent(event=e.SessionCreated())
    check_same(*twice(store, Create(header=Header(session_id=new_id()), events=(created, said("a")))))


def test_a_fork_and_a_rotation_are_done_once(store: LogStore) -> None:
    session_id = begun(store)
    check_same(*twice(store, lineage.fork(store.head(session_id), new_id())))
    check_same(*twice(store, *lineage.rotate(store.head(session_id), new_id(), token="t", holder="h")))


def test_a_commit_of_several_writes_is_done_once(store: LogStore) -> None:
    one, two = begun(store), begun(store)
    writes = (Append(session_id=one, events=(said("a"),)), Append(session_id=two, events=(said("b"), said("c"))))
    check_same(*twice(store, *writes, PutRoute(route=new_id(), session_id=one)))
    assert (store.head(one).last_seq, store.head(two).last_seq) == (2, 3)


def test_a_claim_a_release_and_a_route_may_simply_be_done_again(store: LogStore) -> None:
    session_id = begun(store)
    first, again = twice(store, Claim(session_id=session_id, token="t", holder="h"))
    assert first[0].lease == again[0].lease
    assert first[0].lease is not None
    twice(store, Release(lease=first[0].lease))
    twice(store, PutRoute(route="r", session_id=session_id))
    assert store.head(session_id).epoch == 1


def test_a_redaction_is_done_once(store: LogStore) -> None:
    session_id = begun(store)
    store.commit(Append(session_id=session_id, events=(said("secret"),)))
    twice(store, Redact(session_id=session_id, seq=2, actor="user"))
    assert store.head(session_id).last_seq == 3


def test_a_delete_is_done_once(store: LogStore) -> None:
    session_id = begun(store)
    first, again = twice(store, Delete(session_id=session_id, actor="user"))
    assert first[0].session_id == again[0].session_id == session_id


def test_an_append_that_was_not_done_is_done_when_run_again(store: LogStore) -> None:
    session_id = begun(store)
    commit = seal((Append(session_id=session_id, events=(said("a"),)),), compress=store.compress)
    commit.rerun = True
    assert [receipt.seq for receipt in store._group.submit(commit)] == [2]
