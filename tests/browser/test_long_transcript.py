"""A transcript of 10,000 messages: only what is near is in the document, and what is read stays in place."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from outlast.core import events as e
from outlast.core.messages import Role, TextPart
from outlast.store.port import Append, NewEvent
from tests.browser.conftest import Visitor
from tests.browser.serving import Server
from tests.browser.writing import Writer

MESSAGES = 10_000
MOST_NODES = 6_000


@pytest.fixture(scope="module")
def long(server: Server) -> str:
    with server.store() as store:
        writer = Writer(store, title="Ten thousand")
        for begin in range(0, MESSAGES, 500):
            events = tuple(NewEvent(event=said(n), actor="user/test") for n in range(begin, begin + 500))
            store.commit(Append(session_id=writer.id, events=events))
        return writer.id


def said(n: int) -> e.Event:
    if n % 2 == 0:
        return e.MessageAppended(role=Role.USER, parts=(TextPart(f"Message {n}"),))
    text = f"Reply **{n}**\n\n" + "\n\n".join(f"Paragraph {k} of {n}." for k in range(n % 7))
    return e.MessageAppended(role=Role.ASSISTANT, parts=(TextPart(text),))


def nodes(page: Page) -> int:
    return int(page.evaluate("document.querySelectorAll('*').length"))


def top(page: Page) -> tuple[str, float]:
    """The first row in sight, and where it begins, as it is painted: what a script changed since the last frame is
    moved into its place only when sizes are observed, so this looks just after that."""
    found: list[str | float] = page.evaluate(
        """() => new Promise((resolve) => {
        const probe = document.createElement('div');
        probe.textContent = 'probe';
        const observer = new ResizeObserver(() => {
          const edge = document.querySelector('.transcript').getBoundingClientRect().top;
          const rows = [...document.querySelectorAll('.transcript .row')];
          const row = rows.find((one) => one.getBoundingClientRect().bottom > edge + 1);
          observer.disconnect();
          probe.remove();
          resolve(row ? [row.dataset.seq, row.getBoundingClientRect().top - edge] : ['none', 0]);
        });
        document.body.append(probe);
        observer.observe(probe);
      })"""
    )
    return str(found[0]), float(found[1])


def settled(page: Page) -> tuple[str, float]:
    """The same, once it stays: the wheel has its own momentum."""
    before, seen = top(page), 0
    while seen < 5:
        now = top(page)
        seen = seen + 1 if now == before else 0
        before = now
    return before


def test_it_opens_at_its_end_with_a_small_document(visitor: Visitor, long: str) -> None:
    page = visitor.session(long)
    expect(page.get_by_text(f"Message {MESSAGES - 2}", exact=True)).to_be_in_viewport()
    assert nodes(page) < MOST_NODES
    expect(page.locator(".jump")).to_be_hidden()


def test_it_stays_small_on_the_way_up_to_its_beginning(visitor: Visitor, long: str) -> None:
    page = visitor.session(long)
    expect(page.locator(".row.reply").last).to_be_visible()
    for _ in range(12):
        scroll(page)
        assert nodes(page) < MOST_NODES
    pages: list[str] = []
    page.on("request", lambda request: pages.append(request.url) if "before=" in request.url else None)
    page.goto(f"{visitor.server.url}/#/s/{long}/at/2")
    expect(page.get_by_text("Message 0", exact=True)).to_be_in_viewport()
    expect(page.get_by_text("The beginning of this session")).to_be_visible()
    assert nodes(page) < MOST_NODES
    assert len(pages) < 30  # a long way is gone in large steps
    page.locator(".jump").click()
    expect(page.get_by_text(f"Message {MESSAGES - 2}", exact=True)).to_be_in_viewport()


@pytest.mark.soak
def test_it_scrolls_smoothly_all_the_way_up(visitor: Visitor, long: str) -> None:
    page = visitor.session(long)
    expect(page.locator(".row.reply").last).to_be_visible()
    most, slowest = 0, 0.0
    for _ in range(400):
        slowest = max(slowest, scroll(page))
        most = max(most, nodes(page))
        if page.get_by_text("The beginning of this session").count():
            break
    expect(page.get_by_text("Message 0", exact=True)).to_be_visible()
    assert most < MOST_NODES
    assert slowest < 500  # milliseconds between two frames, on a machine that does other things too


def scroll(page: Page) -> float:
    """To the top of what is loaded; the longest time between two frames meanwhile."""
    return float(
        page.evaluate(
            """() => new Promise((resolve) => {
            const box = document.querySelector('.transcript');
            let last = performance.now(), slowest = 0, frames = 0;
            box.scrollTop = 0;
            const frame = (now) => {
              slowest = Math.max(slowest, now - last); last = now;
              if (++frames < 4) requestAnimationFrame(frame); else resolve(slowest);
            };
            requestAnimationFrame(frame);
          })"""
        )
    )


def test_what_is_read_stays_in_place_when_older_messages_come_in_front(visitor: Visitor, long: str) -> None:
    page = visitor.session(long)
    expect(page.locator(".row.reply").last).to_be_visible()
    held: list[str] = []
    page.route("**/api/sessions/*?*before=*", lambda route: held.append(route.request.url) or route.fallback())
    page.evaluate("document.querySelector('.transcript').scrollTop = 300")
    page.wait_for_function(
        "() => document.querySelector('.transcript').scrollTop > 3000"
    )  # older ones are in front now
    assert held
    row, at = top(page)
    for _ in range(12):
        assert top(page) == (row, pytest.approx(at, abs=2))


def test_the_end_is_followed_only_by_those_who_are_there(visitor: Visitor, server: Server, long: str) -> None:
    page = visitor.session(long)
    expect(page.locator(".row.reply").last).to_be_visible()
    with server.store() as store:
        for n in range(3):
            event = e.MessageAppended(
                role=Role.ASSISTANT, parts=(TextPart(f"New at the end {n}\n\n" + "more\n\n" * 8),)
            )
            store.commit(Append(session_id=long, events=(NewEvent(event=event),)))
        expect(page.get_by_text("New at the end 2")).to_be_in_viewport()
        page.locator(".transcript").hover()
        page.mouse.wheel(0, -400)
        expect(page.locator(".jump")).to_be_visible()
        before = settled(page)
        event = e.MessageAppended(role=Role.ASSISTANT, parts=(TextPart("Not followed"),))
        store.commit(Append(session_id=long, events=(NewEvent(event=event),)))
    expect(page.locator("[data-seq]", has_text="Not followed")).to_have_count(1)
    assert top(page) == (before[0], pytest.approx(before[1], abs=2))
    page.keyboard.press("Escape")
    page.keyboard.press("End")
    expect(page.get_by_text("Not followed")).to_be_in_viewport()


def test_the_place_is_kept_while_another_view_is_looked_at(visitor: Visitor, long: str) -> None:
    page = visitor.session(long)
    expect(page.locator(".row.reply").last).to_be_visible()
    page.locator(".transcript").hover()
    page.mouse.wheel(0, -1500)
    expect(page.locator(".jump")).to_be_visible()
    before = settled(page)
    page.locator(".tabs").get_by_role("link", name="Ledger").click()
    expect(page.locator(".empty")).to_be_visible()
    page.locator(".tabs").get_by_role("link", name="Transcript").click()
    expect(page.locator(".row").first).to_be_attached()
    assert top(page) == (before[0], pytest.approx(before[1], abs=2))
