"""Who gets in: every route times every way not to have the token, hosts, origins, content types."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx
import pytest

from outlast.app.api_token import TokenFile
from outlast.doors.http.middleware.auth import COOKIE_SECONDS, Authenticator
from outlast.http import create_app
from outlast.store.port import Query
from tests.http.inside import HOST, TOKEN, Inside, inside, settings_in
from tests.support.http_server import reply

OPEN = {("GET", "/healthz"), ("GET", "/login")}
SCOPE: dict[str, Any] = {"type": "http", "scheme": "http", "server": (HOST, None), "headers": []}


@pytest.fixture
async def filled(tmp_path: Path) -> AsyncGenerator[tuple[Inside, str]]:
    """A session in which something would happen if anybody got in."""
    async with inside(tmp_path, reply("Hello.")) as door:
        sid = await door.create(title="Private")
        await door.post(sid, "hello")
        await door.until_idle(sid)
        yield door, sid


def routes_of(door: Inside, sid: str) -> list[tuple[str, str]]:
    """Every method and path there is, and some that there are not."""
    values = {"session_id": sid, "seq": "2", "part": "0", "path": "/app.js"}
    found = {
        (method, re.sub(r"\{(\w+):\w+\}", lambda name: values[name[1]].lstrip("/"), route.path))
        for route in door.door.inner.routes
        for method in (*route.methods, "HEAD", "OPTIONS", "PUT", "TRACE", "MADEUP")
    }
    more = {("GET", path) for path in ("/nothing", "/api/nothing", "/static/x", "/.env", "/api/sessions/../info")}
    return sorted((found | more) - OPEN)


async def fingerprint(door: Inside) -> dict[str, Any]:
    store = (await door.door.server()).store
    return {header.session_id: header.last_seq for header in store.find(Query(limit=100)).headers}


def cookie(secret: Authenticator) -> str:
    return secret.cookie(SCOPE).partition(";")[0]


def ways_in(tmp_path: Path) -> dict[str, dict[str, str]]:
    """What is no way in."""
    ours = TokenFile(settings_in(tmp_path))
    other = TokenFile(settings_in(tmp_path / "other", token="another-token-of-more-than-32-characters"))
    expired = Authenticator(ours, now=lambda: 1_000_000_000.0)
    good = cookie(Authenticator(ours))
    return {
        "nothing": {},
        "wrong token": {"Authorization": "Bearer wrong-token-of-more-than-thirty-two-chars"},
        "half a token": {"Authorization": f"Bearer {TOKEN[:-1]}"},
        "longer token": {"Authorization": f"Bearer {TOKEN}x"},
        "empty token": {"Authorization": "Bearer "},
        "other scheme": {"Authorization": f"Basic {TOKEN}"},
        "no scheme": {"Authorization": TOKEN},
        "token as cookie": {"Cookie": f"outlast={TOKEN}"},
        "expired cookie": {"Cookie": cookie(expired)},
        "cookie of another token": {"Cookie": cookie(Authenticator(other))},
        "cookie with a later date": {"Cookie": re.sub(r"=\d+", lambda m: f"={int(m[0][1:]) + 1}", good)},
        "cookie without its signature": {"Cookie": good.partition(".")[0]},
        "wrong token, good cookie": {"Authorization": "Bearer wrong", "Cookie": good},
        "other header": {"X-Token": TOKEN},
    }


async def test_no_route_answers_without_the_token_and_nothing_happens(
    filled: tuple[Inside, str], tmp_path: Path
) -> None:
    door, sid = filled
    before = await fingerprint(door)
    transport = httpx.ASGITransport(app=door.door)
    refused: set[bytes] = set()
    async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}") as client:
        for name, headers in ways_in(tmp_path).items():
            for method, path in routes_of(door, sid):
                answer = await client.request(method, path, headers=headers, json=None)
                assert answer.status_code == 401, f"{name}: {method} {path} {answer.status_code}"
                if path != "/" and method != "HEAD":
                    refused.add(answer.content)
            answer = await client.get(f"/api/sessions?token={TOKEN}&access_token={TOKEN}", headers=headers)
            assert answer.status_code == 401
    assert len(refused) == 1  # nothing is to be learned from how it is refused
    assert await fingerprint(door) == before


async def test_the_login_page_and_health_say_nothing(filled: tuple[Inside, str]) -> None:
    door, sid = filled
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=door.door), base_url=f"http://{HOST}", follow_redirects=False
    ) as client:
        assert (await client.get("/healthz")).json() == {"status": "ok"}
        for path, status in (("/", 401), ("/login", 200), ("/login?code=guess", 401)):
            page = await client.get(path)
            assert page.status_code == status
            assert "outlast serve url" in page.text
            assert sid not in page.text
            assert str(door.project) not in page.text
            assert "set-cookie" not in page.headers
            assert "<script" not in page.text


async def test_a_login_link_works_once_and_becomes_a_strict_cookie(filled: tuple[Inside, str]) -> None:
    door, _ = filled
    path = (await door.api("POST", "/api/login"))["path"]
    same_origin = {"Origin": f"http://{HOST}"}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=door.door), base_url=f"http://{HOST}") as client:
        answer = await client.get(path)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        flags = answer.headers["set-cookie"].split("; ")
        assert {"HttpOnly", "SameSite=Strict", "Path=/", f"Max-Age={COOKIE_SECONDS}"} <= set(flags)
        assert TOKEN not in answer.headers["set-cookie"]
        assert (await client.get("/api/sessions")).status_code == 200
        assert (await client.get("/")).status_code == 200
        assert (await client.post("/api/sessions", headers=same_origin)).status_code == 200
        assert (await client.post("/api/sessions", headers={"Sec-Fetch-Site": "same-origin"})).status_code == 200
        for headers in ({}, {"Sec-Fetch-Site": "none"}, {"Origin": "null"}):
            assert (await client.post("/api/sessions", headers=headers)).status_code == 403
        assert (await client.post("/api/logout", headers=same_origin)).status_code == 200
        assert (await client.get("/api/sessions")).status_code == 401
        assert (await client.get(path)).status_code == 401


async def test_a_code_is_good_for_some_minutes(tmp_path: Path) -> None:
    now = [1000.0]
    secret = Authenticator(TokenFile(settings_in(tmp_path)), now=lambda: now[0])
    code, late = secret.code(), secret.code()
    assert secret.take(code)
    assert not secret.take(code)
    now[0] += 3600
    assert not secret.take(late)
    codes = [secret.code() for _ in range(100)]
    assert sum(secret.take(one) for one in codes) <= 16


HOSTILE_ORIGINS = [
    "http://evil.example", "https://evil.example", "null", "", f"https://{HOST}", f"http://{HOST}:8080",
    f"http://{HOST}.evil.example", f"http://evil.{HOST}", f"http://{HOST}@evil.example", f"http://{HOST}/",
    f"http://{HOST.upper()}", f"HTTP://{HOST}", f" http://{HOST} http://evil.example", "http://localhost:1",
    "http://127.0.0.1:1", "file://", "chrome-extension://abcdef", f"http://{HOST}\x00", "http://[::1]:1", HOST,
]  # fmt: skip


async def test_a_page_of_another_origin_gets_nothing_even_with_the_token(filled: tuple[Inside, str]) -> None:
    door, sid = filled
    before = await fingerprint(door)
    for origin in HOSTILE_ORIGINS:
        for headers in ([("Origin", origin)], [("Origin", f"http://{HOST}"), ("Origin", origin)]):
            for method, path in (("GET", "/api/sessions"), ("POST", f"/api/sessions/{sid}/end"), ("GET", "/api/info")):
                answer = await door.client.request(method, path, headers=headers)
                assert answer.status_code == 403, (headers, method, path)
                assert not [name for name in answer.headers if name.startswith("access-control")]
    assert await fingerprint(door) == before


async def test_a_page_of_another_site_gets_nothing(filled: tuple[Inside, str]) -> None:
    door, sid = filled
    for site in ("cross-site", "same-site", "Cross-Site", "SAME-SITE"):  # L9: in any case
        await _gets_nothing(door, sid, site)


async def _gets_nothing(door: Inside, sid: str, site: str) -> None:
    paths = (("GET", f"/api/sessions/{sid}"), ("POST", f"/api/sessions/{sid}/end"), ("GET", "/static/x.js"))
    for method, path in paths:
        answer = await door.client.request(method, path, headers={"Sec-Fetch-Site": site})
        assert answer.status_code == 403, (site, path)
    followed = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert (await door.client.get("/login", headers=followed)).status_code == 200
    assert (await door.client.get("/api/sessions", headers=followed)).status_code == 403
    framed = {**followed, "Sec-Fetch-Dest": "iframe"}
    assert (await door.client.get("/login", headers=framed)).status_code == 403


NOT_JSON = [
    "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonp", "",
    "application/json; charset=utf-16", "text/plain; application/json", "application/json, text/plain",
]  # fmt: skip


async def test_a_body_that_is_not_declared_as_json_is_refused(filled: tuple[Inside, str]) -> None:
    door, sid = filled
    path = f"/api/sessions/{sid}/messages"
    for kind in NOT_JSON:
        headers = {"Content-Type": kind} if kind else {}
        answer = await door.api("POST", path, content=b'{"content": "x"}', headers=headers, status=415)
        assert "application/json" in answer["detail"], kind
    zipped = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    await door.api("POST", path, content=b"\x1f\x8b", headers=zipped, status=415)
    assert len(await door.messages(sid)) == 2


async def test_json_may_name_its_charset_and_no_body_needs_no_type(filled: tuple[Inside, str]) -> None:
    door, sid = filled
    headers = {"Content-Type": 'application/json; charset="UTF-8"'}
    await door.api("POST", "/api/sessions", content=b"{}", headers=headers)
    await door.api("POST", f"/api/sessions/{sid}/archive")


async def test_every_answer_carries_the_security_headers(filled: tuple[Inside, str]) -> None:
    door, sid = filled
    for path in ("/", "/login", "/healthz", "/api/sessions", "/nothing", f"/api/sessions/{sid}/export?format=html"):
        answer = await door.client.get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert "camera=()" in answer.headers["permissions-policy"]
        assert "server" not in answer.headers
        assert not [name for name in answer.headers if name.startswith("access-control")]
    page = (await door.client.get("/")).headers["content-security-policy"]
    assert "require-trusted-types-for 'script'" in page
    refused = await door.client.get("/api/sessions", headers={"Authorization": "Bearer no"})
    assert refused.headers["x-frame-options"] == "DENY"
    assert refused.headers["www-authenticate"] == "Bearer"


async def test_a_token_that_is_replaced_ends_what_the_old_one_opened(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, token=None)
    door = create_app(settings)
    file = TokenFile(settings)
    old = file.token()
    transport = httpx.ASGITransport(app=door)
    async with door.lifespan(), httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}") as client:
        bearer = {"Authorization": f"Bearer {old}"}
        path = (await client.post("/api/login", headers=bearer)).json()["path"]
        await client.get(path)
        assert (await client.get("/api/sessions")).status_code == 200
        file.replace()
        assert (await client.get("/api/sessions")).status_code == 401
        assert (await client.get("/api/sessions", headers=bearer)).status_code == 401
        fresh = {"Authorization": f"Bearer {file.token()}"}
        assert (await client.get("/api/sessions", headers=fresh)).status_code == 200
    assert (tmp_path / "home" / "state" / "token").stat().st_mode & 0o777 == 0o600


async def test_with_a_public_url_the_proxys_page_is_ours_and_the_cookie_is_secure(tmp_path: Path) -> None:
    door = create_app(settings_in(tmp_path), public_url="https://agent.example")
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    transport = httpx.ASGITransport(app=door)
    async with door.lifespan(), httpx.AsyncClient(transport=transport, base_url="http://agent.example") as client:
        path = (await client.post("/api/login", headers=bearer)).json()["path"]
        assert "Secure" in (await client.get(path)).headers["set-cookie"]
        ours = {**bearer, "Origin": "https://agent.example"}
        assert (await client.post("/api/sessions", headers=ours)).status_code == 200
        theirs = {**bearer, "Origin": "http://agent.example", "X-Forwarded-Host": "agent.example"}
        assert (await client.post("/api/sessions", headers=theirs)).status_code == 403
        spoofed = {**bearer, "Host": "evil.example", "X-Forwarded-Host": "agent.example"}
        assert (await client.post("/api/sessions", headers=spoofed)).status_code == 403


async def test_as_many_as_there_are_places_for_and_then_a_503(filled: tuple[Inside, str]) -> None:
    door, _ = filled
    door.door.guard.places.most[False] = 1
    with door.door.guard.places.place(stream=False):
        refused = await door.client.get("/api/sessions")
        assert refused.status_code == 503
        assert "moment" in refused.json()["detail"]
    assert (await door.client.get("/api/sessions")).status_code == 200
