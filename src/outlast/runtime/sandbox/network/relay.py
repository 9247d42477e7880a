"""The relay inside a session's sandbox: from a port of its loopback network to the Unix socket of the network proxy.

Commands have a network namespace of their own, in which this port is the only way out. The relay copies bytes and
understands none of them; the proxy outside decides. Hostile clients cost it a bounded number of connections with one
chunk of memory for each direction. `session_init` imports it as a plain module: standard library only.
"""

from __future__ import annotations

import errno
import selectors
import socket
import struct
import time

MOST_CONNECTIONS = 512
CHUNK = 65_536
RETRY_SECONDS = 0.02
PATIENCE = 5.0
"""Seconds for which a connection waits for a proxy whose queue is full."""
_TRIES = 20
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 1
_GONE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)


def listen() -> tuple[list[socket.socket], int]:
    """Bring the loopback interface up; return listeners on one free port of 127.0.0.1 and, where it exists, ::1."""
    bring_up_loopback()
    for _ in range(_TRIES):
        listeners = [listener(socket.AF_INET, "127.0.0.1", 0)]
        port = int(listeners[0].getsockname()[1])
        try:
            listeners.append(listener(socket.AF_INET6, "::1", port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                listeners[0].close()
                continue
        return listeners, port
    raise OSError(errno.EADDRINUSE, "no port is free on both loopback addresses")


def bring_up_loopback() -> None:
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(any_socket, _GET_FLAGS, request))[1]
        if not flags & _UP:
            fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sH14x", b"lo", flags | _UP))


def listener(family: socket.AddressFamily, address: str, port: int) -> socket.socket:
    """Return a listener on an address; port 0 takes any that is free."""
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family == socket.AF_INET6:
            found.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((address, port))
        found.listen(MOST_CONNECTIONS)
        found.setblocking(False)
    except OSError:
        found.close()
        raise
    return found


def serve(listeners: list[socket.socket], unix_path: str) -> None:
    """Forward every connection to the Unix socket, for ever."""
    relay = Relay(listeners, unix_path)
    while True:
        relay.step()


class End:
    """One side of a pair: its socket, and the bytes that wait to be written to it."""

    def __init__(self, side: socket.socket) -> None:
        self.socket = side
        self.waiting = memoryview(b"")
        self.read_all = False
        """The other program ended its stream: nothing more will be read from this socket."""
        self.wrote_all = False
        """The stream to the other program was ended."""
        self.events = 0


class Pair:
    """A client in the sandbox and its connection to the proxy."""

    def __init__(self, client: socket.socket) -> None:
        self.client = End(client)
        self.proxy = End(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        self.proxy.socket.setblocking(False)
        self.until = time.monotonic() + PATIENCE

    def ends(self) -> tuple[tuple[End, End], tuple[End, End]]:
        return (self.client, self.proxy), (self.proxy, self.client)

    def is_done(self) -> bool:
        return self.client.wrote_all and self.proxy.wrote_all


class Relay:
    def __init__(self, listeners: list[socket.socket], unix_path: str, limit: int = MOST_CONNECTIONS) -> None:
        self.listeners = listeners
        self.unix_path = unix_path
        self.limit = limit
        self.pairs: set[Pair] = set()
        self.unconnected: set[Pair] = set()
        self.accepting = False
        self.selector = selectors.DefaultSelector()
        self._accept_while_free()

    def step(self, seconds: float = 1.0) -> None:
        """Handle what is ready; wait at most `seconds` for it."""
        for key, mask in self.selector.select(RETRY_SECONDS if self.unconnected else seconds):
            if isinstance(key.data, Pair):
                if key.data in self.pairs:
                    self._move(key.data, key.fileobj, mask)
            else:
                self._accept(key.data)
        for pair in tuple(self.unconnected):
            self._connect(pair)
        self._accept_while_free()

    def _accept_while_free(self) -> None:
        """Listen only below the limit: further clients wait in the kernel's queue."""
        free = len(self.pairs) < self.limit
        if free != self.accepting:
            for listener in self.listeners:
                if free:
                    self.selector.register(listener, selectors.EVENT_READ, listener)
                else:
                    self.selector.unregister(listener)
            self.accepting = free

    def _accept(self, listener: socket.socket) -> None:
        if len(self.pairs) >= self.limit:
            return
        try:
            client, _ = listener.accept()
        except OSError as error:
            if error.errno in _GONE:
                time.sleep(RETRY_SECONDS)  # out of descriptors or memory: do not spin
            return
        try:
            client.setblocking(False)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pair = Pair(client)
        except OSError:
            client.close()
            return
        self.pairs.add(pair)
        self._connect(pair)

    def _connect(self, pair: Pair) -> None:
        try:
            pair.proxy.socket.connect(self.unix_path)
        except BlockingIOError:  # the queue of the proxy is full
            self.unconnected.add(pair)
            if time.monotonic() > pair.until:
                self._close(pair)
            return
        except OSError:
            self._close(pair)
            return
        self.unconnected.discard(pair)
        self._watch(pair)

    def _move(self, pair: Pair, ready: object, mask: int) -> None:
        try:
            for end, other in pair.ends():
                if end.socket is ready:
                    if mask & selectors.EVENT_READ and not other.waiting and not end.read_all:
                        self._read(end, other)
                    if mask & selectors.EVENT_WRITE:
                        self._write(end, other)
                    self._write(other, end)
        except OSError:
            self._close(pair)
            return
        if pair.is_done():
            self._close(pair)
        else:
            self._watch(pair)

    def _read(self, end: End, other: End) -> None:
        try:
            data = end.socket.recv(CHUNK)
        except BlockingIOError:
            return
        other.waiting = memoryview(data)
        end.read_all = not data

    def _write(self, end: End, other: End) -> None:
        """Write what waits for this end; pass on the end of the stream once everything is written."""
        if end.waiting:
            try:
                end.waiting = end.waiting[end.socket.send(end.waiting) :]
            except BlockingIOError:
                return
        if not end.waiting and other.read_all and not end.wrote_all:
            end.wrote_all = True
            end.socket.shutdown(socket.SHUT_WR)

    def _watch(self, pair: Pair) -> None:
        """Register each socket for what it can do now. One that can do nothing is not registered: a closed peer would
        be reported without pause."""
        for end, other in pair.ends():
            events = selectors.EVENT_WRITE if end.waiting else 0
            if not other.waiting and not end.read_all:
                events |= selectors.EVENT_READ
            if events == end.events:
                continue
            if not events:
                self.selector.unregister(end.socket)
            elif end.events:
                self.selector.modify(end.socket, events, pair)
            else:
                self.selector.register(end.socket, events, pair)
            end.events = events

    def _close(self, pair: Pair) -> None:
        self.pairs.discard(pair)
        self.unconnected.discard(pair)
        for end, _ in pair.ends():
            if end.events:
                self.selector.unregister(end.socket)
                end.events = 0
            end.socket.close()
