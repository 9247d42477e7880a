"""A worker that dies is replaced, one that was paused is fenced, one that is told to stop hands over."""

from __future__ import annotations

import signal
from pathlib import Path

from outlast.core import events as e
from outlast.core.messages import text_of
from tests.fleet.fleet import LEASE, Fleet, Worker, bash, reply

WITNESS = "echo ran >> witness; sleep 60; echo late >> witness"


def witnessed(fleet: Fleet) -> tuple[str, Worker, Path]:
    """A session in the middle of a command that leaves a line behind, and the worker that runs it."""
    witness = fleet.project / "witness"
    fleet.says(reply("", bash(WITNESS)), reply("done"))
    session_id = fleet.asked()
    fleet.until(lambda: witness.exists() and witness.read_text())
    return session_id, fleet.driver_of(session_id), witness


def assert_told_once(fleet: Fleet, session_id: str, witness: Path) -> None:
    """The command ran once; the model and the user were told that its outcome is unknown; the turn ended once."""
    assert witness.read_text() == "ran\n"
    [finished] = fleet.events(session_id, e.ToolCallFinished)
    assert (finished.status, "unknown" in text_of(finished.parts)) == ("unknown", True)
    assert len(fleet.events(session_id, e.TurnStarted)) == 1
    [ended] = fleet.events(session_id, e.TurnEnded)
    assert ended.outcome == "completed"
    epochs = [stored.epoch for stored, _ in fleet.rows(session_id) if stored.epoch is not None]
    assert epochs == sorted(epochs)
    assert set(epochs) == {1, 2}


def test_a_killed_worker_is_replaced_in_time_and_its_command_not_run_again(fleet: Fleet) -> None:
    fleet.says()
    fleet.two()
    session_id, driver, witness = witnessed(fleet)
    driver.signal(signal.SIGKILL)
    assert fleet.until(lambda: fleet.store.head(session_id).epoch == 2) <= LEASE + 2
    fleet.until(lambda: fleet.is_answered(session_id))
    assert_told_once(fleet, session_id, witness)
    other = next(worker for worker in fleet.workers if worker is not driver)
    assert [line["session"] for line in other.logged("lease.taken_over")] == [session_id]


def test_a_paused_worker_that_wakes_is_fenced_stops_its_tools_and_says_so_once(fleet: Fleet) -> None:
    fleet.says()
    fleet.two()
    session_id, driver, witness = witnessed(fleet)
    spawned = fleet.events(session_id, e.ToolProcessSpawned)[-1].pid
    driver.signal(signal.SIGSTOP)
    assert fleet.until(lambda: fleet.store.head(session_id).epoch == 2, LEASE + 10) <= LEASE + 2
    fleet.until(lambda: fleet.is_answered(session_id))
    head = fleet.store.head(session_id)
    assert Path(f"/proc/{spawned}").exists(), "the command runs on while its owner sleeps"
    driver.signal(signal.SIGCONT)
    fleet.until(lambda: driver.logged("turn.fenced"))
    fleet.until(lambda: not Path(f"/proc/{spawned}").exists())
    [line] = driver.logged("turn.fenced")
    assert (line["session"], line["level"]) == (session_id, "WARNING")
    assert fleet.store.head(session_id).last_seq == head.last_seq, "it wrote nothing more"
    assert_told_once(fleet, session_id, witness)
    next(worker for worker in fleet.workers if worker is not driver).signal(signal.SIGKILL)
    again = fleet.asked()  # the fenced one is none the worse for it; the script says the rest
    fleet.until(lambda: fleet.events(again, e.ToolProcessSpawned))


def test_a_worker_that_is_told_to_stop_ends_its_turn_and_takes_no_other(fleet: Fleet) -> None:
    fleet.says(reply("slow", ms=1500))
    worker = fleet.worker()
    first = fleet.asked()
    fleet.until(lambda: fleet.events(first, e.ModelRequested))
    worker.signal(signal.SIGTERM)
    fleet.until(lambda: worker.logged("worker.draining"))
    second = fleet.asked()
    assert worker.ended() == 0
    assert [event.outcome for event in fleet.events(first, e.TurnEnded)] == ["completed"]
    assert fleet.store.holder(first) is None
    assert not fleet.events(second, e.TurnStarted)


def test_what_does_not_end_in_time_is_handed_over_and_gone_on_with(fleet: Fleet) -> None:
    fleet.says(reply("slow", ms=60_000))
    leaving, hurried = fleet.worker("--drain-seconds", "0.3"), fleet.start("--drain-seconds", "600")
    session_id = fleet.asked()
    fleet.until(lambda: fleet.events(session_id, e.ModelRequested))
    leaving.signal(signal.SIGTERM)
    assert leaving.ended() == 0
    assert [line["session"] for line in leaving.logged("turn.handed_over")] == [session_id]
    hurried.ready()
    fleet.until(lambda: len(fleet.events(session_id, e.ModelRequested)) == 2)
    hurried.signal(signal.SIGTERM)
    fleet.until(lambda: hurried.logged("worker.draining"))
    hurried.signal(signal.SIGTERM)  # the second one does not wait ten minutes
    assert hurried.ended() == 0
    fleet.says(reply("quick"))
    fleet.worker()
    fleet.until(lambda: fleet.is_answered(session_id))
    assert len(fleet.events(session_id, e.TurnStarted)) == 1
    assert [event.outcome for event in fleet.events(session_id, e.TurnEnded)] == ["completed"]
    assert [event.reason for event in fleet.events(session_id, e.ReplyInterrupted)] == [
        "handed over to another process"
    ] * 2
