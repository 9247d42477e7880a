"""One connection to the server, made so that it cannot hang for ever and needs nothing that a pooler would lose.

No named prepared statements and no session settings: a pooler in transaction mode may give every transaction another
connection. Only the listener (`wakeups`) wants a session of its own, and it can do without.
"""

from __future__ import annotations

import select
import time
from collections.abc import Generator, Sequence
from typing import Any, Self, TypeVar, cast

import psycopg
from psycopg import errors, pq
from psycopg.rows import TupleRow

from holdfast.store.postgres import faults
from holdfast.store.postgres.address import Address

T = TypeVar("T")

ANSWER_SECONDS = 10.0
READ_SECONDS = 60.0
LONG_SECONDS = 3600.0
"""For what may take its time: migrations, and looking for damage in everything there is."""
_WAIT_STEP = 0.5


class Link(psycopg.Connection[TupleRow]):
    """A connection in autocommit mode. One that takes longer than `answer_seconds` to answer counts as lost."""

    answer_seconds = ANSWER_SECONDS

    @classmethod
    def to(cls, address: Address, answer_seconds: float = ANSWER_SECONDS) -> Self:
        """Connect. Raises `psycopg.Error` when the server is away, `HoldfastError` when it would not help to wait."""
        parameters = cast(dict[str, Any], address.parameters)
        try:
            link = cls.connect(autocommit=True, prepare_threshold=None, **parameters)
        except psycopg.Error as error:
            if faults.is_away(error):
                raise
            raise faults.translation(error, address) from error
        link.answer_seconds = answer_seconds
        return link

    def wait(self, gen: Generator[Any, Any, T], interval: float = _WAIT_STEP, timeout: float | None = None) -> T:
        seconds = self.answer_seconds if timeout is None else min(timeout, self.answer_seconds)
        return super().wait(_bounded(gen, seconds), interval)

    def call(self, command: bytes, arguments: Sequence[bytes]) -> bytes | None:
        """One statement with arguments in wire format; the one value it returns, in wire format too."""
        wire = self.pgconn
        formats = [pq.Format.BINARY] * len(arguments)
        wire.send_query_params(command, arguments, param_formats=formats, result_format=pq.Format.BINARY)
        deadline = time.monotonic() + self.answer_seconds
        while wire.flush():
            self._await(select.POLLIN | select.POLLOUT, deadline)
            wire.consume_input()
        value: bytes | None = None
        failure: psycopg.Error | None = None
        self._await(select.POLLIN, deadline)
        wire.consume_input()
        while True:
            while wire.is_busy():
                self._await(select.POLLIN, deadline)
                wire.consume_input()
            result = wire.get_result()
            if result is None:
                break
            if result.status == pq.ExecStatus.TUPLES_OK:
                value = result.get_value(0, 0)
            else:
                failure = _error(result)
        if failure is not None:
            raise failure
        return value

    def _await(self, what: int, deadline: float) -> None:
        ready = select.poll()
        ready.register(self.pgconn.socket, what)
        if not ready.poll(max(0.0, deadline - time.monotonic()) * 1000):
            self.close()
            raise psycopg.OperationalError(f"no answer in {self.answer_seconds:g} s")


def _error(result: pq.abc.PGresult) -> psycopg.Error:
    code = result.error_field(pq.DiagnosticField.SQLSTATE)
    text = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or result.error_message
    kind = psycopg.OperationalError
    if code:
        try:
            kind = errors.lookup(code.decode())
        except KeyError:
            kind = psycopg.DatabaseError
    return kind(text.decode("utf-8", "replace"))


def _bounded(gen: Generator[Any, Any, T], seconds: float) -> Generator[Any, Any, T]:
    """The driver's conversation with the server, given up when it takes too long."""
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
