"""Servers without a worker, and a worker without a server: said at one, run by the other, followed from all."""

from __future__ import annotations

import threading
from pathlib import Path

from outlast.core import events as e
from tests.fleet.fleet import CANARY, Fleet, reply
from tests.support.http_server import Server
from tests.support.prometheus import samples
from tests.support.sse import StreamClient


class Follower(threading.Thread):
    """Follows a session at one server until its turn has ended. `drafted` once it has seen a part of a reply."""

    def __init__(self, server: Server, session_id: str) -> None:
        super().__init__()
        self._server, self._session_id = server, session_id
        self.client = StreamClient()
        self.drafted = threading.Event()
        self.start()

    def run(self) -> None:
        with (
            self._server.client() as client,
            client.stream("GET", f"/api/sessions/{self._session_id}/stream") as answer,
        ):
            for data in answer.iter_raw():
                self.client.feed(data)
                if self.client.draft:
                    self.drafted.set()
                if "TurnEnded" in self.client.kinds:
                    return


def test_a_message_to_one_server_is_run_by_a_worker_and_followed_live_from_every_server(
    fleet: Fleet, tmp_path: Path
) -> None:
    fleet.says(reply("a long answer " * 400, ms=60_000))
    folder = tmp_path / "shop"
    folder.mkdir()
    fleet.start("--place", f"shop={folder}")
    servers = [
        Server(tmp_path / name, "--no-worker", "--log-format", "json", store=fleet.url, model="local")
        for name in ("one", "other")
    ]
    with servers[0] as one, servers[1] as other:
        fleet.workers[0].ready()
        session_id = one.api("POST", "/api/sessions", json={"place": "shop"})["session_id"]
        assert fleet.store.head(session_id).place == "shop"
        followers = [Follower(server, session_id) for server in (one, other)]
        other.post(session_id, f"please {CANARY}")
        assert all(follower.drafted.wait(30) for follower in followers), "the reply was not seen while it was written"
        one.api("POST", f"/api/sessions/{session_id}/interrupt")
        for follower in followers:
            follower.join(30)
            assert not follower.is_alive()
        stored = [row.kind for row in fleet.store.read(session_id)]
        for follower in followers:
            assert follower.client.kinds == stored[: stored.index("TurnEnded") + 1]
        assert [event.outcome for event in fleet.events(session_id, e.TurnEnded)] == ["interrupted"]
        with one.client() as client:
            found = samples(client.get("/metrics").text)
        assert found["outlast_turns_started_total"] == found["outlast_concurrency"] == 0
        assert one.api("GET", "/api/info")["answers"]
    for server in servers:
        _, errors = server.stop()
        assert CANARY not in errors
