"""A proxy under test: it takes every name for a public host on loopback, and decides as the test says."""

from __future__ import annotations

import base64
import socket
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

from outlast.runtime.public_address import forbidden
from outlast.runtime.sandbox.network.connection import ConnectionDecision, ConnectionRecord, ConnectionRequest
from outlast.runtime.sandbox.network.proxy import NetworkProxy
from outlast.runtime.sandbox.network.relay import Relay, listen

YES = ConnectionDecision(allow=True)
SECONDS = 20.0


def on_loopback(_host: str, _port: int) -> list[str]:
    return ["127.0.0.1"]


def only_loopback_is_public(address: str) -> str | None:
    return None if address == "127.0.0.1" else forbidden(address)


def allow(_request: ConnectionRequest) -> ConnectionDecision:
    return YES


@contextmanager
def proxy_running(
    resolve: Callable[[str, int], Sequence[str]] = on_loopback,
    forbids: Callable[[str], str | None] = only_loopback_is_public,
    forbidden_ports: Sequence[int] = (),
    head_seconds: float = 10.0,
) -> Generator[NetworkProxy]:
    """The folder is short: a path of a Unix socket has at most 107 bytes."""
    with (
        TemporaryDirectory(prefix="px") as folder,
        NetworkProxy(
            Path(folder) / "private" / "proxy.sock",
            resolve=resolve,
            forbids=forbids,
            forbidden_ports=forbidden_ports,
            head_seconds=head_seconds,
        ) as proxy,
    ):
        yield proxy


class Client:
    """A raw connection to the proxy."""

    def __init__(self, proxy: NetworkProxy) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(SECONDS)
        self.socket.connect(str(proxy.path))

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def end(self) -> None:
        self.socket.shutdown(socket.SHUT_WR)

    def rest(self) -> bytes:
        data = b""
        while more := self.socket.recv(65536):
            data += more
        return data

    def head(self) -> bytes:
        data = b""
        while not data.endswith(b"\r\n\r\n"):
            byte = self.socket.recv(1)
            if not byte:
                return data
            data += byte
        return data

    def exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            if not more:
                return data
            data += more
        return data

    def connect(self, token: str, target: str) -> bytes:
        """Send CONNECT; return the head of the answer."""
        self.send(f"CONNECT {target} HTTP/1.1\r\n{authorization(token)}\r\n\r\n".encode())
        return self.head()

    def socks(self, token: str, host: bytes, port: int, kind: int = 3, command: int = 1) -> int:
        """Go through the whole SOCKS5 handshake; return the code of the answer."""
        self.send(b"\x05\x02\x00\x02")
        assert self.exactly(2) == b"\x05\x02"
        self.send(bytes((1, len(token))) + token.encode() + b"\x01x")
        assert self.exactly(2) == b"\x01\x00"
        address = bytes((len(host),)) + host if kind == 3 else host
        self.send(bytes((5, command, 0, kind)) + address + port.to_bytes(2, "big"))
        return self.exactly(10)[1]


def authorization(token: str) -> str:
    return "Proxy-Authorization: Basic " + base64.b64encode(f"{token}:x".encode()).decode()


class Echo:
    """A TCP server that sends back what it gets, and ends its stream when the client does."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = int(self.listener.getsockname()[1])
        self.peers: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            self.peers.append(peer)
            threading.Thread(target=self._echo, args=(peer,), daemon=True).start()

    def _echo(self, peer: socket.socket) -> None:
        with peer:
            try:
                while data := peer.recv(65536):
                    peer.sendall(data)
            except OSError:
                return

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


@contextmanager
def echo_server() -> Generator[Echo]:
    echo = Echo()
    try:
        yield echo
    finally:
        echo.close()


class Page(BaseHTTPRequestHandler):
    """Answers with the request line, the headers and the body that it got."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        text = f"{self.requestline}\n{self.headers}".encode() + body
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: a test's output is not a log."""


@contextmanager
def web_server(handler: type[BaseHTTPRequestHandler] = Page) -> Generator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def relay_to(proxy: NetworkProxy) -> Generator[int]:
    """The relay outside a sandbox, in a thread."""
    listeners, port = listen()
    relay = Relay(listeners, str(proxy.path))
    ended = threading.Event()

    def run() -> None:
        while not ended.is_set():
            relay.step(0.02)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield port
    finally:
        ended.set()
        thread.join()
        for pair in tuple(relay.pairs):
            relay._close(pair)
        for listener in listeners:
            listener.close()
        relay.selector.close()


def only_record(proxy: NetworkProxy, call_id: str = "call") -> ConnectionRecord:
    (record,) = proxy.connections(call_id)
    return record


class Questions:
    """A `Decide` whose answers the test gives later."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.arrived = threading.Semaphore(0)
        self.answers: dict[str, Future[ConnectionDecision]] = {}

    def __call__(self, request: ConnectionRequest) -> Future[ConnectionDecision]:
        answer = self.answers[request.host] = Future[ConnectionDecision]()
        self.asked.append(request.host)
        self.arrived.release()
        return answer
