"""Connection to the server that cannot hang forever and works behind a connection pooler.

It uses no session settings, and named prepared statements only if there is known to be no pooler: in transaction mode
a pooler may give every transaction another server connection. Only the listener (`notify`) wants a session of its own,
and the store also works without it.
"""

from __future__ import annotations

import hashlib
import select
import time
from collections.abc import Generator, Sequence
from typing import Any, Self, TypeVar, cast

import psycopg
from psycopg import errors as psycopg_errors
from psycopg import pq
from psycopg.rows import TupleRow

from outlast.store.postgres import errors
from outlast.store.postgres.dsn import PostgresAddress

T = TypeVar("T")

ANSWER_SECONDS = 10.0
READ_SECONDS = 60.0
LONG_SECONDS = 3600.0
"""Timeout for slow work: migrations, search indexing, and checks that read all rows."""
_WAIT_STEP = 0.5
_DONE = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)


class PostgresConnection(psycopg.Connection[TupleRow]):
    """Connection in autocommit mode; it counts as lost if an answer takes longer than `answer_seconds`."""

    answer_seconds = ANSWER_SECONDS
    is_direct = False
    """Whether the connection is known to reach the server without a pooler in between."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._statements: dict[bytes, bytes] = {}

    @classmethod
    def to(cls, address: PostgresAddress, answer_seconds: float = ANSWER_SECONDS) -> Self:
        """Connect. Raises `psycopg.Error` if the server is unreachable, `OutlastError` if waiting would not help."""
        parameters = cast(dict[str, Any], address.parameters)
        try:
            link = cls.connect(autocommit=True, prepare_threshold=None, **parameters)
        except psycopg.Error as error:
            if errors.is_away(error):
                raise
            raise errors.translation(error, address) from error
        link.answer_seconds = answer_seconds
        return link

    def wait(self, gen: Generator[Any, Any, T], interval: float = _WAIT_STEP, timeout: float | None = None) -> T:
        seconds = self.answer_seconds if timeout is None else min(timeout, self.answer_seconds)
        return super().wait(_bounded(gen, seconds), interval)

    def call(self, command: bytes, arguments: Sequence[bytes]) -> bytes | None:
        """Run one statement with arguments in wire format; return its single value, also in wire format.

        The statement is prepared once if that is safe, which is a fifth faster.
        """
        formats = (1,) * len(arguments)
        if self.is_direct:
            name = self._statements.get(command) or self._prepare(command)
            self.pgconn.send_query_prepared(name, arguments, formats, 1)
        else:
            self.pgconn.send_query_params(command, arguments, None, formats, 1)
        return self._answer().get_value(0, 0)

    def _prepare(self, command: bytes) -> bytes:
        """Prepare the statement under a hash of its text, so that even behind a pooler the name is unambiguous."""
        name = b"outlast_" + hashlib.sha256(command).hexdigest()[:16].encode()
        self.pgconn.send_prepare(name, command)
        self._answer()
        self._statements[command] = name
        return name

    def _answer(self) -> pq.abc.PGresult:
        wire = self.pgconn
        deadline = time.monotonic() + self.answer_seconds
        while wire.flush():
            self._await(select.POLLIN | select.POLLOUT, deadline)
            wire.consume_input()
        self._await(select.POLLIN, deadline)
        wire.consume_input()
        last: pq.abc.PGresult | None = None
        while True:
            while wire.is_busy():
                self._await(select.POLLIN, deadline)
                wire.consume_input()
            result = wire.get_result()
            if result is None:
                break
            last = result
        if last is None or last.status not in _DONE:
            raise self._failure(last)
        return last

    def _await(self, what: int, deadline: float) -> None:
        ready = select.poll()
        ready.register(self.pgconn.socket, what)
        if not ready.poll(max(0.0, deadline - time.monotonic()) * 1000):
            self.close()
            raise psycopg.OperationalError(f"no answer in {self.answer_seconds:g} s")

    def _failure(self, result: pq.abc.PGresult | None) -> psycopg.Error:
        if result is None:
            return psycopg.OperationalError("the connection was lost")
        code = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
        if code in errors.NOT_PREPARED:
            self.is_direct = False  # there is a pooler: do not prepare again
        text = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or result.error_message
        try:
            kind = psycopg_errors.lookup(code)
        except KeyError:
            kind = psycopg.DatabaseError if code else psycopg.OperationalError
        return kind(text.decode("utf-8", "replace"))


def _bounded(gen: Generator[Any, Any, T], seconds: float) -> Generator[Any, Any, T]:
    """Run the driver's protocol generator with a time limit."""
    deadline = time.monotonic() + seconds
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() > deadline:
                raise psycopg.OperationalError(f"no answer in {seconds:g} s")
            wanted = gen.send(ready)
    except StopIteration as done:
        return done.value
