"""When the power goes, the disk has what was synced and anything of the rest; the store has all it acknowledged."""

import contextlib
import random
import shutil
from pathlib import Path

import apsw
import pytest

from outlast.core.errors import OutcomeUnknown, OutlastError, StoreUnavailable
from outlast.store.port import Query
from outlast.store.sqlite import SqliteStore, connections, setup
from tests.faults.disk import Done, Recorder, disk, survivors
from tests.faults.witness import Notebook, Writer, notes_from, problems

CUTS = 200
STEPS = 40


@pytest.fixture(autouse=True)
def _small_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints, passive and forced, after a few commits instead of a few thousand."""
    monkeypatch.setattr(connections, "CHECKPOINT_PAGES", 40)
    monkeypatch.setattr(connections, "FORCED_PAGES", 150)


def recorded(folder: Path, seed: int, *, sessions_of_work: int = 3) -> list[Done]:
    """Everything that a writer's life does to the disk: create, write, close, open again, write on."""
    recorder = Recorder("recorder")
    known: list[str] = []
    with disk(recorder, "recorder"):
        for number in range(sessions_of_work):
            store = SqliteStore(folder / "log.db")
            writer = Writer(store, Notebook(recorder.note), known, f"{seed}-{number}", seed + number)
            for _ in range(STEPS):
                writer.step()
            store.close()
    return recorder.trace


def recorded_with_failing_syncs(folder: Path, seed: int) -> list[Done]:
    """The same on a disk whose syncs fail now and then, and processes that end without a farewell."""
    chance = random.Random(seed)
    healthy = [True]
    recorder = Recorder("recorder", lambda: not healthy[0] and chance.random() < 0.8)
    known: list[str] = []
    with disk(recorder, "recorder"):
        for number in range(6):
            store = SqliteStore(folder / "log.db")
            writer = Writer(store, Notebook(recorder.note), known, f"{seed}-{number}", seed + number)
            for _ in range(12):
                healthy[0] = chance.random() < 0.7
                with contextlib.suppress(OutcomeUnknown, StoreUnavailable):
                    writer.step()
            healthy[0] = chance.random() < 0.5
            abandon(store) if chance.random() < 0.7 else store.close()
            healthy[0] = True
            with SqliteStore(folder / "log.db") as reader:  # whoever only reads recovers too, and closes last
                reader.find(Query())
    return recorder.trace


def abandon(store: SqliteStore) -> None:
    """End it as a kill would: no checkpoint, the log stays as it is, and the next one recovers it."""
    for connection in (store._database.writer, *store._database._readers):
        with contextlib.suppress(apsw.ConnectionClosedError):  # it could not be opened anew yet
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    store.close()


def losses(trace: list[Done], cuts: list[int], folder: Path, seed: int) -> list[str]:
    found: list[str] = []
    for number, (files, lines) in enumerate(survivors(trace, cuts, random.Random(seed))):
        place = folder / f"cut-{number}"
        place.mkdir()
        for name, content in files.items():
            (place / name).write_bytes(content)
        found += [
            f"cut {number} at {sorted(cuts)[number]}: {text}" for text in after_reopening(place / "log.db", lines)
        ]
        shutil.rmtree(place)
    return found


def after_reopening(path: Path, lines: list[bytes]) -> list[str]:
    try:
        with SqliteStore(path) as store:
            whole = store._database.writer.pragma("integrity_check")
            return [*problems(store, notes_from(lines)), *([] if whole == "ok" else [f"integrity: {whole}"])]
    except (OutlastError, apsw.Error) as error:
        return [f"cannot be opened: {error}"]


def cut(folder: Path, cuts: int, seed: int) -> list[str]:
    trace = recorded(folder / "whole", seed)
    assert {done.what for done in trace} == {"write", "sync", "truncate", "delete", "note"}
    chance = random.Random(seed)
    return losses(trace, [chance.randrange(len(trace) + 1) for _ in range(cuts)], folder, seed)


def test_a_power_cut_at_any_point_loses_nothing_acknowledged(memory: Path) -> None:
    seed = random.SystemRandom().randrange(2**31)
    assert cut(memory, CUTS, seed) == [], f"seed {seed}"


def test_a_power_cut_after_failed_syncs_loses_nothing_acknowledged(memory: Path) -> None:
    seed = random.SystemRandom().randrange(2**31)
    for number in range(4):
        trace = recorded_with_failing_syncs(memory / f"whole-{number}", seed + number)
        assert any(done.what == "failed" for done in trace)
        chance = random.Random(seed)
        cuts = [chance.randrange(len(trace) + 1) for _ in range(50)]
        assert losses(trace, cuts, memory, seed) == [], f"seed {seed + number}"


def test_a_reader_does_not_move_what_was_never_synced_into_the_database(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It sees what a failed sync left in the log, it is the last to close, and the power goes while it does."""
    monkeypatch.setattr(connections, "CHECKPOINT_PAGES", 10_000)
    healthy = [True]
    recorder = Recorder("recorder", lambda: not healthy[0])
    with disk(recorder, "recorder"):
        store = SqliteStore(memory / "whole" / "log.db")
        writer = Writer(store, Notebook(recorder.note), [], "w", 3)
        for _ in range(12):
            writer.step()
        store._database.writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        writer.append()
        healthy[0] = False
        with pytest.raises(OutcomeUnknown):
            writer.fork()  # other pages than those that are in the log already
        abandon(store)
        healthy[0], before = True, len(recorder.trace)
        with SqliteStore(memory / "whole" / "log.db") as reader:
            assert len(reader.find(Query()).headers) == len(writer.sessions) + 1  # it came back
    for seed in range(3):
        assert losses(recorder.trace, list(range(before, len(recorder.trace) + 1)), memory, seed) == []


@pytest.mark.soak
def test_10000_power_cuts_lose_nothing_acknowledged(memory: Path) -> None:
    for seed in range(50):
        assert cut(memory, CUTS, seed) == [], f"seed {seed}"
        shutil.rmtree(memory / "whole")


@pytest.mark.parametrize("mode", ["NORMAL", "OFF"])
def test_the_check_finds_what_a_store_that_does_not_sync_loses(
    memory: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    honest = setup.connect

    def careless(path: Path) -> apsw.Connection:
        connection = honest(path)
        connection.pragma("synchronous", mode)
        return connection

    with monkeypatch.context() as patch:
        patch.setattr(setup, "connect", careless)
        trace = recorded(memory / "whole", 7)
    chance = random.Random(7)
    cuts = [chance.randrange(len(trace) + 1) for _ in range(50)]
    assert [text for text in losses(trace, cuts, memory, 7) if "acknowledged" in text or "not listed" in text]
