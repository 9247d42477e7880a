"""The network of sandboxed commands, seen from the agent: one proxy per process, one token per command.

A command reaches a host if the call was permitted with that need, or if `lift` says so while the command runs. A
connection without a decision waits; the command waits with it. A private address must be named by the user.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from outlast.runtime.sandbox.network.connection import (
    ConnectionDecision,
    ConnectionRecord,
    ConnectionRequest,
    ConnectionVerdict,
    is_address,
    is_local_host,
)
from outlast.runtime.sandbox.network.proxy import NetworkProxy
from outlast.runtime.sandbox.port import Lifted, Need, NeedKind

Lift = Callable[[Need], Future[Lifted]]
"""Asks about a wall that a running command meets; called from the proxy's thread."""
MOST_SHOWN = 50
NOT_ALLOWED = "it is not allowed"


class CommandNetwork:
    """Starts the proxy with the first command. `own_ports` returns the ports of our own servers on this machine: no
    command reaches them, whatever the user answers."""

    def __init__(self, own_ports: Callable[[], Iterable[int]] = tuple) -> None:
        self._own_ports = own_ports
        self._lock = threading.Lock()
        self._proxy: NetworkProxy | None = None

    def socket_path(self) -> Path:
        """Return the path of the proxy's socket, which the relay of a session connects to."""
        return self._running().path

    def _running(self) -> NetworkProxy:
        with self._lock:
            if self._proxy is None:
                folder = tempfile.mkdtemp(prefix="outlast-")  # a socket's path must be short, so not in the home
                self._proxy = NetworkProxy(Path(folder) / "proxy")
                weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            return self._proxy

    def open(self, call_id: str, needs: Iterable[Need], lift: Lift) -> CallConnections:
        return CallConnections(self._running(), call_id, frozenset(needs), lift, self._own_ports)

    def close(self) -> None:
        with self._lock:
            proxy, self._proxy = self._proxy, None
        if proxy is not None:
            proxy.close()


class CallConnections:
    """The connections of one command. `token` is its password at the proxy."""

    def __init__(
        self,
        proxy: NetworkProxy,
        call_id: str,
        needs: frozenset[Need],
        lift: Lift,
        own_ports: Callable[[], Iterable[int]] = tuple,
    ) -> None:
        self._proxy = proxy
        self._own_ports = own_ports
        self._call_id = call_id
        self._needs = needs
        self._lift = lift
        self.token = proxy.register(call_id, self._decide)
        self.records: list[ConnectionRecord] = []

    def _decide(self, request: ConnectionRequest) -> ConnectionDecision | Future[ConnectionDecision]:
        need = wanted_need(request)
        for port in self._own_ports():  # a server may have started while the command ran
            self._proxy.forbid_port(port)
        if need in self._needs:
            return _allowed(request, named=True)
        decided: Future[ConnectionDecision] = Future()

        def conclude(lifted: Future[Lifted]) -> None:
            if lifted.cancelled() or lifted.exception() is not None or lifted.result() is Lifted.NO:
                decided.set_result(ConnectionDecision(allow=False, reason=NOT_ALLOWED))
            else:
                decided.set_result(_allowed(request, named=lifted.result() is Lifted.NAMED))

        self._lift(need).add_done_callback(conclude)
        return decided

    def close(self) -> None:
        """Cut the connections that are left. `records` then holds all of them. May be repeated."""
        self.records = self._proxy.connections(self._call_id)
        self._proxy.release(self.token)

    def facts(self) -> list[dict[str, Any]]:
        """Return the connections for the log. `need` names the wall that an answer or a rule would have lifted."""
        return [_facts(one) for one in self.records[-MOST_SHOWN:]]

    def notes(self) -> list[str]:
        """Return a line for each host that was refused."""
        refused = {_need_of(one): one for one in self.records if one.verdict is ConnectionVerdict.REFUSED}
        return [
            f'[blocked by the sandbox: no network to {one.host} ({one.reason}); ask with needs=["{need}"]]'
            for need, one in list(refused.items())[:5]
        ]


def _need_of(record: ConnectionRecord) -> str:
    return str(wanted_need(ConnectionRequest(call_id="", host=record.host, port=record.port)))


def _facts(record: ConnectionRecord) -> dict[str, Any]:
    facts: dict[str, Any] = {"host": record.host, "port": record.port, "verdict": str(record.verdict)}
    facts |= {"sent": record.sent, "received": record.received}
    is_wall = record.verdict is ConnectionVerdict.REFUSED and record.reason == NOT_ALLOWED
    return facts | ({"need": _need_of(record)} if is_wall else {})


def wanted_need(request: ConnectionRequest) -> Need:
    if is_local_host(request.host):
        return Need(NeedKind.LOCALHOST, str(request.port))
    return Need(NeedKind.NETWORK, request.host)


def _allowed(request: ConnectionRequest, *, named: bool) -> ConnectionDecision:
    is_private = named and (is_address(request.host) or is_local_host(request.host))
    return ConnectionDecision(allow=True, private=is_private)
