"""Any number of workers on one PostgreSQL: each input is answered once, what has waited longest first."""

from __future__ import annotations

from urllib.request import urlopen

from outlast.core import events as e
from tests.fleet.fleet import Fleet, Worker, bash, reply
from tests.support.prometheus import samples

SESSIONS = 30
WORKERS, AT_ONCE = 3, 2
GO, HERE = "go", "here"


def test_thirty_inputs_are_each_answered_once_oldest_first_and_no_worker_takes_more_than_it_can(fleet: Fleet) -> None:
    here = fleet.project / HERE
    here.touch()
    fleet.says(reply("", bash(f"echo x >> {HERE}; until [ -e {GO} ]; do sleep 0.05; done")), reply("done"))
    names = [fleet.asked() for _ in range(SESSIONS)]
    pool = [fleet.start("--concurrency", str(AT_ONCE), "--metrics-port", "0", lease=10) for _ in range(WORKERS)]
    for worker in pool:
        worker.ready()
    fleet.until(lambda: len(here.read_text().split()) == WORKERS * AT_ONCE)
    first = [name for name in names if fleet.events(name, e.ToolCallStarted)]
    assert first == names[: WORKERS * AT_ONCE], "what has waited longest"
    assert sorted(fleet.driver_of(name).pid for name in first) == sorted([worker.pid for worker in pool] * AT_ONCE)
    assert fleet.store.queue().waiting == SESSIONS - WORKERS * AT_ONCE, "what nobody has a berth for stays in the store"
    (fleet.project / GO).touch()
    fleet.until(fleet.is_idle)
    for name in names:
        rows = fleet.rows(name)
        for kind, count in ((e.TurnStarted, 1), (e.ModelRequested, 2), (e.AssistantReplied, 2), (e.TurnEnded, 1)):
            assert len([event for _, event in rows if isinstance(event, kind)]) == count, f"{kind} in {name}"
        assert {stored.epoch for stored, _ in rows if stored.epoch is not None} == {1}
    fleet.until(lambda: sum(len(worker.logged("turn.ended")) for worker in pool) == SESSIONS)
    for worker in pool:
        assert_told(fleet, worker)


def assert_told(fleet: Fleet, worker: Worker) -> None:
    """Its metrics tell what its log does."""
    ended = len(worker.logged("turn.ended"))
    assert ended >= AT_ONCE

    def found() -> dict[str, float]:
        with urlopen(worker.told["metrics_url"], timeout=10) as answer:  # noqa: S310 - our own
            return samples(answer.read().decode())

    fleet.until(lambda: found()["outlast_turns_running"] == 0)
    told = found()
    assert told['outlast_turns_ended_total{outcome="completed"}'] == told["outlast_claims_total"] == ended
    assert told["outlast_queue_length"] == 0
    assert told["outlast_commit_seconds_count"] >= ended
