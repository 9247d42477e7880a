"""The append in SQL does what the engine and the header's fold do in Python, and one refusal hurts nobody else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.core.errors import (
    ConflictError,
    KeyUsed,
    OutlastError,
    SessionDeleted,
    SessionEnded,
    SessionNotFound,
    StaleLease,
)
from outlast.core.events import ModelRequested, ReplyInterrupted, SessionRotated, TurnStarted
from outlast.core.events import SessionClosed as Ended
from outlast.core.header import Header, apply
from outlast.store.engine.commit import AFTER_ROTATION, AFTER_THE_END
from outlast.store.engine.encode import EncodedWrite, seal
from outlast.store.engine.transaction import HeaderRow
from outlast.store.group_commit import PendingCommit
from outlast.store.port import Append, Claim, Delete, Lease, NewEvent, PutChunk, Receipt, Write
from outlast.store.postgres import PostgresStore
from outlast.store.postgres.append_function import MOST_EVENTS, is_plain
from tests.integration.postgres.builders import message, new_id, opened, said, started
from tests.support import strategies
from tests.support.pg import PgServer

NOT_COMPARED = ("updated_at", "head_hash")


@pytest.fixture(scope="module")
def store(pg_server: PgServer) -> Iterator[PostgresStore]:
    url = pg_server.create_database()
    with opened(url) as store:
        yield store
    pg_server.drop_database(url)


def outcomes(store: PostgresStore, *writes: Write) -> list[Receipt | OutlastError]:
    """Each write as its own commit, all of them in one batch."""
    batch = [PendingCommit(seal((write,), compress=True)) for write in writes]
    store._run(batch)
    told: list[Receipt | OutlastError] = []
    for entry in batch:
        assert entry.decided
        assert entry.error is None or isinstance(entry.error, OutlastError)
        told.append(entry.error if entry.error is not None else entry.outcome()[0])
    return told


# --- the same sums

_turns = st.one_of(st.none(), st.sampled_from(["t1", "t2", "ü"]))
_ats = st.integers(min_value=-(2**62), max_value=2**62)
_news = st.builds(
    NewEvent, event=strategies.events(), turn=_turns, at=_ats, actor=st.sampled_from(["user", "model/cli"])
)
_appends = st.lists(st.tuples(st.lists(_news, min_size=1, max_size=3), st.booleans()), min_size=1, max_size=6)


@settings(max_examples=80)
@given(_appends, st.booleans())
def test_the_header_is_the_one_that_python_adds_up(
    store: PostgresStore, appends: list[tuple[list[NewEvent], bool]], together: bool
) -> None:
    """For appends that come together, and for those that come alone: these are two functions in SQL."""
    session_id = started(store)
    if not together:
        appends = [([event], touch) for events, touch in appends for event in events]
    writes = [Append(session_id=session_id, events=tuple(events), touch=touch) for events, touch in appends]
    expected = store.head(session_id)
    seals = [seal((write,), compress=True).writes[0] for write in writes]
    written = [_folded(expected, sealed, write.touch) for sealed, write in zip(seals, writes, strict=True)]

    told = outcomes(store, *writes) if together else [outcomes(store, write)[0] for write in writes]
    for outcome, seq in zip(told, written, strict=True):
        if isinstance(outcome, Receipt):
            assert outcome.seq == seq
        else:
            assert seq is None
            assert isinstance(outcome, SessionEnded)
    assert compared(store.head(session_id)) == compared(expected)
    assert [event.seq for event in store.read(session_id)] == list(range(1, expected.last_seq + 1))
    with store.inspect() as view:
        assert list(view.checks(deep=False)) == []


def _folded(header: Header, sealed: EncodedWrite, touch: bool) -> int | None:
    """Add the append to the header as the engine would; its last seq, or None where it would be refused."""
    kinds = {event.kind for event in sealed.events}
    if (header.rotated_to and not kinds <= AFTER_ROTATION) or (header.has_ended and not kinds <= AFTER_THE_END):
        return None
    for event in sealed.events:
        apply(header, event.delta, seq=header.last_seq + 1, at=event.at, now=0, touch=touch)
    return header.last_seq


def compared(header: Header) -> dict[str, Any]:
    names = [name for name in Header.__struct_fields__ if name not in NOT_COMPARED]
    return {name: getattr(header, name) for name in names}


@pytest.mark.parametrize("touch", [True, False])
def test_updated_at_moves_unless_the_writer_says_otherwise(store: PostgresStore, touch: bool) -> None:
    session_id = started(store)
    before = store.head(session_id).updated_at
    store.commit(Append(session_id=session_id, events=(said("a"), said("b")), touch=touch))
    assert (store.head(session_id).updated_at > before) is touch


def test_every_column_of_a_session_is_a_field_of_its_header(pg_server: PgServer, store: PostgresStore) -> None:
    found = store._writer.settle(
        lambda link, _: link.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = 'outlast' "
            "AND table_name = 'sessions' ORDER BY ordinal_position"
        ).fetchall()
    )
    assert sorted(name for (name,) in found) == sorted((*HeaderRow.__struct_fields__, "activity"))


# --- one refusal hurts nobody else


def test_in_one_batch_each_append_is_decided_on_its_own(store: PostgresStore) -> None:
    good, gone, over, driven, ahead, rotated = (started(store) for _ in range(6))
    absent = new_id()
    store.commit(Delete(session_id=gone, actor="user"))
    store.commit(Append(session_id=over, events=(NewEvent(event=Ended()),)))
    store.commit(Append(session_id=rotated, events=(NewEvent(event=SessionRotated(to_session_id=good)),)))
    lease = store.commit(Claim(session_id=driven, token="t", holder="h"))[0].lease
    assert lease is not None
    first = store.commit(message(good, "once", key="k"))[0]

    told = outcomes(
        store,
        message(good, "a"),
        message(absent, "b"),
        message(gone, "c"),
        message(over, "d"),
        message(driven, "e", lease=Lease(driven, lease.epoch, "stolen")),
        message(driven, "f", lease=Lease(driven, lease.epoch + 1, "t")),
        message(driven, "g", lease=lease),
        message(driven, "h", lease=Lease(driven, 0, "t")),
        message(driven, "i"),
        message(ahead, "j", expect=7),
        message(ahead, "k", expect=1),
        message(rotated, "l"),
        message(good, "once", key="k"),
        message(good, "other", key="k"),
        message(good, "m"),
    )

    kinds = [type(outcome) for outcome in told]
    assert kinds == [
        Receipt,
        SessionNotFound,
        SessionDeleted,
        SessionEnded,
        StaleLease,
        StaleLease,
        Receipt,
        Receipt,
        Receipt,
        ConflictError,
        Receipt,
        SessionEnded,
        Receipt,
        KeyUsed,
        Receipt,
    ]
    again = told[12]
    assert isinstance(again, Receipt)
    assert (again.seq, again.replayed) == (first.seq, True)
    assert [event.epoch for event in store.read(driven)] == [None, lease.epoch, lease.epoch, None]
    assert [event.seq for event in store.read(good)] == [1, 2, 3, 4]


def test_a_key_counts_once_also_within_a_batch(store: PostgresStore) -> None:
    one, two = started(store), started(store)
    writes = [message(session_id, "same", key="k", scope="chat") for session_id in (one, two, one, two)]
    told = outcomes(store, *writes)
    assert [outcome.replayed for outcome in told if isinstance(outcome, Receipt)].count(False) == 1
    assert len({(outcome.session_id, outcome.seq) for outcome in told if isinstance(outcome, Receipt)}) == 1
    assert store.head(one).last_seq + store.head(two).last_seq == 3


def test_an_append_that_cannot_be_stored_fails_alone(store: PostgresStore) -> None:
    """A sum over 64 bits is the server's to refuse; it must not take the batch with it."""
    from outlast.core.events import UsageRecorded
    from outlast.core.messages import Usage

    session_id, other = started(store), started(store)
    spent = NewEvent(event=UsageRecorded(usage=Usage(input_tokens=2**63 - 1)))
    writes = [Append(session_id=session_id, events=(spent,)) for _ in range(2)]
    told = outcomes(store, *writes, message(other, "unharmed"))
    assert [type(outcome).__name__ for outcome in told] == ["Receipt", "InvalidInput", "Receipt"]


