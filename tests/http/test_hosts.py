"""Hosts: an exact list, told by raw sockets to a real server. Whatever a name points to, it is not ours."""

from __future__ import annotations

import pytest

from tests.support.http_server import Server


def hostile(port: int) -> list[list[bytes]]:
    """Host headers that are none of ours: lines as they go over the wire."""
    names = [
        "evil.example", f"evil.example:{port}", "localhost", "127.0.0.1", "[::1]", f"localhost.:{port}",
        f"127.0.0.1.:{port}", f"localhost:{port}.", f"localhost:0{port}", f"localhost:{port + 1}", "localhost:80",
        f"LOCALHOST:{port}", f"LocalHost:{port}", f"127.1:{port}", f"127.0.0.2:{port}", f"127.0.1:{port}",
        f"2130706433:{port}", f"0x7f000001:{port}", f"0177.0.0.1:{port}", f"0.0.0.0:{port}", f"0:{port}",
        f"[::]:{port}", f"[::ffff:127.0.0.1]:{port}", f"::1:{port}", f"[0:0:0:0:0:0:0:1]:{port}",
        f"localhost.localdomain:{port}", f"localhost.evil.example:{port}", f"evil.localhost:{port}",
        f"127.0.0.1.nip.io:{port}", f"user@localhost:{port}", f"localhost:{port}@evil.example",
        f"localhost:{port}/api", f"localhost:{port}/../", f"localhost:{port}?x", f"localhost:{port}#x",
        f"localhost:{port}\\evil", f"localhost:{port},evil.example", f"localhost:{port} evil.example",
        f"http://localhost:{port}", f"localhost:{port}:{port}", f"localhost%00:{port}", f"localhost\xa0:{port}",
        f"localhost :{port}", f"xn--localhost:{port}", "", ":", f":{port}", "*", f"*:{port}",
    ]  # fmt: skip
    ours = f"Host: localhost:{port}".encode()
    doubled = [[ours, ours], [ours, b"Host: evil.example"], [b"Host: evil.example", ours], [], [b"Hos: x"]]
    forwarded = [
        [b"Host: evil.example", f"X-Forwarded-Host: localhost:{port}".encode()],
        [b"Host: evil.example", f"Forwarded: host=localhost:{port}".encode()],
    ]
    return [[f"Host: {name}".encode("latin-1")] for name in names] + doubled + forwarded


def asked(server: Server, hosts: list[bytes], path: str = "/api/sessions", method: str = "GET") -> bytes:
    token = f"Authorization: Bearer {server.token}".encode()
    head = b"\r\n".join([f"{method} {path} HTTP/1.1".encode(), *hosts, token, b"Connection: close", b"", b""])
    return server.raw(head)


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def test_there_are_forty_forms_and_more(server: Server) -> None:
    assert len(hostile(server.port)) >= 40


def test_no_hostile_host_is_served_with_the_right_token(server: Server) -> None:
    sid = server.create(title="private title")
    for hosts in hostile(server.port):
        for method, path in (("GET", "/api/sessions"), ("POST", f"/api/sessions/{sid}/end"), ("GET", "/healthz")):
            answer = asked(server, hosts, path, method)
            assert status(answer) in (400, 403), (hosts, answer)
            assert b"private title" not in answer
    assert server.detail(sid)["session"]["state"] == "active"


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "[::1]"])
def test_the_loopback_names_with_the_port_are_served(server: Server, name: str) -> None:
    assert status(asked(server, [f"Host: {name}:{server.port}".encode()])) == 200


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("//api/sessions", 404),
        ("/api//sessions", 404),
        ("/api/./sessions", 404),
        ("/api/sessions/../info", 404),
        ("/api/%73essions", 200),
        ("/%2e%2e/api/sessions", 404),
        ("/api/sessions%00", 404),
        ("/api/sessions;x", 404),
        ("/API/sessions", 404),
        ("http://evil.example/api/sessions", 200),
        ("/static/../../../etc/passwd", 404),
        ("/static/%2e%2e/%2e%2e/pages.py", 404),
        ("/static//etc/passwd", 404),
    ],
)
def test_no_spelling_of_a_path_gets_around_the_token(server: Server, path: str, wanted: int) -> None:
    """With the token the path decides; without it, nothing does."""
    ours = [f"Host: localhost:{server.port}".encode()]
    with_token = asked(server, ours, path)
    assert status(with_token) == wanted
    head = f"GET {path} HTTP/1.1\r\nHost: localhost:{server.port}\r\nConnection: close\r\n\r\n"
    assert status(server.raw(head.encode())) == 401
