"""The network proxy over real sockets: its three protocols, refusals, bounds, questions, release and records."""

import asyncio
import socket
import stat
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from outlast.runtime.sandbox.network.connection import ConnectionDecision, ConnectionRequest, ConnectionVerdict
from outlast.runtime.sandbox.network.destination import forbidden_destination, is_own_address
from outlast.runtime.sandbox.network.proxy import MOST_PER_CALL, NetworkProxy
from tests.conftest import needs
from tests.sandbox.network.setting import (
    SECONDS,
    YES,
    Client,
    Questions,
    allow,
    authorization,
    echo_server,
    on_loopback,
    only_record,
    proxy_running,
    relay_to,
    web_server,
)

# --- the three protocols


def test_connect_carries_bytes_both_ways_and_records_them() -> None:
    with proxy_running() as proxy, echo_server() as echo:
        token = proxy.register("call", allow)
        with Client(proxy) as client:
            assert client.connect(token, f"Example.ORG.:{echo.port}").startswith(b"HTTP/1.1 200 ")
            client.send(b"hello")
            assert client.exactly(5) == b"hello"
            client.end()
            assert client.rest() == b""
        record = only_record(proxy)
    assert (record.host, record.port, record.address) == ("example.org", echo.port, "127.0.0.1")
    assert (record.verdict, record.reason) == (ConnectionVerdict.ALLOWED, "")
    assert (record.sent, record.received) == (5, 5)


def test_bytes_sent_right_after_connect_reach_the_host() -> None:
    with proxy_running() as proxy, echo_server() as echo, Client(proxy) as client:
        token = proxy.register("call", allow)
        client.send(f"CONNECT a.example:{echo.port} HTTP/1.1\r\n{authorization(token)}\r\n\r\nearly".encode())
        assert client.head().startswith(b"HTTP/1.1 200 ")
        assert client.exactly(5) == b"early"


def test_plain_request_reaches_its_host_without_what_is_meant_for_the_proxy() -> None:
    with proxy_running() as proxy, web_server() as port, Client(proxy) as client:
        token = proxy.register("call", allow)
        lines = [
            f"POST http://site.example:{port}/a?b=c#d HTTP/1.1", "Host: other.example", authorization(token),
            "Proxy-Connection: keep-alive", "Connection: keep-alive, X-Hop", "X-Hop: 1", "X-Kept: 2",
            "Content-Length: 4", "", "body",
        ]  # fmt: skip
        client.send("\r\n".join(lines).encode())
        text = client.rest().decode()
    assert "POST /a?b=c HTTP/1.1\n" in text
    assert f"Host: site.example:{port}\n" in text
    assert "Connection: close\n" in text
    assert "X-Kept: 2\n" in text
    assert text.endswith("body")
    assert "Proxy" not in text
    assert "X-Hop" not in text
    assert "other.example" not in text
    assert token not in text


def test_second_request_on_a_plain_connection_is_not_forwarded() -> None:
    with proxy_running() as proxy, echo_server() as echo, Client(proxy) as client:
        token = proxy.register("call", allow)
        request = f"GET http://a.example:{echo.port}/one HTTP/1.1\r\n{authorization(token)}\r\n\r\n"
        client.send(request.encode() + request.replace("a.example", "b.example").replace("one", "two").encode())
        client.end()
        text = client.rest()
    assert b"/one" in text
    assert b"/two" not in text


@pytest.mark.parametrize(
    ("host", "kind"), [(b"name.example", 3), (b"127.0.0.1", 3), (socket.inet_aton("127.0.0.1"), 1)]
)
def test_socks_connects_to_names_and_addresses(host: bytes, kind: int) -> None:
    def decide(_request: ConnectionRequest) -> ConnectionDecision:
        return ConnectionDecision(allow=True, private=True)

    with proxy_running() as proxy, echo_server() as echo, Client(proxy) as client:
        token = proxy.register("call", decide)
        assert client.socks(token, host, echo.port, kind) == 0
        client.send(b"ping")
        assert client.exactly(4) == b"ping"


