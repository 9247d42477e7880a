"""How the page looks and feels: light and dark, a phone's width, names for everything, no unwanted motion."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from outlast.core import events as e
from outlast.core.messages import TextPart
from tests.browser.conftest import HERE, Visit, Visitor
from tests.browser.serving import Server
from tests.browser.writing import Writer, thought

LONG = "x" * 300
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}


@pytest.fixture(scope="module")
def server(silent: Server) -> Server:
    return silent


@pytest.fixture(scope="module")
def session(server: Server) -> str:
    """One of everything, with texts that do not fit anywhere."""
    with server.store() as store:
        writer = Writer(store, title=f"Long {LONG}", model=f"m:{LONG[:60]}", project_root=f"/srv/{LONG[:60]}")
        asked = writer.asked(f"Please {LONG}")
        writer.add(e.TurnStarted(inputs=[asked]), turn="t1")
        call = writer.call("bash", {"command": f"echo {LONG}"})
        writer.replied(thought(LONG), TextPart("Look."), call)
        writer.finished(call, f"{LONG}\n" * 30)
        table = "|" + "wide cell|" * 12 + "\n|" + "-|" * 12 + "\n|" + f"{LONG[:30]}|" * 12
        writer.replied(TextPart(f"{LONG}\n\n```py\n{LONG}\n```\n\n{table}\n\nhttps://example.org/{LONG}"))
        writer.add(e.TurnEnded(outcome="completed", answered=[asked]), turn="t1")
        question = writer.asked("And now?")
        writer.add(e.TurnStarted(inputs=[question]), turn="t2")
        again = writer.call("bash", {"command": f"rm {LONG}"})
        writer.replied(again)
        writer.add(
            e.ApprovalRequested(call_id=again.id, name="bash", arguments=again.arguments, call_digest="d", reason=LONG),
            turn="t2",
        )
        return writer.id


LIGHT, DARK = "rgb(255, 254, 252)", "rgb(21, 25, 27)"


def paper(page: Page, colour: str) -> None:
    expect(page.locator("body")).to_have_css("background-color", colour)


def test_colours_follow_the_system_until_they_are_chosen(visitor: Visitor) -> None:
    page = visitor.tab()
    page.emulate_media(color_scheme="dark")
    paper(page, DARK)
    page.emulate_media(color_scheme="light")
    paper(page, LIGHT)
    button = page.get_by_role("button", name="Colours")
    for chosen, colour in (("light", LIGHT), ("dark", DARK)):
        button.click()
        expect(button).to_have_attribute("title", f"Colours: {chosen}")
        paper(page, colour)
    page.reload()
    paper(page, DARK)
    button.click()
    paper(page, LIGHT)


VIEWS = ("", "/timeline", "/ledger", "/usage", "/tree")


def row_of(page: Page, session: str) -> Locator:
    return page.locator(f".session-row[data-id='{session}']")


def shown(page: Page, view: str) -> None:
    """That view is there, and no other any more."""
    expect(page.locator(f".pane[data-view={view.strip('/') or 'transcript'}]")).to_be_visible()
    expect(page.locator(".row.user" if not view else ".view > :not(.loading)").first).to_be_visible()


@pytest.fixture(scope="module")
def phone(browser: Browser, server: Server) -> Iterator[Visitor]:
    made = Visitor(browser, server, **PHONE)
    yield made
    made.leave()
    made.context.close()


def test_nothing_is_wider_than_a_phone(phone: Visitor, session: str) -> None:
    page = phone.tab()
    expect(row_of(page, session)).to_be_visible()
    for view in VIEWS:
        page.goto(f"{phone.server.url}/#/s/{session}{view}")
        shown(page, view)
        assert overflowing(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") == 360
    page.goto(f"{phone.server.url}/#/stats")
    expect(page.locator(".tile").first).to_be_visible()
    assert overflowing(page) == []
    phone.leave()


def overflowing(page: Page) -> list[str]:
    """What sticks out to the right and is not inside something that scrolls."""
    found: list[str] = page.evaluate(
        """() => {
        const kept = (node) => ['auto', 'scroll', 'hidden'].includes(getComputedStyle(node).overflowX);
        const scrolls = (node) => node && (kept(node) || scrolls(node.parentElement));
        return [...document.querySelectorAll('body *')]
          .filter((node) => !node.closest('.unseen, .skip') && node.getBoundingClientRect().width > 0)
          .filter((node) => node.getBoundingClientRect().right > innerWidth + 1 && !scrolls(node.parentElement))
          .map((node) => `${node.tagName} ${node.className?.baseVal ?? node.className}`);
      }"""
    )
    return found


def test_what_is_to_be_answered_is_told_on_a_phone_however_long_the_call_is(phone: Visitor, session: str) -> None:
    page = phone.session(session)
    words = page.locator(".tool.asked .tool-words")
    expect(words).to_have_text("waits for your answer")
    assert not words.evaluate("(node) => node.scrollWidth > node.clientWidth")  # not cut
    phone.leave()


def test_the_timeline_fits_a_phone_however_long_its_words_are(phone: Visitor, server: Server) -> None:
    with server.store() as store:
        writer = Writer(store, title="Long words")
        words = {"kind": "completion_complete_after_a_long_way", "mode": "execute", "evidence_summary": ["48 passed"]}
        writer.add(e.TimelineRecorded(entry={**words, "timestamp": "2026-03-04T10:11:12+00:00"}))
    page = phone.session(writer.id, "/timeline")
    expect(page.locator(".timeline .time")).to_be_visible()
    found = page.locator(".timeline").evaluate("(list) => [list.scrollWidth, list.clientWidth]")
    assert found[0] == found[1]
    phone.leave()


def test_help_is_read_from_its_beginning_on_a_phone(phone: Visitor) -> None:
    page = phone.tab()
    page.get_by_role("button", name="Keys and help").tap()
    expect(page.get_by_role("heading", name="Keys and marks")).to_be_in_viewport()
    expect(page.get_by_role("button", name="Close")).to_be_focused()
    phone.leave()


def test_a_phone_shows_the_list_or_a_session_and_goes_back(phone: Visitor, session: str) -> None:
    page = phone.tab()
    row_of(page, session).tap()
    expect(page.locator(".transcript")).to_be_visible()
    expect(page.locator(".sidebar")).to_be_hidden()
    expect(page.get_by_role("button", name="Allow once")).to_be_in_viewport()
    expect(page.locator("#composer")).to_be_in_viewport()
    page.get_by_role("link", name="All sessions").tap()
    expect(page.locator(".sidebar")).to_be_visible()
    expect(page.locator("#composer")).to_be_visible()


def test_everything_that_can_be_used_has_a_name(visitor: Visitor, session: str) -> None:
    page = visitor.tab()
    expect(row_of(page, session)).to_be_visible()
    assert nameless(page) == []
    for view in VIEWS:
        page.goto(f"{visitor.server.url}/#/s/{session}{view}")
        shown(page, view)
        expect(page.locator(".question")).to_be_visible()
        unfold(page)
        assert nameless(page) == []


def unfold(page: Page) -> None:
    """Open every fold, also those in what was unfolded."""
    page.wait_for_function(
        """() => {
        const folded = document.querySelectorAll('.row .fold-line[aria-expanded=false]');
        folded.forEach((line) => line.click());
        return !folded.length;
      }"""
    )


def nameless(page: Page) -> list[str]:
    """Controls without an accessible name, as the browser computes it."""
    client: Any = page.context.new_cdp_session(page)
    client.send("Accessibility.enable")
    nodes: list[dict[str, Any]] = client.send("Accessibility.getFullAXTree")["nodes"]
    roles = {"button", "link", "textbox", "searchbox", "combobox", "checkbox", "menuitem", "region", "img", "dialog"}
    found = [
        f"{node['role']['value']} {node.get('backendDOMNodeId')}"
        for node in nodes
        if not node.get("ignored") and node["role"]["value"] in roles and not node.get("name", {}).get("value")
    ]
    client.detach()
    return found


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_every_text_can_be_read(visit: Visit, session: str, colours: str) -> None:
    page = visit(color_scheme=colours).tab()
    expect(row_of(page, session)).to_be_visible()
    faint = (HERE / "contrast.js").read_text()
    assert page.evaluate(faint) == []
    for view in VIEWS:
        page.goto(f"{page.url.partition('#')[0]}#/s/{session}{view}")
        shown(page, view)
        expect(page.locator(".question")).to_be_visible()
        unfold(page)
        assert page.evaluate(faint) == []


def test_the_page_is_used_with_the_keyboard_alone(visitor: Visitor, session: str) -> None:
    page = visitor.session(session)
    expect(page.locator(".question")).to_be_visible()
    page.locator("#skip").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#composer")).to_be_focused()
    wanted = ["Deny", "Allow once", "Transcript", "Actions", "Search sessions and messages"]
    for _ in range(200):
        page.keyboard.press("Shift+Tab")
        name = page.evaluate("document.activeElement.getAttribute('aria-label') || document.activeElement.innerText")
        wanted = wanted[1:] if wanted[0] in name else wanted
        if not wanted:
            break
    assert wanted == []  # all of them were come by, in this order


def test_a_screen_reader_hears_of_questions_and_of_connections(visitor: Visitor, session: str) -> None:
    page = visitor.session(session)
    expect(page.get_by_role("feed", name="Transcript")).to_be_visible()
    expect(page.get_by_role("article").first).to_be_visible()
    places = page.locator("article").evaluate_all("(rows) => rows.map((row) => Number(row.ariaPosInSet))")
    assert places == sorted(set(places))
    expect(page.locator("#spoken")).to_have_attribute("aria-live", "polite")
    expect(page.locator(".head-state")).to_have_attribute("role", "status")


def test_motion_is_left_out_where_it_is_not_wanted(visitor: Visitor, session: str) -> None:
    page = visitor.session(session)  # which wants none
    expect(page.locator(".draft .spinner")).to_be_visible()
    expect(page.locator(".draft .spinner")).to_have_css("animation-duration", "1e-05s")


def test_those_who_are_not_signed_in_get_a_page_that_says_how(visit: Visit) -> None:
    visitor = visit()
    visitor.context.clear_cookies()
    page = visitor.context.new_page()
    answer = page.goto(visitor.server.url)
    assert answer is not None
    assert answer.status == 401
    expect(page.locator("pre")).to_have_text("outlast serve url")
    assert page.evaluate("document.scripts.length") == 0
    paper(page, "rgb(245, 243, 238)")  # its style came along, and was allowed
