"""The filtering proxy of sandboxed commands, in a thread of the agent with an event loop of its own.

It listens on a Unix socket that the relay inside a sandbox connects to, and speaks HTTP CONNECT, plain HTTP and SOCKS5.
Each command has a token, which its proxy variables contain; a connection without a known token is refused. For every
connection the command's `Decide` is asked first, then the name is resolved here, every address is checked, and the
proxy connects to a checked address. No caller's event loop is used, and every method may be called from any thread.
"""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import secrets
import socket
import stat
import threading
from collections.abc import Collection
from pathlib import Path
from types import TracebackType

from outlast.runtime.private_file import make_private_folder
from outlast.runtime.sandbox.network.connection import ConnectionRecord, ConnectionVerdict, Decide
from outlast.runtime.sandbox.network.destination import (
    Blocked,
    DestinationPolicy,
    Forbids,
    Resolve,
    Unreachable,
    connect,
    forbidden_destination,
    system_addresses,
)
from outlast.runtime.sandbox.network.handshake import CHUNK, ClientStream, Handshake, WantedConnection
from outlast.runtime.sandbox.network.http_handshake import HttpHandshake
from outlast.runtime.sandbox.network.network_call import NetworkCall, OpenConnection
from outlast.runtime.sandbox.network.socks_handshake import VERSION, SocksHandshake

HEAD_SECONDS = 15.0
MOST_CONNECTIONS = 512
MOST_PER_CALL = 256
MOST_ENDED_CALLS = 256
BACKLOG = 512


class NetworkProxy:
    """Serves from the constructor until `close`. `forbidden_ports` are the ports of our own server on this machine."""

    def __init__(
        self,
        path: Path,
        *,
        resolve: Resolve = system_addresses,
        forbids: Forbids = forbidden_destination,
        forbidden_ports: Collection[int] = (),
        head_seconds: float = HEAD_SECONDS,
    ) -> None:
        self.path = path
        self._head_seconds = head_seconds
        self._destinations = DestinationPolicy(resolve, forbids, forbidden_ports)
        self._lock = threading.Lock()
        self._tokens: dict[str, NetworkCall] = {}
        self._calls: dict[str, NetworkCall] = {}
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._limit = MOST_CONNECTIONS if descriptors < 0 else max(1, min(MOST_CONNECTIONS, descriptors // 4))
        self._listener = _bound(path)
        self._loop = asyncio.new_event_loop()
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._serve, name="network proxy", daemon=True)
        self._thread.start()

    def register(self, call_id: str, decide: Decide) -> str:
        """Return the token of a command. Commands with the same `call_id` share their decisions and records."""
        token = secrets.token_hex(16)
        with self._lock:
            call = self._calls.get(call_id)
            if call is None or call.released:
                call = NetworkCall(call_id, decide)
                self._calls.pop(call_id, None)
                self._calls[call_id] = call
            self._tokens[token] = call
        return token

    def release(self, token: str) -> None:
        """End the connections of a command and withdraw its questions. Its records stay readable for a while."""
        with self._lock:
            call = self._tokens.pop(token, None)
            if call is None or call in self._tokens.values():
                return
            call.released = True
            ended = [one.call_id for one in self._calls.values() if one.released]
            for call_id in ended[:-MOST_ENDED_CALLS]:
                del self._calls[call_id]
        self._soon(call.release)

    def connections(self, call_id: str) -> list[ConnectionRecord]:
        """Return the last connections of a command, in the order in which they were asked for."""
        with self._lock:
            call = self._calls.get(call_id)
        return [] if call is None else call.records()

    def forbid_port(self, port: int) -> None:
        """Refuse a port of this machine from now on: our own server listens on it."""
        ports = self._destinations
        ports.forbidden_ports = ports.forbidden_ports | {port}

    def close(self) -> None:
        """End every connection and the thread. May be repeated."""
        self._soon(self._ended.set)
        self._thread.join()
        self.path.unlink(missing_ok=True)

    def __enter__(self) -> NetworkProxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _soon(self, function: object) -> None:
        assert callable(function)
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function)

    def _serve(self) -> None:
        try:
            self._loop.run_until_complete(self._accept_until_closed())
        finally:
            self._listener.close()
            self._loop.close()

    async def _accept_until_closed(self) -> None:
        tasks: set[asyncio.Task[None]] = set()
        accepting = asyncio.create_task(self._accept(tasks))
        await self._ended.wait()
        with self._lock:
            calls = tuple(self._calls.values())
        for call in calls:
            call.release()
        for task in (accepting, *tasks):
            task.cancel()
        await asyncio.gather(accepting, *tasks, return_exceptions=True)

    async def _accept(self, tasks: set[asyncio.Task[None]]) -> None:
        loop = asyncio.get_running_loop()
        free = asyncio.Semaphore(self._limit)

        def ended(task: asyncio.Task[None]) -> None:
            tasks.discard(task)
            free.release()

        while True:
            await free.acquire()
            client = await self._next_client(loop)
            task = loop.create_task(self._attend(client))
            tasks.add(task)
            task.add_done_callback(ended)

    async def _next_client(self, loop: asyncio.AbstractEventLoop) -> socket.socket:
        while True:
            try:
                client, _ = await loop.sock_accept(self._listener)
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ECONNABORTED, errno.ENOBUFS):
                    raise
                await asyncio.sleep(0.1)  # until other parts of the agent close descriptors
            else:
                client.setblocking(False)
                return client

    async def _attend(self, client: socket.socket) -> None:
        with client:
            stream = ClientStream(client)
            try:
                async with asyncio.timeout(self._head_seconds):
                    first = await stream.peek()
                    if first is None:
                        return
                    handshake: Handshake = SocksHandshake() if first == VERSION else HttpHandshake()
                    wanted = await handshake.read(stream, self._knows)
                if isinstance(wanted, WantedConnection):
                    await self._serve_call(stream, handshake, wanted)
                elif wanted is not None:
                    await stream.answer_and_end(wanted)
            except OSError:
                return  # the client is gone, or too slow (a TimeoutError is an OSError); the record has the rest

    def _knows(self, token: str) -> bool:
        with self._lock:
            return token in self._tokens

    async def _serve_call(self, stream: ClientStream, handshake: Handshake, wanted: WantedConnection) -> None:
        with self._lock:
            call = self._tokens.get(wanted.token)
        task = asyncio.current_task()
        if call is None or task is None:
            return
        if len(call.tasks) >= MOST_PER_CALL:
            reason = f"this command has {MOST_PER_CALL} connections already"
            call.opened(wanted.host, wanted.port).end(ConnectionVerdict.REFUSED, reason)
            await stream.answer_and_end(handshake.block(wanted.host, reason))
            return
        call.tasks.add(task)
        connection = call.opened(wanted.host, wanted.port)
        try:
            await self._connect_and_relay(call, connection, stream, handshake, wanted)
        except OSError as error:
            connection.reason = connection.reason or error.strerror or str(error)
            raise
        finally:
            if connection.verdict is ConnectionVerdict.WAITING:
                connection.end(ConnectionVerdict.FAILED, "the command ended first")
            call.tasks.discard(task)

    async def _connect_and_relay(
        self,
        call: NetworkCall,
        connection: OpenConnection,
        stream: ClientStream,
        handshake: Handshake,
        wanted: WantedConnection,
    ) -> None:
        outcome = await self._upstream(call, wanted)
        if isinstance(outcome, Blocked):
            connection.end(ConnectionVerdict.REFUSED, outcome.reason)
            await stream.answer_and_end(handshake.block(wanted.host, outcome.reason))
            return
        if isinstance(outcome, Unreachable):
            connection.end(ConnectionVerdict.FAILED, outcome.reason)
            await stream.answer_and_end(handshake.fail(wanted.host, outcome.reason))
            return
        upstream, connection.address = outcome
        connection.verdict = ConnectionVerdict.ALLOWED
        with upstream:
            await stream.send(handshake.accept(wanted))
            await _relay(stream, upstream, wanted, connection)

    async def _upstream(
        self, call: NetworkCall, wanted: WantedConnection
    ) -> tuple[socket.socket, str] | Blocked | Unreachable:
        decision = await call.decision(wanted.host, wanted.port)
        if not decision.allow:
            return Blocked(decision.reason or "the user or a rule refused it")
        addresses = await self._destinations.addresses(wanted.host, wanted.port, decision)
        if not isinstance(addresses, list):
            return addresses
        return await connect(addresses, wanted.port)