def test_socks_refuses_bind_and_unknown_address_types() -> None:
    with proxy_running() as proxy:
        token = proxy.register("call", allow)
        with Client(proxy) as client:
            assert client.socks(token, b"a.example", 80, command=2) == 7
        with Client(proxy) as client:
            assert client.socks(token, b"0x7f.1", 80) == 8


@pytest.mark.parametrize("scheme", ["http", "socks5h"])
def test_curl_fetches_through_the_proxy(scheme: str) -> None:
    curl = needs("curl")
    with proxy_running() as proxy, web_server() as port, relay_to(proxy) as relay_port:
        token = proxy.register("call", allow)
        argv = [curl, "-sS", "-x", f"{scheme}://{token}:x@127.0.0.1:{relay_port}", f"http://web.example:{port}/page"]
        text = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=True).stdout
    assert text.startswith("GET /page HTTP/1.1")


# --- refusals


@pytest.mark.parametrize("header", ["", authorization("0" * 32), "Proxy-Authorization: Bearer x", authorization("")])
def test_request_without_a_known_token_is_answered_with_407(header: str) -> None:
    with proxy_running() as proxy, Client(proxy) as client:
        proxy.register("call", allow)
        lines = ["CONNECT a.example:1 HTTP/1.1", *([header] if header else []), "", ""]
        client.send("\r\n".join(lines).encode())
        text = client.rest()
        assert proxy.connections("call") == []
    assert text.startswith(b"HTTP/1.1 407 ")
    assert b"Proxy-Authenticate: Basic" in text


def test_socks_without_or_with_a_wrong_token_is_refused() -> None:
    with proxy_running() as proxy:
        proxy.register("call", allow)
        with Client(proxy) as client:
            client.send(b"\x05\x01\x00")
            assert client.rest() == b"\x05\xff"
        with Client(proxy) as client:
            client.send(b"\x05\x01\x02\x01\x03bad\x01x")
            assert client.rest() == b"\x05\x02\x01\x01"


def test_refused_host_is_answered_with_403_and_never_resolved() -> None:
    resolved: list[str] = []

    def resolve(host: str, _port: int) -> list[str]:
        resolved.append(host)
        return ["127.0.0.1"]

    def refuse(_request: ConnectionRequest) -> ConnectionDecision:
        return ConnectionDecision(allow=False, reason="the user said no")

    with proxy_running(resolve) as proxy, Client(proxy) as client:
        token = proxy.register("call", refuse)
        client.send(f"GET http://evil.example/ HTTP/1.1\r\n{authorization(token)}\r\n\r\n".encode())
        text = client.rest()
        record = only_record(proxy)
    assert text.startswith(b"HTTP/1.1 403 ")
    assert text.endswith(b"blocked by the sandbox: no network to evil.example; the user said no\n")
    assert resolved == []
    assert (record.verdict, record.reason, record.address) == (ConnectionVerdict.REFUSED, "the user said no", "")


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.0.0.1", "192.168.1.1", "169.254.169.254", "168.63.129.16", "::1", "fe80::1", "fd00::1",
        "::ffff:127.0.0.1", "::ffff:0:127.0.0.1", "64:ff9b::7f00:1", "::",
    ],
)  # fmt: skip
@pytest.mark.parametrize("private", [False, True])
def test_name_that_resolves_to_a_private_address_is_refused(address: str, private: bool) -> None:
    """Even if one of its addresses is public, and even if the decision allows private ones."""

    def resolve(_host: str, _port: int) -> list[str]:
        return ["1.1.1.1", address]

    def decide(_request: ConnectionRequest) -> ConnectionDecision:
        return ConnectionDecision(allow=True, private=private)

    with proxy_running(resolve, forbidden_destination) as proxy, Client(proxy) as client:
        token = proxy.register("call", decide)
        assert b" 403 " in client.connect(token, "rebind.example:80")
        record = only_record(proxy)
    assert record.verdict is ConnectionVerdict.REFUSED
    assert address in record.reason


