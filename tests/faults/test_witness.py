"""The check must be able to fail: a store that lost, doubled or changed something does not pass it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.store.port import Delete
from outlast.store.sqlite import SqliteStore
from tests.faults.witness import Ack, Held, Note, Piece, Try, new_id, problems, writes_of


@pytest.fixture
def store(memory: Path) -> Iterator[SqliteStore]:
    with SqliteStore(memory / "log.db") as store:
        yield store


@pytest.fixture
def notes(store: SqliteStore) -> list[Note]:
    """A session with a few acknowledged events, and nothing wrong."""
    session_id, found = new_id(), list[Note]()
    for number in range(4):
        tried = Try(mark=f"m{number}", kind="append" if number else "create", session_id=session_id)
        seq = store.commit(*writes_of(tried))[0].seq
        found += [tried, Ack(mark=tried.mark, session_id=session_id, first_seq=seq, seq=seq)]
    assert problems(store, found) == []
    return found


def changed(store: SqliteStore, statement: str) -> None:
    store._database.writer.execute(statement)


def session_of(notes: list[Note]) -> str:
    return next(note.session_id for note in notes if isinstance(note, Ack))


def test_an_acknowledged_write_that_is_not_there_is_found(store: SqliteStore, notes: list[Note]) -> None:
    ghost = Ack(mark="ghost", session_id=session_of(notes), first_seq=6, seq=6)
    assert any("acknowledged" in text for text in problems(store, [*notes, ghost]))


def test_a_write_that_is_there_twice_is_found(store: SqliteStore, notes: list[Note]) -> None:
    store.commit(*writes_of(Try(mark="m2", kind="append", session_id=session_of(notes))))
    assert any("more than once" in text for text in problems(store, notes))


def test_a_deleted_row_a_changed_byte_and_a_wrong_header_are_found(store: SqliteStore, notes: list[Note]) -> None:
    changed(store, "UPDATE events SET at = at + 1 WHERE id & 4294967295 = 3")
    assert any("cannot be read" in text for text in problems(store, notes))
    changed(store, "UPDATE events SET at = at - 1 WHERE id & 4294967295 = 3")
    assert problems(store, notes) == []
    changed(store, "DELETE FROM events WHERE id & 4294967295 = 3")
    assert any("cannot be read" in text for text in problems(store, notes))


def test_a_session_that_is_gone_is_found(store: SqliteStore, notes: list[Note]) -> None:
    store.commit(Delete(session_id=session_of(notes), actor="user"))
    assert any("not listed" in text for text in problems(store, notes))


def test_a_lost_draft_and_a_lost_lease_are_found(store: SqliteStore, notes: list[Note]) -> None:
    session_id = session_of(notes)
    found = problems(
        store, [*notes, Held(session_id=session_id, epoch=9), Piece(session_id=session_id, attempt_seq=5, n=1)]
    )
    assert any("epoch went back" in text for text in found)
    assert any("draft" in text for text in found)
