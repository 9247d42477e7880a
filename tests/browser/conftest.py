"""A real Chromium and real servers for all the tests of this folder; every page is watched while it is open.

What a page must never do fails the test whatever it is about: an error in a script, a breach of the policy, a request
to anybody else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, expect, sync_playwright

from tests.browser.serving import Server
from tests.browser.watching import Watch
from tests.conftest import needs

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--in-process-gpu",
    "--process-per-site",  # a tab costs half then
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE = 20_000  # milliseconds; the machine may do other things, too
expect.set_options(timeout=PATIENCE)
HERE = Path(__file__).parent
BLANK = "about:blank"
UNTOUCHED = """() => !document.querySelector("dialog[open], .menu, .toast")
  && !document.querySelector("#search")?.value
  && !document.querySelector("select.project")?.value
  && document.querySelector(".sidebar [aria-pressed=true]")?.dataset.state === "active" """
"""Whether nothing is open, searched for or chosen that the next test would find so; else the page is loaded anew."""
DESKTOP: ViewportSize = {"width": 1280, "height": 800}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """These tests share a browser and servers, so they share a worker."""
    for item in items:
        if "browser" in item.path.parts:
            item.add_marker(pytest.mark.xdist_group("browser"))
            item.add_marker("integration")


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One for all: where it runs no test may have an event loop of its own, so it ends with this folder."""
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=needs("chromium"), args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture(scope="package")
def talking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Answers: `Answer 0.`, `Answer 1.`, ... in every session that has no script of its own."""
    script = [{"content": f"Answer {n}."} for n in range(20)]
    started = Server(tmp_path_factory.mktemp("talking"), script, "--allow", "bash")
    yield started
    started.stop()


@pytest.fixture(scope="package")
def silent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Never answers, so what a log holds stays as it was written."""
    started = Server(tmp_path_factory.mktemp("silent"))
    yield started
    started.stop()


@pytest.fixture(scope="module")
def server(talking: Server) -> Server:
    """Whom the tests of a module talk to. A module that wants another one has its own fixture of this name."""
    return talking


def drawn(page: Page) -> None:
    """What the page has heard so far is on the screen."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def _with_size(options: dict[str, Any]) -> dict[str, Any]:
    return {"viewport": DESKTOP, "reduced_motion": "reduce", **options}


class Visitor:
    """A browser profile that is signed in, and its tabs."""

    def __init__(self, browser: Browser, server: Server, **options: Any) -> None:
        self.server = server
        self.watch = Watch(server.url)
        self.idle: Page | None = None
        self.context: BrowserContext = browser.new_context(**_with_size(options))
        self.context.set_default_timeout(PATIENCE)
        self.watch.follow(self.context)
        self.context.request.get(server.url + self.server.call("POST", "/api/login")["path"])

    def tab(self, place: str = "#/", *, fresh: bool = False) -> Page:
        """A tab at that place: the one that is left from the test before, which is cheaper, or another one. A fresh one
        is loaded anew."""
        page = self.idle or self.context.new_page()
        self.idle = None
        if fresh:
            page.goto(BLANK)
        page.goto(f"{self.server.url}/{place}")
        return page

    def session(self, session_id: str, view: str = "") -> Page:
        page = self.tab(f"#/s/{session_id}{view}")
        expect(page.locator(f".pane[data-id^='{session_id}'] h1.title")).to_have_text(re.compile("."))
        return page

    def followed(self, session_id: str, script: str) -> Page:
        """A session in a tab of its own, whose stream goes through that script; it is open."""
        page = self.context.new_page()
        page.add_init_script(path=HERE / script)
        with page.expect_response(re.compile("/stream")):
            page.goto(f"{self.server.url}/#/s/{session_id}")
        return page

    def leave(self) -> None:
        """Close every tab but one, and forget what the page remembered. What no page may do is an error now."""
        first, *others = self.context.pages or [self.context.new_page()]
        for page in others:
            page.close()
        if first.url.startswith(self.server.url):
            first.evaluate("localStorage.clear(); location.hash = '#/'")
            if not first.evaluate(UNTOUCHED):
                first.goto(BLANK)
        first.unroute_all()
        self.idle = first
        self.watch.assert_clean()


Visit = Callable[..., Visitor]


@pytest.fixture
def visit(browser: Browser, server: Server) -> Iterator[Visit]:
    """Visitors with profiles of their own."""
    visitors: list[Visitor] = []

    def come(**options: Any) -> Visitor:
        visitors.append(Visitor(browser, server, **options))
        return visitors[-1]

    yield come
    for visitor in visitors:
        visitor.leave()
        visitor.context.close()


@pytest.fixture(scope="package")
def profiles(browser: Browser) -> Iterator[dict[str, Visitor]]:
    """One profile for each server: its files are loaded once."""
    made: dict[str, Visitor] = {}
    yield made
    for visitor in made.values():
        visitor.context.close()


@pytest.fixture(scope="module", autouse=True)
def _no_tab_outlives_its_server(profiles: dict[str, Visitor]) -> Iterator[None]:
    yield
    for url in [url for url, visitor in profiles.items() if not visitor.server.is_there]:
        profiles.pop(url).context.close()


@pytest.fixture
def visitor(browser: Browser, server: Server, profiles: dict[str, Visitor]) -> Iterator[Visitor]:
    if server.url not in profiles:
        profiles[server.url] = Visitor(browser, server)
    yield profiles[server.url]
    profiles[server.url].leave()


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    """A picture of one pixel."""
    path = tmp_path / "pixel.png"
    path.write_bytes(
        bytes.fromhex(
            "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
            "0000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
        )
    )
    return path
