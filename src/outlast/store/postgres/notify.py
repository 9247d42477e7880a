"""Change hints between processes over NOTIFY and LISTEN.

A hint names the changed sessions and says whether there may be work. It is sent after the commit, on a separate
connection, at most every 20 ms however much is written (inside the commit it would halve the throughput). Hints may be
lost: followers also poll once a second. After a reconnect the listener first listens and then wakes all local waiters,
so that no change is missed in between.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Collection
from typing import Protocol

import msgspec
import psycopg

from outlast.core.errors import OutlastError
from outlast.store.postgres.connection import PostgresConnection
from outlast.store.postgres.dsn import PostgresAddress

BETWEEN_SECONDS = 0.02
RECONNECT_SECONDS = 1.0
NAME = "SET application_name = 'outlast wake-ups'"
LISTEN = "LISTEN outlast"
# A hint need not survive a power cut, so it does not wait for the disk.
NOTIFY = "SELECT set_config('synchronous_commit', 'off', true), pg_notify('outlast', %s)"
MOST_NAMED = 200
"""A payload must stay below 8,000 bytes; a hint about more sessions than this is sent as one about all of them."""
EVERYBODY, WORK, NO_WORK = "*", "w", "-"


class RingListener(Protocol):
    def __call__(self, sessions: Collection[str] | None = None, *, work: bool = True) -> None: ...


class ChangeHint(msgspec.Struct):
    """Changes collected until they are sent or passed on. `sessions` is None for all sessions."""

    sessions: set[str] | None = msgspec.field(default_factory=set[str])
    work: bool = False

    def add(self, sessions: Collection[str] | None, work: bool) -> None:
        self.work = self.work or work
        if sessions is None or self.sessions is None or len(self.sessions) > MOST_NAMED:
            self.sessions = None
        else:
            self.sessions.update(sessions)

    def text(self) -> str:
        named = EVERYBODY if self.sessions is None or len(self.sessions) > MOST_NAMED else ",".join(self.sessions)
        return (WORK if self.work else NO_WORK) + named

    def add_text(self, text: str) -> None:
        """Add a received hint; an unknown format, perhaps from an older version, means all sessions."""
        known = text[:1] in (WORK, NO_WORK) and text[1:] != EVERYBODY
        self.add(text[1:].split(",") if known else None, text[:1] != NO_WORK)


class NotifyConnection:
    def __init__(self, address: PostgresAddress, ring: RingListener) -> None:
        self._address = address
        self._ring = ring
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        self._mutex = threading.Lock()
        self._thread: threading.Thread | None = None
        self._link: PostgresConnection | None = None
        self._news: ChangeHint | None = None
        self._heard: ChangeHint | None = None
        self._closed = False
        self._sent_at = 0.0

    def announce(self, sessions: Collection[str] | None = None, *, work: bool = True) -> None:
        """Schedule a hint to other processes. Does not block on the network."""
        with self._mutex:
            is_new, self._news = self._news is None, self._news or ChangeHint()
            self._news.add(sessions, work)
        if is_new:
            self.listen()
            os.write(self._wake_write, b"!")

    def listen(self) -> None:
        if self._thread is None:
            with self._mutex:
                if self._thread is None and not self._closed:
                    self._thread = threading.Thread(target=self._work, name="outlast-notify", daemon=True)
                    self._thread.start()

    def close(self) -> None:
        """Send the hints still pending, then stop."""
        with self._mutex:
            self._closed = True
            thread = self._thread
        if thread is not None:
            os.write(self._wake_write, b".")
            thread.join()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _work(self) -> None:
        while True:
            try:
                self._serve(self._connected())
            except (psycopg.Error, OutlastError):
                self._hang_up()
            if self._closed:
                self._hang_up()
                return
            self._pause(RECONNECT_SECONDS)

    def _connected(self) -> PostgresConnection:
        self._link = link = PostgresConnection.to(self._address)
        link.execute(NAME)
        link.add_notify_handler(self._told)
        link.execute(LISTEN)
        self._ring()
        return link

    def _serve(self, link: PostgresConnection) -> None:
        """Send our hints and pass on those of other processes, until closed."""
        ready = select.poll()
        ready.register(link.pgconn.socket, select.POLLIN)
        ready.register(self._wake_read, select.POLLIN)
        while True:
            pause = self._sent_at + BETWEEN_SECONDS - time.monotonic()
            if self._news is not None and (pause <= 0 or self._closed):
                self._send(link)
            elif self._closed:
                return
            else:
                told = [fd for fd, _ in ready.poll(pause * 1000 if self._news is not None else None)]
                if self._wake_read in told:
                    os.read(self._wake_read, 512)
            self._hear(link)

    def _send(self, link: PostgresConnection) -> None:
        with self._mutex:
            news, self._news = self._news, None
        self._sent_at = time.monotonic()
        if news is not None:
            link.execute(NOTIFY, (news.text(),))

    def _hear(self, link: PostgresConnection) -> None:
        wire = link.pgconn
        wire.consume_input()
        while (notice := wire.notifies()) is not None:
            if notice.be_pid != wire.backend_pid:
                self._take(notice.extra.decode("utf-8", "replace"))
        heard, self._heard = self._heard, None
        if heard is not None:
            self._ring(heard.sessions, work=heard.work)

    def _told(self, notice: psycopg.Notify) -> None:
        """Handle a notification that the driver received with the result of another statement."""
        if self._link is None or notice.pid != self._link.pgconn.backend_pid:
            self._take(notice.payload)

    def _take(self, text: str) -> None:
        self._heard = self._heard or ChangeHint()
        self._heard.add_text(text)

    def _pause(self, seconds: float) -> None:
        """Wait before reconnecting; only `close` ends the wait early, a new hint does not."""
        end = time.monotonic() + seconds
        while not self._closed and time.monotonic() < end:
            if select.select([self._wake_read], [], [], max(0.0, end - time.monotonic()))[0]:
                os.read(self._wake_read, 512)

    def _hang_up(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None
