"""A worker on a machine that is cut off from PostgreSQL is replaced, and fenced when the cable is back."""

from __future__ import annotations

from pathlib import Path

from outlast.core import events as e
from tests.fleet.fleet import LEASE, Fleet
from tests.fleet.hosts import hosts
from tests.fleet.test_deaths import assert_told_once, witnessed
from tests.support.pg import PgServer


def test_a_worker_cut_off_for_longer_than_its_lease_is_replaced_and_fenced(tmp_path: Path) -> None:
    with hosts(2) as machines:
        server = PgServer(listen_addresses=",".join(machine.server for machine in machines))
        try:
            with (server.data / "pg_hba.conf").open("a") as rules:
                rules.write("host all all 10.0.0.0/8 trust\n")
            server._run("pg_ctl", "reload", "-s")
            with Fleet(server.create_database(), tmp_path) as fleet:
                fleet.says()
                name = fleet.url.split("/")[3].split("?")[0]
                for machine in machines:
                    url = f"postgresql://postgres@{machine.server}/{name}"
                    fleet.start(url=url, before=machine.inside)
                for worker in fleet.workers:
                    worker.ready()
                session_id, driver, witness = witnessed(fleet)
                machine = machines[fleet.workers.index(driver)]
                spawned = fleet.events(session_id, e.ToolProcessSpawned)[-1].pid
                machine.pull()
                assert fleet.until(lambda: fleet.store.head(session_id).epoch == 2) <= LEASE + 2
                fleet.until(lambda: fleet.is_answered(session_id))
                head = fleet.store.head(session_id)
                assert not driver.logged("turn.fenced"), "it cannot know yet"
                machine.plug()
                fleet.until(lambda: driver.logged("turn.fenced"))
                fleet.until(lambda: not Path(f"/proc/{spawned}").exists())
                assert fleet.store.head(session_id).last_seq == head.last_seq
                assert_told_once(fleet, session_id, witness)
        finally:
            server.close()
