"""A page of somebody else, in a browser that is signed in: it can neither read a thing nor make anything happen.

It stands on another port of the same host (the same site, so cookies with SameSite go along) and on another name.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from tests.browser.conftest import DESKTOP
from tests.browser.serving import Server

ATTACKS = (Path(__file__).parent / "attack.js").read_text()


@pytest.fixture(scope="module")
def attacker() -> Iterator[int]:
    """Somebody else's server; its port."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>Nice page</title><body>Nothing to see")

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def server(silent: Server) -> Server:
    return silent


@pytest.fixture(scope="module")
def context(browser: Browser) -> Iterator[BrowserContext]:
    made = browser.new_context(viewport=DESKTOP)
    yield made
    made.close()


@pytest.fixture
def victim(context: BrowserContext, server: Server) -> Iterator[Page]:
    """A tab of a browser that is signed in."""
    page = context.pages[0] if context.pages else context.new_page()
    page.goto(server.url + server.call("POST", "/api/login")["path"])
    page.locator("#composer").wait_for()
    yield page
    for opened in context.pages[1:]:
        opened.close()


def named(page: Page, kind: str) -> str:
    found = page.locator(f"head {kind}").first
    return str(found.get_attribute("src") or found.get_attribute("href"))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("target", ["127.0.0.1", "localhost"])
def test_an_attack_page_reads_nothing_and_does_nothing(
    victim: Page, server: Server, attacker: int, host: str, target: str
) -> None:
    session = server.new_session(title="Precious")
    server.post(session, "Secret words")
    before = everything(server)
    given = {
        "target": f"http://{target}:{server.port}",
        "id": session,
        "script": named(victim, "script[type=module]"),
        "style": named(victim, "link[rel=stylesheet]"),
    }
    victim.goto(f"http://{host}:{attacker}/")
    outcomes: dict[str, str] = victim.evaluate(ATTACKS, given)
    assert len(outcomes) == 24
    assert [f"{name}: {what}" for name, what in outcomes.items() if not what.startswith(("nothing", "refused"))] == []
    assert everything(server) == before
    for opened in victim.context.pages:
        opened.wait_for_load_state()
        assert opened.title() != "Precious"


def everything(server: Server) -> str:
    """All that there is, to the last event."""
    rows = server.call("GET", "/api/sessions?limit=1000")
    events = {row["id"]: server.call("GET", f"/api/sessions/{row['id']}/events?limit=1000") for row in rows}
    return json.dumps([rows, events], sort_keys=True)


def test_the_page_cannot_be_framed_and_tells_nobody_where_it_is(victim: Page, server: Server) -> None:
    answer = victim.goto(server.url)
    assert answer is not None
    headers = answer.headers
    assert headers["x-frame-options"] == "DENY"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert "access-control-allow-origin" not in headers
    assert headers["x-dns-prefetch-control"] == "off"


def test_the_files_of_the_page_need_the_cookie_too(victim: Page, server: Server) -> None:
    address = server.url + named(victim, "script[type=module]")
    assert victim.context.request.get(address).status == 200
    victim.context.clear_cookies()
    assert victim.context.request.get(address).status == 401