@pytest.mark.parametrize("host", ["localhost", "a.localhost", "127.0.0.1", "127.9.9.9", "[::1]", "[::ffff:127.0.0.1]"])
def test_this_machine_is_refused_unless_the_decision_names_it(host: str) -> None:
    with proxy_running(forbids=forbidden_destination) as proxy, echo_server() as echo, Client(proxy) as client:
        token = proxy.register("call", allow)
        assert b" 403 " in client.connect(token, f"{host}:{echo.port}")
        assert echo.peers == []


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_named_port_of_this_machine_is_reached_but_never_that_of_our_server(host: str) -> None:
    def decide(_request: ConnectionRequest) -> ConnectionDecision:
        return ConnectionDecision(allow=True, private=True)

    with proxy_running(forbids=forbidden_destination) as proxy, echo_server() as echo:
        token = proxy.register("call", decide)
        with Client(proxy) as client:
            assert b" 200 " in client.connect(token, f"{host}:{echo.port}")
        proxy.forbid_port(echo.port)
        with Client(proxy) as client:
            assert b" 403 " in client.connect(token, f"{host}:{echo.port}")
        assert "belongs to the agent" in proxy.connections("call")[-1].reason


def test_port_of_our_server_is_refused_under_every_name_of_this_machine() -> None:
    with echo_server() as echo, proxy_running(forbidden_ports=[echo.port]) as proxy, Client(proxy) as client:
        token = proxy.register("call", allow)
        assert b" 403 " in client.connect(token, f"alias.example:{echo.port}")
        assert echo.peers == []


def test_private_address_that_is_granted_beside_its_name_is_reached() -> None:
    def decide(_request: ConnectionRequest) -> ConnectionDecision:
        return ConnectionDecision(allow=True, private_addresses=frozenset({"10.9.9.9"}))

    def resolve(host: str, _port: int) -> list[str]:
        return ["10.9.9.9"] if host == "inside.example" else ["10.9.9.8"]

    with proxy_running(resolve, forbidden_destination) as proxy:
        token = proxy.register("call", decide)
        policy = proxy._destinations
        granted = decide(ConnectionRequest(call_id="call", host="inside.example", port=80))
        assert asyncio.run(policy.addresses("inside.example", 80, granted)) == ["10.9.9.9"]
        with Client(proxy) as client:
            assert b" 403 " in client.connect(token, "other.example:80")


def test_name_is_resolved_once_so_that_it_cannot_change_after_the_check() -> None:
    answers = [["127.0.0.1"], ["10.0.0.1"]]
    with proxy_running(lambda _host, _port: answers.pop(0)) as proxy, echo_server() as echo, Client(proxy) as client:
        token = proxy.register("call", allow)
        assert b" 200 " in client.connect(token, f"a.example:{echo.port}")
    assert answers == [["10.0.0.1"]]


def test_own_addresses_are_recognised() -> None:
    assert is_own_address("127.0.0.1")
    assert not is_own_address("192.0.2.77")


def test_name_without_an_address_and_closed_port_are_failures_not_refusals() -> None:
    def resolve(host: str, _port: int) -> list[str]:
        if host == "gone.example":
            raise socket.gaierror(-2, "Name or service not known")
        return ["127.0.0.1"]

    with socket.create_server(("127.0.0.1", 0)) as trial:
        closed = trial.getsockname()[1]
    with proxy_running(resolve) as proxy:
        token = proxy.register("call", allow)
        for target in ("gone.example:80", f"closed.example:{closed}"):
            with Client(proxy) as client:
                assert client.connect(token, target).startswith(b"HTTP/1.1 502 ")
        records = proxy.connections("call")
    assert [record.verdict for record in records] == [ConnectionVerdict.FAILED] * 2
    assert "could not be found" in records[0].reason
    assert "127.0.0.1" in records[1].reason


