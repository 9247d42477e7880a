"""One command in the eyes of the proxy: its decisions on hosts, its connections, and their records.

Everything here runs in the proxy's event loop, except `records`, which any thread may call.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from concurrent.futures import CancelledError, Future

from outlast.runtime.sandbox.network.connection import (
    ConnectionDecision,
    ConnectionRecord,
    ConnectionRequest,
    ConnectionVerdict,
    Decide,
    is_local_host,
)

MOST_RECORDS = 500
MOST_DECISIONS = 1000
MOST_QUESTIONS = 32
"""Hosts of one command that take a decision of the user: a command must not flood the user with questions."""

log = logging.getLogger(__name__)


class OpenConnection:
    """A connection while it lasts; its record is a snapshot of it."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.address = ""
        self.verdict = ConnectionVerdict.WAITING
        self.reason = ""
        self.sent = 0
        self.received = 0

    def end(self, verdict: ConnectionVerdict, reason: str) -> None:
        self.verdict = verdict
        self.reason = reason

    def record(self) -> ConnectionRecord:
        return ConnectionRecord(
            host=self.host, port=self.port, address=self.address, verdict=self.verdict, reason=self.reason,
            sent=self.sent, received=self.received,
        )  # fmt: skip


class NetworkCall:
    """Asks `decide` at most once about each host, however many connections wait for the answer."""

    def __init__(self, call_id: str, decide: Decide) -> None:
        self.call_id = call_id
        self.tasks: set[asyncio.Task[None]] = set()
        self.released = False
        self._decide = decide
        self._decisions: dict[tuple[str, int], ConnectionDecision | asyncio.Future[ConnectionDecision]] = {}
        self._questions: set[Future[ConnectionDecision]] = set()
        self._asked = 0
        self._connections: deque[OpenConnection] = deque(maxlen=MOST_RECORDS)

    def records(self) -> list[ConnectionRecord]:
        return [connection.record() for connection in self._connections.copy()]

    def opened(self, host: str, port: int) -> OpenConnection:
        connection = OpenConnection(host, port)
        self._connections.append(connection)
        return connection

    def release(self) -> None:
        """Withdraw the open questions and cut the connections."""
        self.released = True
        for question in tuple(self._questions):
            question.cancel()
        for task in tuple(self.tasks):
            task.cancel()

    async def decision(self, host: str, port: int) -> ConnectionDecision:
        """Return the decision on a host; wait for it if the user is being asked. It holds until the call ends."""
        key = (host, port if is_local_host(host) else 0)
        known = self._decisions.get(key)
        if isinstance(known, ConnectionDecision):
            return known
        if known is not None:
            return await asyncio.shield(known)
        if len(self._decisions) >= MOST_DECISIONS:
            return ConnectionDecision(allow=False, reason=f"this command asked for {MOST_DECISIONS} hosts")
        waiting: asyncio.Future[ConnectionDecision] = asyncio.get_running_loop().create_future()
        self._decisions[key] = waiting
        self._ask(ConnectionRequest(call_id=self.call_id, host=host, port=port), key, waiting)
        return await asyncio.shield(waiting)

    def _ask(
        self, request: ConnectionRequest, key: tuple[str, int], waiting: asyncio.Future[ConnectionDecision]
    ) -> None:
        def settle(decision: ConnectionDecision) -> None:
            self._decisions[key] = decision
            if not waiting.done():
                waiting.set_result(decision)

        try:
            answer = self._decide(request)
        except Exception:  # it is the caller's function, and its failure must not open a host
            log.exception("the decision on a connection to %s failed", request.host)
            answer = ConnectionDecision(allow=False, reason="the decision on it failed")
        if isinstance(answer, ConnectionDecision):
            settle(answer)
            return
        self._asked += 1
        if self._asked > MOST_QUESTIONS:
            answer.cancel()
            settle(ConnectionDecision(allow=False, reason=f"this command needed {MOST_QUESTIONS} questions already"))
            return
        loop = asyncio.get_running_loop()
        self._questions.add(answer)

        def answered(question: Future[ConnectionDecision]) -> None:
            try:
                loop.call_soon_threadsafe(conclude, question)
            except RuntimeError:
                return  # the proxy was closed meanwhile

        def conclude(question: Future[ConnectionDecision]) -> None:
            self._questions.discard(question)
            settle(_outcome(question, request.host))

        answer.add_done_callback(answered)


def _outcome(question: Future[ConnectionDecision], host: str) -> ConnectionDecision:
    try:
        return question.result(0)
    except CancelledError:
        return ConnectionDecision(allow=False, reason="the question was withdrawn")
    except Exception:  # as above: a failed question is a refusal
        log.exception("the question about a connection to %s failed", host)
        return ConnectionDecision(allow=False, reason="the decision on it failed")
