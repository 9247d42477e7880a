"""Single bits, flipped in the checkpointed database: no damage is ever read as if it were none."""

from __future__ import annotations

import os
import random
import re
from pathlib import Path
from typing import Protocol

import pytest

from outlast.core.errors import DamagedSession, OutlastError
from outlast.core.event_row import StoredEvent
from outlast.store import open_store
from outlast.store.log_store import LogStore
from outlast.store.port import Append
from outlast.store.sqlite.setup import PAGE_SIZE
from outlast.store.verify import Finding, salvage, verify
from tests.unit.store.populated import Populated, said

FLIPS = 3_000 if os.environ.get("OUTLAST_SOAK") == "1" else 300


@pytest.fixture
def there(tmp_path: Path) -> Populated:
    return Populated(tmp_path / "a.db")


class Known(Protocol):
    """What every session must read as."""

    truth: dict[str, list[StoredEvent]]


class Outcome:
    """What became of one flip."""

    def __init__(self, there: Known, store: LogStore) -> None:
        self.report = verify(store)
        self.unreadable: set[str] = set()
        for name, truth in there.truth.items():
            self._read(store, name, truth)
            self._salvage(store, name, truth)

    def _read(self, store: LogStore, name: str, truth: list[StoredEvent]) -> None:
        try:
            assert store.read(name) == truth, "read as if it were whole, and is not"
        except OutlastError:
            self.unreadable.add(name)
            assert not self.report.ok, "unreadable, and verify found nothing"

    def _salvage(self, store: LogStore, name: str, truth: list[StoredEvent]) -> None:
        try:
            saved = {event.seq: event for event in salvage(store, name) if not isinstance(event, Finding)}
        except OutlastError:
            assert not self.report.ok
            return
        for event in truth:
            if event.seq in saved:
                assert saved[event.seq] == event, "saved as if it were whole, and is not"
            else:
                assert (event.session_id, event.seq) in self.report.damaged_events, "damaged, and not named"


def flipped(there: Populated, data: bytes, at: int, bit: int) -> Outcome | None:
    """The outcome with one bit changed; None when the store could not be opened, and said so."""
    changed = bytearray(data)
    changed[at] ^= 1 << bit
    for suffix in ("-wal", "-shm"):
        there.path.with_name(there.path.name + suffix).unlink(missing_ok=True)
    there.path.write_bytes(changed)
    try:
        store = open_store(there.url)
    except OutlastError:
        return None
    with store:
        return Outcome(there, store)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_no_flipped_bit_is_read_as_something_else(there: Populated) -> None:
    data = there.path.read_bytes()
    chance = random.Random(20_261_116)
    outcomes = [flipped(there, data, chance.randrange(len(data)), chance.randrange(8)) for _ in range(FLIPS)]
    opened = [outcome for outcome in outcomes if outcome is not None]
    assert len(opened) > 0.95 * FLIPS
    damaged = [outcome for outcome in opened if not outcome.report.ok]
    assert len(damaged) > 0.2 * FLIPS
    # One bit seldom reaches beyond one session: the others stay readable.
    assert sum(len(outcome.unreadable) > 2 for outcome in opened) < 0.03 * FLIPS


def test_every_bit_of_an_event_is_guarded(there: Populated) -> None:
    event = there.truth[there.names["talk"]][3]
    data = there.path.read_bytes()
    body, guarded = len(event.body), 0
    for found in re.finditer(re.escape(event.hash), data):  # unused places may hold old copies
        end = found.start()  # the body lies right before it
        outcomes = [flipped(there, data, at, 0) for at in (end - body, end - body // 2, end - 1, end, end + 31)]
        named = [outcome.report.damaged_events for outcome in outcomes if outcome is not None]
        assert named in ([{(there.names["talk"], 4)}] * 5, [set()] * 5)
        guarded += named[0] != set()
    assert guarded == 1


# --- larger damage


def test_a_truncated_database_is_never_read_as_a_shorter_one(there: Populated) -> None:
    data = there.path.read_bytes()
    for part in (0.9, 0.5, 0.1):
        there.path.write_bytes(data[: int(len(data) * part) // PAGE_SIZE * PAGE_SIZE])
        try:
            store = open_store(there.url)
        except OutlastError:
            continue
        with store:
            assert not Outcome(there, store).report.ok


def test_a_lost_log_gives_an_older_state_that_is_whole(tmp_path: Path) -> None:
    there = Populated(tmp_path / "a.db")
    with open_store(there.url) as store:
        _append(store, there.names["talk"], 5)
        assert store.head(there.names["talk"]).last_seq == 12
        data = there.path.read_bytes()
    (tmp_path / "b.db").write_bytes(data)
    with open_store(f"sqlite:///{tmp_path / 'b.db'}") as store:
        assert Outcome(there, store).report.ok


def test_a_log_of_another_database_never_gives_a_mixture(tmp_path: Path) -> None:
    there, other = Populated(tmp_path / "a.db"), Populated(tmp_path / "b.db")
    with open_store(other.url) as store:
        _append(store, other.names["talk"], 8)
        log = (tmp_path / "b.db-wal").read_bytes()
        written = {event for name in other.truth for event in store.read(name)}
    assert log
    (tmp_path / "a.db-wal").write_bytes(log)
    written |= {event for events in there.truth.values() for event in events}
    try:
        store = open_store(there.url)
    except OutlastError:
        return
    with store:
        for name in {**there.truth, **other.truth}:
            try:
                assert set(store.read(name)) <= written
            except OutlastError:
                continue
        assert not verify(store).ok


def test_a_damaged_page_hides_no_other_session(there: Populated) -> None:
    """A whole page of zeros, page by page: whoever can still be read is whole, and the rest says that it is damaged."""
    data = there.path.read_bytes()
    usable = 0
    for page in range(1, len(data) // PAGE_SIZE):
        there.path.write_bytes(data[: page * PAGE_SIZE] + bytes(PAGE_SIZE) + data[(page + 1) * PAGE_SIZE :])
        try:
            store = open_store(there.url)
        except OutlastError:
            continue
        with store:
            outcome = Outcome(there, store)
            usable += len(outcome.unreadable) < len(there.truth)
    assert usable > 0


def test_damage_is_an_error_of_its_own_kind(there: Populated) -> None:
    there.sql("UPDATE events SET kind = CAST(x'ff' AS TEXT) WHERE id = ?", there.row_id("talk", 4))
    with open_store(there.url) as store, pytest.raises(DamagedSession):
        store.read(there.names["talk"])


def _append(store: LogStore, name: str, messages: int) -> None:
    for number in range(messages):
        store.commit(Append(session_id=name, events=(said(f"later {number} " * 40),)))