# --- hostile clients


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET / HTTP/1.1\r\n", 400),
        (b"GET https://a.example/ HTTP/1.1\r\n", 501),
        (b"GET http://[::1/ HTTP/1.1\r\n", 400),
        (b"GET http://0x7f.1/ HTTP/1.1\r\n", 400),
        (b"GET http://a.example:99999/ HTTP/1.1\r\n", 400),
        (b"CONNECT a.example HTTP/1.1\r\n", 400),
        (b"CONNECT a.example:0 HTTP/1.1\r\n", 400),
        (b"CONNECT a@b.example:80 HTTP/1.1\r\n", 400),
        (b"CONNECT fe80::1%lo:80 HTTP/1.1\r\n", 400),
        (b"POST http://a.example/ HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n", 400),
        (b"\x00\x01\x02 nonsense\r\n", 400),
    ],
)
def test_malformed_request_is_answered_and_reaches_no_host(sent: bytes, status: int) -> None:
    with proxy_running() as proxy, Client(proxy) as client:
        token = proxy.register("call", allow)
        client.send(sent + authorization(token).encode() + b"\r\n\r\n")
        assert client.rest().startswith(b"HTTP/1.1 %d " % status)
        assert proxy.connections("call") == []


def test_huge_head_is_cut_off() -> None:
    with proxy_running() as proxy, Client(proxy) as client:
        client.send(b"GET http://a.example/ HTTP/1.1\r\nX: " + b"x" * 40_000)
        assert client.rest().startswith(b"HTTP/1.1 431 ")


def test_slow_head_is_cut_off_while_others_are_served() -> None:
    with proxy_running(head_seconds=0.5) as proxy, echo_server() as echo, Client(proxy) as slow:
        token = proxy.register("call", allow)
        slow.send(b"CONNECT a.exam")
        with Client(proxy) as client:
            assert b" 200 " in client.connect(token, f"a.example:{echo.port}")
        assert slow.rest() == b""


def test_half_closed_connection_still_carries_the_answer() -> None:
    with proxy_running() as proxy, echo_server() as echo, Client(proxy) as client:
        token = proxy.register("call", allow)
        client.connect(token, f"a.example:{echo.port}")
        data = b"0123456789abcdef" * 65_536
        threading.Thread(target=lambda: (client.send(data), client.end()), daemon=True).start()
        assert client.rest() == data


def test_slow_reader_stops_its_writer_and_memory_does_not_grow() -> None:
    with proxy_running() as proxy, echo_server() as echo, Client(proxy) as client:
        token = proxy.register("call", allow)
        client.connect(token, f"a.example:{echo.port}")
        client.socket.settimeout(1.0)
        with pytest.raises(TimeoutError):
            client.socket.sendall(b"x" * 100_000_000)


def test_200_connections_at_once_are_served() -> None:
    with proxy_running() as proxy, echo_server() as echo:
        token = proxy.register("call", allow)
        clients = [Client(proxy) for _ in range(200)]

        def use(client: Client) -> bytes:
            assert b" 200 " in client.connect(token, f"a.example:{echo.port}")
            client.send(b"hello")
            return client.exactly(5)

        with ThreadPoolExecutor(50) as pool:
            assert list(pool.map(use, clients)) == [b"hello"] * 200
        for client in clients:
            client.socket.close()


def test_command_with_too_many_connections_is_refused_and_another_is_served() -> None:
    with proxy_running() as proxy, echo_server() as echo:
        greedy, modest = proxy.register("greedy", allow), proxy.register("modest", allow)
        clients = [Client(proxy) for _ in range(MOST_PER_CALL)]
        for client in clients:
            assert b" 200 " in client.connect(greedy, f"a.example:{echo.port}")
        with Client(proxy) as client:
            assert b" 403 " in client.connect(greedy, f"a.example:{echo.port}")
        with Client(proxy) as client:
            assert b" 200 " in client.connect(modest, f"a.example:{echo.port}")
        for client in clients:
            client.socket.close()


# --- questions


def test_pending_question_keeps_its_client_waiting_and_no_other() -> None:
    questions = Questions()
    with proxy_running() as proxy, echo_server() as echo, Client(proxy) as waiting:
        asking, other = proxy.register("asking", questions), proxy.register("other", allow)
        waiting.send(f"CONNECT new.example:{echo.port} HTTP/1.1\r\n{authorization(asking)}\r\n\r\n".encode())
        assert questions.arrived.acquire(timeout=SECONDS)
        with Client(proxy) as client:
            assert b" 200 " in client.connect(other, f"a.example:{echo.port}")
        assert only_record(proxy, "asking").verdict is ConnectionVerdict.WAITING
        questions.answers["new.example"].set_result(YES)
        assert b" 200 " in waiting.head()


