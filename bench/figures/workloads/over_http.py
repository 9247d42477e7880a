"""Lists and whole sessions over HTTP, among many: against the same SQL behind the least of servers."""

from __future__ import annotations

import http.client
import itertools
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from bench import CHECKOUT
from bench.figures.bare.sqlite import BareSqlite
from bench.figures.figure import Figure, ratio
from bench.figures.lab import Lab
from bench.figures.messages import message
from bench.figures.serving import Serving
from bench.figures.turns import Work, in_turns
from outlast.session import ConversationSession
from outlast.store import open_store

SESSIONS, IN_SESSION, SHOWN = 10_000, 100, 50
BARE = "the same SQL behind a bare ASGI server"


def list_and_open(lab: Lab, kind: str) -> Iterator[Figure]:
    many = lab.count(SESSIONS, 20)
    url, database = lab.url(kind), lab.folder() / "bare.db"
    names = _filled(url, many)
    with closing(BareSqlite(database)) as bare:
        bare.fill_sessions(names)
        bare.fill_messages(names, IN_SESSION)
    told, count = f"{many:,} sessions and {many * IN_SESSION:,} messages", lab.count(200, 5)
    with (
        _bare_server(database) as port,
        Serving(url, lab.folder()) as server,
        closing(_Client(port, "")) as limit,
        closing(_Client(server.port, server.token)) as ours,
    ):
        for name, title, work in (
            ("http-list", f"list {SHOWN} over HTTP among {told}", _listing),
            ("http-open", f"open a session over HTTP among {told}", _opening(names)),
        ):
            rounds = in_turns(lab.rounds, count, work(limit), work(ours), per=1e3, piece=10)
            yield ratio(name, title, BARE, rounds, measured_in="ms", goal=3.0)


def _filled(url: str, many: int) -> list[str]:
    names: list[str] = []
    with open_store(url) as store:
        for _ in range(many):
            session = ConversationSession(store=store)
            session.extend([message() for _ in range(IN_SESSION)])
            names.append(session.session_id)
    return names


@contextmanager
def _bare_server(database: Path) -> Generator[int]:
    command = [sys.executable, "-m", "bench.figures.bare.http", str(database)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=CHECKOUT)
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


class _Client:
    """One connection that stays open."""

    def __init__(self, port: int, token: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def ask(self, path: str) -> None:
        self._connection.request("GET", path, headers=self._headers)
        answer = self._connection.getresponse()
        body = answer.read()
        assert answer.status == 200, (answer.status, body[:200])

    def close(self) -> None:
        self._connection.close()


def _listing(client: _Client) -> Work:
    def some(count: int) -> None:
        for _ in range(count):
            client.ask(f"/api/sessions?limit={SHOWN}")

    return some


def _opening(names: list[str]) -> Callable[[_Client], Work]:
    def of(client: _Client) -> Work:
        numbers = itertools.count()  # each time others, of all

        def some(count: int) -> None:
            for number in itertools.islice(numbers, count):
                client.ask(f"/api/sessions/{names[number * 7919 % len(names)]}")

        return some

    return of