def test_a_session_made_in_a_batch_takes_what_follows_in_it(store: PostgresStore) -> None:
    from outlast.core.events import SessionCreated
    from outlast.store.port import Create

    session_id = new_id()
    other = started(store)
    told = outcomes(
        store,
        message(other, "first"),
        Create(header=Header(session_id=session_id), events=(NewEvent(event=SessionCreated()),)),
        message(session_id, "second"),
        message(other, "third"),
        Delete(session_id=session_id, actor="user"),
    )
    assert [type(outcome) for outcome in told] == [Receipt] * 5
    with pytest.raises(SessionDeleted):
        store.head(session_id)


def test_the_event_that_closes_an_attempt_drops_its_draft(store: PostgresStore) -> None:
    session_id = started(store)
    lease = store.commit(Claim(session_id=session_id, token="t", holder="h"))[0].lease
    assert lease is not None
    store.commit(
        Append(
            session_id=session_id,
            lease=lease,
            events=(NewEvent(event=TurnStarted(), turn="t"), NewEvent(event=ModelRequested(model="m"))),
        )
    )
    store.commit(PutChunk(lease=lease, attempt_seq=3, n=1, part="text", data=b"dra"))
    [batch] = list(store.follow(session_id, after=3, timeout=0))
    assert batch.chunks[0].data == b"dra"
    closing = Append(session_id=session_id, lease=lease, events=(NewEvent(event=ReplyInterrupted(attempt_seq=3)),))
    assert is_plain(seal((closing,), compress=True))
    store.commit(closing)
    assert list(store.follow(session_id, after=4, timeout=0)) == []


@pytest.mark.parametrize("count", [1, 2, MOST_EVENTS, MOST_EVENTS + 1, 40])
def test_appends_of_any_length_are_gapless_and_verify(store: PostgresStore, count: int) -> None:
    session_id = started(store)
    receipt = store.commit(Append(session_id=session_id, events=tuple(said(str(n)) for n in range(count)), key="k"))[0]
    assert (receipt.first_seq, receipt.seq) == (2, count + 1)
    assert [event.seq for event in store.read(session_id)] == list(range(1, count + 2))
    again = store.commit(Append(session_id=session_id, events=tuple(said(str(n)) for n in range(count)), key="k"))[0]
    assert (again.first_seq, again.seq, again.replayed) == (2, count + 1, True)


def test_keys_that_were_made_here_are_stored_too(store: PostgresStore) -> None:
    session_id = started(store)
    store.commit(message(session_id, "a"))
    store.commit(message(session_id, "b"), message(session_id, "c"))
    with store.inspect() as view:
        assert sorted(key.row.seq for key in view.keys_of([session_id])) == [1, 2, 3, 4]
