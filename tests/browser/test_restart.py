"""The server dies and comes back, the network goes, the browser is signed out, ten tabs look on: nothing is lost."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Visit, Visitor
from tests.browser.serving import Server

WORDS = " ".join(f"word{n}" for n in range(120))
LONG = {"content": f"# Long\n\n{WORDS}\n\n- end", "delay_ms": 800}
ENDLESS = {**LONG, "delay_ms": 20_000}


@pytest.fixture(autouse=True)
def _there(server: Server) -> None:
    """A test that failed with the server down does not fail the next."""
    server.be_there()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One that may be killed."""
    started = Server(tmp_path_factory.mktemp("killed"), [ENDLESS])
    yield started
    started.stop()


def streaming(page: Page) -> None:
    """Part of the reply is there, and not all of it."""
    expect(page.locator(".draft")).to_contain_text("word5")
    expect(page.locator(".draft")).not_to_contain_text("word119")


def test_a_killed_server_leaves_the_reply_interrupted_and_the_next_goes_on(visitor: Visitor, server: Server) -> None:
    session = server.new_session("Say something long", title="Killed")
    page = visitor.session(session)
    streaming(page)
    server.kill()
    expect(page.locator(".banner")).to_contain_text("Not connected")
    expect(page.locator(".row.reply").last).to_contain_text("word5")  # what was there stays
    page.fill("#composer", "Written while it was away")
    page.keyboard.press("Enter")
    expect(page.locator(".outgoing .badge")).to_have_text("being sent")
    server.say([LONG, {"content": "Short."}])
    server.start()
    broken = page.locator(".row.reply", has_text="This reply broke off; the model was asked again")
    expect(broken).to_be_visible()
    expect(page.locator(".banner")).to_be_hidden()
    broken.get_by_role("button").click()
    expect(broken).to_contain_text("word5")
    whole = page.locator(".row.reply:not(.draft)", has_text="word119")
    expect(whole.first).to_contain_text(WORDS)
    expect(page.locator(".row.user:not(.outgoing)")).to_have_count(2)
    kinds = [event["kind"] for event in server.call("GET", f"/api/sessions/{session}/events")]
    assert kinds.count("InputAdmitted") == 2
    assert kinds.count("ReplyInterrupted") == 1


def test_ten_tabs_end_with_the_same_text(visitor: Visitor, server: Server) -> None:
    """More than a browser has connections for: some of them ask again and again instead."""
    session = server.saying(LONG)
    tabs = [visitor.session(session) for _ in range(10)]
    server.post(session, "Say something long")
    for tab in tabs:
        reply = tab.locator(".row.reply:not(.draft)").first.locator(".prose")
        expect(reply).to_have_text(f"Long {WORDS} end", use_inner_text=True)
    for tab in tabs:
        tab.close()


def test_a_stream_that_is_cut_goes_on_without_a_gap_or_a_repeat(visitor: Visitor, server: Server) -> None:
    session = server.saying(LONG)
    page = visitor.followed(session, "cutting.js")
    server.post(session, "Say something long")
    reply = page.locator(".row.reply:not(.draft)").first
    expect(reply).to_contain_text(WORDS)
    expect(page.locator(".row.user")).to_have_count(1)
    assert page.evaluate("window.cuts") >= 3
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    events = server.call("GET", f"/api/sessions/{session}/events")
    page.wait_for_function("(seq) => window.ids.includes(String(seq))", arg=events[-1]["seq"])
    seen = page.evaluate("window.ids")
    durable = [one for one in seen if re.fullmatch(r"\d+", one)]
    assert durable == sorted(set(durable), key=int)
    assert [int(one) for one in durable] == [event["seq"] for event in events if event["seq"] >= int(durable[0])]


def test_a_browser_that_is_signed_out_is_told_how_to_come_back_and_goes_on(visit: Visit, server: Server) -> None:
    visitor = visit()
    page = visitor.session(server.saying({"content": "Here."}))
    page.fill("#composer", "Are you there?")
    page.keyboard.press("Enter")
    expect(page.locator(".row.reply:not(.draft)").first).to_contain_text("Here.")
    cookies = visitor.context.cookies()
    page.fill("#composer", "Kept until I am back")

    def signed_out(route: Route) -> None:
        """Not before it is posted: what the page asks for by itself would open the sheet while we still type."""
        visitor.context.clear_cookies()
        route.continue_()

    page.route("**/messages", signed_out, times=1)
    page.keyboard.press("Enter")
    sheet = page.get_by_role("dialog")
    expect(sheet).to_contain_text("outlast serve url")
    page.keyboard.press("Escape")
    expect(sheet).to_be_visible()  # there is nothing to see behind it
    expect(sheet.get_by_role("button", name="Try again")).to_be_focused()
    visitor.context.add_cookies(cookies)  # pyright: ignore[reportArgumentType]
    page.keyboard.press("Enter")  # or it has looked by itself just now
    expect(sheet).to_have_count(0)
    expect(page.locator(".row.user:not(.outgoing)").last).to_contain_text("Kept until I am back")


def test_another_tab_and_another_door_are_followed_live(visitor: Visitor, server: Server) -> None:
    session = server.saying({"content": "From elsewhere.", "delay_ms": 200}, {"content": "Again."})
    one, other = visitor.session(session), visitor.session(session)
    one.fill("#composer", "From the first tab")
    one.keyboard.press("Enter")
    expect(other.locator(".row.user")).to_have_text(re.compile("From the first tab"))
    expect(other.locator(".row.reply:not(.draft)").first).to_contain_text("From elsewhere.")
    server.call("PATCH", f"/api/sessions/{session}", {"title": "Renamed elsewhere"})
    expect(one.locator("h1.title")).to_have_text("Renamed elsewhere")
    expect(other.locator("h1.title")).to_have_text("Renamed elsewhere")