def test_host_is_asked_about_once_for_many_connections() -> None:
    questions = Questions()
    with proxy_running() as proxy, echo_server() as echo:
        token = proxy.register("call", questions)
        with ThreadPoolExecutor(10) as pool:
            clients = [Client(proxy) for _ in range(10)]
            heads = [pool.submit(client.connect, token, f"new.example:{echo.port}") for client in clients]
            assert questions.arrived.acquire(timeout=SECONDS)
            until = time.monotonic() + SECONDS
            while len(proxy.connections("call")) < 10 and time.monotonic() < until:
                time.sleep(0.01)
            questions.answers["new.example"].set_result(YES)
            assert all(b" 200 " in head.result(SECONDS) for head in heads)
            for client in clients:
                client.socket.close()
        with Client(proxy) as client:
            assert b" 200 " in client.connect(token, f"new.example:{echo.port}")
    assert questions.asked == ["new.example"]


def test_failed_or_withdrawn_decision_is_a_refusal() -> None:
    def fail(_request: ConnectionRequest) -> ConnectionDecision:
        raise RuntimeError("no user")

    questions = Questions()
    with proxy_running() as proxy:
        with Client(proxy) as client:
            assert b" 403 " in client.connect(proxy.register("one", fail), "a.example:80")
        with Client(proxy) as client:
            token = proxy.register("two", questions)
            client.send(f"CONNECT a.example:80 HTTP/1.1\r\n{authorization(token)}\r\n\r\n".encode())
            assert questions.arrived.acquire(timeout=SECONDS)
            questions.answers["a.example"].cancel()
            assert b" 403 " in client.head()


# --- release, records, the socket


def test_release_cuts_connections_and_withdraws_questions_of_that_call_only() -> None:
    questions = Questions()
    with proxy_running() as proxy, echo_server() as echo:
        token, asking, other = (
            proxy.register(name, decide) for name, decide in (("a", allow), ("b", questions), ("c", allow))
        )
        with Client(proxy) as cut, Client(proxy) as waiting, Client(proxy) as kept:
            cut.connect(token, f"a.example:{echo.port}")
            kept.connect(other, f"a.example:{echo.port}")
            waiting.send(f"CONNECT b.example:80 HTTP/1.1\r\n{authorization(asking)}\r\n\r\n".encode())
            assert questions.arrived.acquire(timeout=SECONDS)
            proxy.release(token)
            proxy.release(asking)
            assert cut.rest() == b""
            assert waiting.rest() == b""
            assert questions.answers["b.example"].cancelled()
            kept.send(b"still")
            assert kept.exactly(5) == b"still"
        with Client(proxy) as client:
            assert b" 407 " in client.connect(token, f"a.example:{echo.port}")
        assert only_record(proxy, "a").verdict is ConnectionVerdict.ALLOWED
        assert only_record(proxy, "b").reason == "the command ended first"


def test_records_of_a_call_are_bounded() -> None:
    def refuse(_request: ConnectionRequest) -> ConnectionDecision:
        return ConnectionDecision(allow=False)

    with proxy_running() as proxy:
        token = proxy.register("call", refuse)
        for number in range(520):
            with Client(proxy) as client:
                client.connect(token, f"h{number}.example:80")
        records = proxy.connections("call")
    assert len(records) == 500
    assert records[-1].host == "h519.example"


def test_socket_is_private_and_gone_after_close(tmp_path: Path) -> None:
    with proxy_running() as proxy:
        assert stat.S_IMODE(proxy.path.stat().st_mode) == 0o600
        assert stat.S_IMODE(proxy.path.parent.stat().st_mode) == 0o700
        client = Client(proxy)
    assert not proxy.path.exists()
    assert client.rest() == b""
    client.socket.close()
    tmp_path.chmod(0o755)
    with pytest.raises(PermissionError, match="mode 0700"):
        NetworkProxy(tmp_path / "p.sock", resolve=on_loopback)
