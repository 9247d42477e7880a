"""Which hosts are allowed, asked about and refused; and the variables that a command gets."""

import socket
import subprocess
import sys
import threading

import pytest

from outlast.runtime.sandbox.network.connection import ConnectionRequest, is_local_host, plain_host
from outlast.runtime.sandbox.network.environment import proxy_environment, proxy_url
from outlast.runtime.sandbox.network.policy import NetworkMode, decide_connection, judge_host
from tests.conftest import needs
from tests.sandbox.network.setting import allow, proxy_running, relay_to

OFF, ASK, ON = NetworkMode.OFF, NetworkMode.ASK, NetworkMode.ON
GRANTED = ("example.org", "*.wild.example", "10.1.2.3")


@pytest.mark.parametrize(
    ("mode", "host", "verdict"),
    [
        (OFF, "example.org", "allow"), (OFF, "EXAMPLE.org.", "allow"), (OFF, "other.org", "refuse"),
        (OFF, "a.example.org", "refuse"), (ASK, "a.example.org", "ask"), (ASK, "notexample.org", "ask"),
        (ASK, "a.wild.example", "allow"), (ASK, "a.b.wild.example", "allow"), (ASK, "wild.example", "ask"),
        (ASK, "evilwild.example", "ask"), (ON, "any.example", "allow"), (ON, "1.1.1.1", "allow"),
        (ON, "10.1.2.3", "allow"), (ON, "10.1.2.4", "ask"), (ON, "169.254.169.254", "ask"), (OFF, "10.1.2.4", "refuse"),
        (ON, "localhost", "refuse"), (ON, "127.0.0.1", "refuse"), (ON, "::1", "refuse"), (ON, "x.localhost", "refuse"),
        (ON, "::", "refuse"), (ON, "0x7f.1", "refuse"), (ON, "2130706433", "refuse"), (ON, "", "refuse"),
        (ON, "a b", "refuse"), (ON, "a/b", "refuse"), (ON, "fe80::1%lo", "refuse"),
    ],
)  # fmt: skip
def test_host_is_judged_by_mode_and_grants(mode: NetworkMode, host: str, verdict: str) -> None:
    assert judge_host(mode, host, 443, GRANTED) == verdict


def test_port_of_this_machine_is_allowed_only_if_it_is_named() -> None:
    assert judge_host(OFF, "localhost", 5432, ("localhost",), (5432,)) == "allow"
    assert judge_host(ON, "localhost", 5433, ("localhost", "127.0.0.1"), (5432,)) == "refuse"


def test_decision_opens_a_private_address_only_if_the_request_or_a_grant_names_it() -> None:
    def decided(host: str, granted: tuple[str, ...] = GRANTED) -> tuple[bool, frozenset[str]]:
        decision = decide_connection(ON, ConnectionRequest(call_id="c", host=host, port=80), granted)
        assert decision is not None
        assert decision.allow
        return decision.private, decision.private_addresses

    assert decided("10.1.2.3") == (True, frozenset({"10.1.2.3"}))
    assert decided("example.org", ("example.org",)) == (False, frozenset())
    assert decided("example.org") == (False, frozenset({"10.1.2.3"}))


def test_refusal_says_which_need_asks_for_the_host() -> None:
    request = ConnectionRequest(call_id="c", host="example.net", port=80)
    decision = decide_connection(OFF, request)
    assert decision is not None
    assert 'needs=["network:example.net"]' in decision.reason
    assert decide_connection(ASK, request) is None


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("Example.ORG.", "example.org"), ("[::1]", "::1"), ("0:0::1", "::1"), ("1.2.3.4", "1.2.3.4"), ("1.2.3", ""),
        ("a..b", ""), ("-a.b", ""), ("a" * 64, ""), ("b\u00fccher.example", ""), ("x\0.example", ""), ("_a.b", "_a.b"),
        ("*.example.org", ""), ("a.example\n", ""),
    ],
)  # fmt: skip
def test_host_is_brought_into_one_form(text: str, plain: str) -> None:
    assert plain_host(text) == plain


def test_mapped_loopback_address_is_this_machine() -> None:
    assert is_local_host("::ffff:7f00:1")
    assert not is_local_host("localhost.example.org")


def test_variables_name_the_proxy_and_keep_the_own_loopback_direct() -> None:
    variables = proxy_environment(4321, "t0ken")
    for name in ("HTTP_PROXY", "https_proxy", "ALL_PROXY", "npm_config_https_proxy", "CARGO_HTTP_PROXY"):
        assert variables[name] == "http://t0ken:x@127.0.0.1:4321"
    assert variables["NO_PROXY"] == variables["no_proxy"] == "localhost,127.0.0.1,::1"


def test_httpx_client_starts_with_the_variables() -> None:
    """It does not with `ALL_PROXY=socks5h://`, unless an extra package is installed."""
    program = "import httpx; httpx.Client()"
    environment = {"PATH": "/usr/bin:/bin", **proxy_environment(4321, "t0ken")}
    assert subprocess.run([sys.executable, "-c", program], env=environment, timeout=60).returncode == 0


def test_ssh_speaks_to_its_host_through_the_proxy() -> None:
    """The server gets the first line of ssh's protocol, and closes."""
    needs("ssh")
    lines: list[bytes] = []

    def take_one_line(listener: socket.socket) -> None:
        peer, _ = listener.accept()
        with peer:
            lines.append(peer.recv(100))

    with proxy_running() as proxy, relay_to(proxy) as port, socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)
        server = threading.Thread(target=take_one_line, args=(listener,))
        server.start()
        token = proxy.register("call", allow)
        command = proxy_environment(port, token)["GIT_SSH_COMMAND"]
        argv = ["sh", "-c", f"exec {command} -p {listener.getsockname()[1]} git@forge.example true"]
        run = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30)
        server.join()
        (record,) = proxy.connections("call")
    assert record.host == "forge.example"
    assert lines[0].startswith(b"SSH-2.0-"), run.stderr


def test_git_is_told_that_the_sandbox_blocked_its_host() -> None:
    git = needs("git")
    with proxy_running() as proxy, relay_to(proxy) as port:
        token = proxy.register("call", lambda request: decide_connection(OFF, request) or pytest.fail("asked"))
        environment = {"PATH": "/usr/bin:/bin", "GIT_CONFIG_NOSYSTEM": "1", **proxy_environment(port, token)}
        runs = [
            subprocess.run([git, "ls-remote", url], env=environment, capture_output=True, text=True, timeout=60)
            for url in ("https://forge.example/a.git", "ssh://git@forge.example/a.git")
        ]
        hosts = {record.host for record in proxy.connections("call")}
    assert all(run.returncode for run in runs)
    assert hosts == {"forge.example"}
    assert "403" in runs[0].stderr
    assert "blocked by the sandbox: no network to forge.example" in runs[1].stderr


def test_url_of_the_proxy_has_the_token_as_user() -> None:
    assert proxy_url(1, "a") == "http://a:x@127.0.0.1:1"