async def _relay(
    stream: ClientStream, upstream: socket.socket, wanted: WantedConnection, connection: OpenConnection
) -> None:
    """Copy bytes both ways until both sides ended. Each way holds one chunk, so a slow reader slows its writer down."""
    loop = asyncio.get_running_loop()
    client = stream.client

    async def up() -> None:
        left = wanted.body
        data = wanted.head
        await loop.sock_sendall(upstream, data)
        connection.sent += len(data)
        data = stream.rest()
        while True:
            if left is not None:  # of a plain request only its body follows; a second request is not forwarded
                data = data[:left]
                left -= len(data)
            await loop.sock_sendall(upstream, data)
            connection.sent += len(data)
            data = await loop.sock_recv(client, CHUNK)
            if not data:
                return _end_writing(upstream)

    async def down() -> None:
        while data := await loop.sock_recv(upstream, CHUNK):
            await loop.sock_sendall(client, data)
            connection.received += len(data)
        _end_writing(client)

    ways = {asyncio.create_task(up()), asyncio.create_task(down())}
    try:
        ended, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_EXCEPTION)
        for way in ended:
            way.result()
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


def _end_writing(side: socket.socket) -> None:
    try:
        side.shutdown(socket.SHUT_WR)
    except OSError as error:
        if error.errno != errno.ENOTCONN:  # the other side is gone already
            raise


def _bound(path: Path) -> socket.socket:
    """Return the listener: in a folder that only this user may enter, and readable by this user alone."""
    make_private_folder(path.parent)
    if stat.S_IMODE(path.parent.stat().st_mode) & 0o077:
        raise PermissionError(f"{path.parent} can be entered by other users; the proxy needs a folder of mode 0700")
    if path.is_socket():
        path.unlink()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(path))
        os.chmod(path, 0o600)
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener
