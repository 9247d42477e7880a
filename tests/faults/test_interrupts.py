"""Ctrl-C at a bad moment: the write goes on, and so does everybody else."""

import os
import signal
import threading
from pathlib import Path
from types import FrameType

import pytest

from outlast.store.log_store import LogStore
from outlast.store.sqlite import SqliteStore
from tests.faults.witness import Try, new_id, writes_of


class SlowDown:
    """Holds up the first batch until it is told to go on."""

    def __init__(self, store: LogStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.inside, self.go_on = threading.Event(), threading.Event()
        honest = store._group._run

        def run(batch: list[object]) -> None:
            self.inside.set()
            assert self.go_on.wait(20)
            honest(batch)  # pyright: ignore[reportArgumentType]

        monkeypatch.setattr(store._group, "_run", run)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def test_a_waiting_writer_that_is_interrupted_leaves_the_line_moving(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.signal(signal.SIGUSR1, _interrupt)
    session_id = new_id()
    try:
        with SqliteStore(memory / "log.db") as store:
            store.commit(*writes_of(Try(mark="a", kind="create", session_id=session_id)))
            slow = SlowDown(store, monkeypatch)
            append = writes_of(Try(mark="b", kind="append", session_id=session_id))
            leader = threading.Thread(target=lambda: store.commit(*append))
            leader.start()
            assert slow.inside.wait(20)
            threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGUSR1)).start()
            with pytest.raises(KeyboardInterrupt):
                store.commit(*writes_of(Try(mark="c", kind="append", session_id=session_id)))
            slow.go_on.set()
            leader.join(20)
            done = threading.Thread(
                target=lambda: store.commit(*writes_of(Try(mark="d", kind="append", session_id=session_id))),
                daemon=True,
            )
            done.start()
            done.join(10)
            assert not done.is_alive(), "nobody leads any more"
            assert len(store.read(session_id)) == 5
    finally:
        signal.signal(signal.SIGUSR1, before)
