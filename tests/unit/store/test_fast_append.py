"""The plain append is the engine's append: the same rows, the same headers, the same refusals, byte for byte."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from outlast.core import events as e
from outlast.core.errors import OutlastError
from outlast.core.header import Header
from outlast.core.ids import id_from
from outlast.core.messages import ReasoningPart, Role, TextPart
from outlast.store.engine import encode, transaction
from outlast.store.engine import fast_append as engine_fast_append
from outlast.store.engine.encode import seal
from outlast.store.engine.fast_append import PlainAppend, plain_append
from outlast.store.files import FilesStore
from outlast.store.files import fast_append as files_fast_append
from outlast.store.group_commit import PendingCommit
from outlast.store.log_store import LogStore
from outlast.store.port import Append, Create, Delete, Lease, NewEvent, Write
from outlast.store.sqlite import SqliteStore, fast_append, rows

SESSIONS = [id_from(bytes([number]) * 16) for number in range(3)]
NOBODY = id_from(b"x" * 16)
TABLES = ("sessions", "events", "keys", "lineage", "chunks", "routes", "blobs", "snapshots")


@contextmanager
def same_clock_and_keys() -> Generator[None]:
    """Every moment and every key made here is the next number."""
    moments, keys = itertools.count(1_700_000_000_000_000, 7), itertools.count(1)

    def key() -> str:
        return f"~key{next(keys)}"

    with pytest.MonkeyPatch.context() as patch:
        for module in (engine_fast_append, encode):
            patch.setattr(module, "own_key", key)
        for module in (engine_fast_append, encode, files_fast_append, transaction, fast_append, rows):
            patch.setattr(module, "now_us", lambda: next(moments))
        yield


def message(text: str, role: Role = Role.USER) -> NewEvent:
    return NewEvent(event=e.MessageAppended(role=role, parts=(TextPart(text),)), actor="user/library")


texts = some.one_of(
    some.text(max_size=80),
    some.text(alphabet=some.characters(exclude_categories=()), max_size=20),  # lone surrogates and NUL too
    some.sampled_from(["", " ", "\n\ttitle", "a" * 4095, "a" * 4096, "\0" * 700, "é" * 3000, "x" * 70_000]),
)
messages = some.builds(message, texts, some.sampled_from(list(Role)))
others = some.sampled_from(
    [
        e.SessionRenamed(title="renamed"),
        e.SessionClosed(),
        e.SessionReopened(),
        e.SessionArchived(),
        e.SessionUnarchived(),
        e.InputAdmitted(parts=(TextPart("asked"),)),
        e.TurnEnded(outcome="done", answered=[1]),
    ]
).map(lambda event: NewEvent(event=event))


def append(session_id: str, new: NewEvent, touch: bool, to_tip: bool) -> Write:
    return Append(session_id=session_id, events=(new,), touch=touch, to_tip=to_tip)


def create(name: str) -> Write:
    return Create(header=Header(session_id=name), events=(NewEvent(event=e.SessionCreated()),))


def delete(name: str) -> Write:
    return Delete(session_id=name, actor="user/library")


appends = some.builds(
    append,
    some.sampled_from([*SESSIONS, NOBODY, "no id", "ü" * 26]),
    some.one_of(messages, messages, messages, others),
    some.booleans(),
    some.booleans(),
)
creates, deletes = (some.builds(make, some.sampled_from(SESSIONS)) for make in (create, delete))
writes = some.one_of(appends, appends, appends, appends, creates, deletes)
batches = some.lists(some.lists(writes, min_size=1, max_size=4), min_size=1, max_size=12)


class Outcome:
    """What a store said to each commit, and what then lies on its disk."""

    def __init__(self, kind: str, batches: Sequence[Sequence[Write]], *, knows_plain: bool) -> None:
        self.said: list[str] = []
        self.plain = 0
        with TemporaryDirectory() as folder, same_clock_and_keys():
            place = Path(folder) / "log"
            store = SqliteStore(place) if kind == "sqlite" else FilesStore(place)
            store.knows_plain = knows_plain
            for name in SESSIONS[:2]:
                store.commit(create(name))
            for batch in batches:
                self._run(store, batch)
            store.close()
            self.rows = tables_of(place) if kind == "sqlite" else segments_of(place)

    def _run(self, store: LogStore, batch: Sequence[Write]) -> None:
        entries: list[PendingCommit] = []
        for write in batch:
            try:
                entries.append(PendingCommit(store._seal((write,))))
            except OutlastError as error:
                self.said.append(repr(error))
        self.plain += sum(isinstance(entry.commit, PlainAppend) for entry in entries)
        if entries:
            store._run(entries)
        self.said += [repr(entry.error or entry.receipts) for entry in entries]


def segments_of(folder: Path) -> dict[str, list[Any]]:
    return {path.name: path.read_bytes().splitlines() for path in sorted(folder.glob("*.jsonl"))}


def tables_of(path: Path) -> dict[str, list[Any]]:
    connection = apsw.Connection(str(path))
    try:
        return {name: connection.execute(QUERIES[name]).fetchall() for name in TABLES}
    finally:
        connection.close()


QUERIES = {
    "sessions": "SELECT * FROM sessions ORDER BY sid",
    "events": "SELECT * FROM events ORDER BY id",
    "keys": "SELECT * FROM keys ORDER BY scope, key",
    "lineage": "SELECT * FROM lineage ORDER BY root_id",
    "chunks": "SELECT * FROM chunks ORDER BY id",
    "routes": "SELECT * FROM routes ORDER BY route",
    "blobs": "SELECT sid, sha256, chunk, data FROM blobs ORDER BY sid, sha256, chunk",
    "snapshots": "SELECT * FROM snapshots ORDER BY sid, seq",
}


@pytest.mark.parametrize("kind", ["sqlite", "files"])
@given(batches=batches)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_store_that_knows_plain_appends_holds_the_same_bytes_as_one_that_does_not(
    kind: str, batches: list[list[Write]]
) -> None:
    short, long = Outcome(kind, batches, knows_plain=True), Outcome(kind, batches, knows_plain=False)
    assert long.plain == 0
    assert short.said == long.said
    assert short.rows == long.rows


def test_an_ordinary_conversation_is_made_of_plain_appends() -> None:
    said = [[Append(session_id=SESSIONS[0], events=(message(f"{number} words"),))] for number in range(20)]
    outcome = Outcome("sqlite", said, knows_plain=True)
    assert outcome.plain == 20
    assert len(outcome.rows["events"]) == 22


@given(text=texts, role=some.sampled_from(list(Role)), touch=some.booleans())
@settings(deadline=None)
def test_what_a_plain_append_says_when_asked_is_what_sealing_says(text: str, role: Role, touch: bool) -> None:
    write = Append(session_id=SESSIONS[0], events=(message(text, role),), touch=touch)
    with same_clock_and_keys():
        short = plain_append(write)
    if short is None:
        return
    with same_clock_and_keys():
        [long] = seal((write,), compress=True).writes
    [made] = short.writes
    assert made.events == long.events
    assert (made.key, made.own_key, made.size, made.digest) == (long.key, long.own_key, long.size, long.digest)
    assert (short.key, short.size) == (long.key, long.size)
    assert short.hash_after(b"p" * 32, 9) == long.events[0].row(SESSIONS[0], 9, None, b"p" * 32).hash


@pytest.mark.parametrize(
    "write",
    [
        Append(session_id=SESSIONS[0], events=(message("a"), message("b"))),
        Append(session_id=SESSIONS[0], events=(message("a"),), key="k"),
        Append(session_id=SESSIONS[0], events=(message("a"),), expect=1),
        Append(session_id=SESSIONS[0], events=(message("a"),), scope="s"),
        Append(session_id=SESSIONS[0], events=(message("a"),), lease=Lease(SESSIONS[0], 1, "t")),
        Append(session_id=SESSIONS[0], events=(NewEvent(event=e.InputAdmitted(parts=(TextPart("a"),))),)),
        Append(session_id=SESSIONS[0], events=(NewEvent(event=message("a").event, turn="t"),)),
        Append(session_id=SESSIONS[0], events=(NewEvent(event=message("a").event, at=1),)),
        Append(session_id=SESSIONS[0], events=(NewEvent(event=message("a").event, actor="\0"),)),
        Append(session_id="short", events=(message("a"),)),
        Append(session_id=SESSIONS[0], events=(message("a" * 4096),)),
        Append(session_id=SESSIONS[0], events=(message("\ud800"),)),
        Append(
            session_id=SESSIONS[0],
            events=(NewEvent(event=e.MessageAppended(role=Role.ASSISTANT, parts=(ReasoningPart(text="a"),))),),
        ),
        Delete(session_id=SESSIONS[0], actor="user/library"),
    ],
)
def test_whatever_asks_for_more_is_left_to_the_engine(write: Write) -> None:
    assert plain_append(write) is None
