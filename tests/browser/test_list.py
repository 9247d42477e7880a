"""The list of sessions: filters, search, pages, what they are doing, and the keys that move through it."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from outlast.core import events as e
from outlast.core.messages import Role, TextPart
from tests.browser.conftest import Visitor
from tests.browser.serving import Server
from tests.browser.writing import Writer, empty

MANY = 130
SHOP = {"project_root": "/srv/shop", "project_key": "a" * 16}
BANK = {"project_root": "/srv/bank", "project_key": "b" * 16}


@pytest.fixture(scope="module")
def server(silent: Server) -> Server:
    return silent


@pytest.fixture(scope="module")
def sessions(server: Server) -> dict[str, str]:
    """Sessions by what they are; the newest is written last."""
    made: dict[str, str] = {}
    with server.store() as store:
        store.commit(*[empty(f"Old session {n:03}", **(SHOP if n % 2 else BANK)) for n in range(MANY)])
        for state, event in {"ended": e.SessionClosed(), "archived": e.SessionArchived()}.items():
            writer = Writer(store, title=f"An {state} one", **SHOP)
            writer.add(event)
            made[state] = writer.id
        needle = Writer(store, title="Haystack", **SHOP)
        with needle.held():
            for n in range(300):
                needle.appended(Role.USER, f"hay {n}")
            needle.turn("Where is it?", [TextPart("The needle is in the 301st place.")])
            for n in range(300):
                needle.appended(Role.USER, f"more hay {n}")
        made["needle"] = needle.id
        waiting = Writer(store, title="Waiting one")
        waiting.asked("Is anybody there?")
        made["waiting"] = waiting.id
        cut = Writer(store, title="Interrupted one")
        cut.add(e.TurnStarted(inputs=[cut.asked("Do it")]), turn="t1")
        made["interrupted"] = cut.id
    return made


@pytest.fixture
def page(visitor: Visitor, sessions: dict[str, str]) -> Page:
    opened = visitor.tab(fresh=True)
    expect(titles(opened).first).to_have_text("Interrupted one")
    return opened


def titles(page: Page) -> Locator:
    return page.locator(".session-row .session-title")


def test_newest_activity_comes_first_with_what_each_is_doing(page: Page) -> None:
    for n, title in enumerate(("Interrupted one", "Waiting one", "Haystack")):
        expect(titles(page).nth(n)).to_have_text(title)
    for n, doing in enumerate(("Interrupted", "Waiting")):
        expect(page.locator(".session-row .dot").nth(n)).to_have_attribute("aria-label", doing)


def test_states_are_filtered_and_remembered(page: Page) -> None:
    """What was ended or archived is out of the way until it is asked for, or searched for."""
    expect(page.get_by_role("button", name="Active")).to_have_attribute("aria-pressed", "true")
    page.fill("#search", "An archived")
    expect(titles(page)).to_have_text(["An archived one"])
    page.fill("#search", "")
    expect(titles(page).first).to_have_text("Interrupted one")
    page.get_by_role("button", name="Archived").click()
    expect(titles(page)).to_have_text(["An archived one"])
    page.get_by_role("button", name="Ended").click()
    expect(titles(page)).to_have_text(["An ended one"])
    page.reload()
    expect(titles(page)).to_have_text(["An ended one"])
    page.get_by_role("button", name="All", exact=True).click()
    expect(titles(page).first).to_have_text("Interrupted one")


def test_a_project_is_chosen(page: Page) -> None:
    page.get_by_label("Project", exact=True).select_option(label="bank")
    expect(titles(page).first).to_have_text("Old session 128")
    expect(page.locator(".session-about").first).to_contain_text("bank")
    page.get_by_label("Project", exact=True).select_option(label="All projects")
    expect(titles(page).first).to_have_text("Interrupted one")


def test_further_pages_come_by_scrolling_and_the_document_stays_small(page: Page) -> None:
    page.wait_for_function(
        """() => {
        const box = document.querySelector('.session-list');
        box.scrollTop += 3000;
        window.mostRows = Math.max(window.mostRows ?? 0, box.querySelectorAll('.session-row').length);
        return box.textContent.includes('Old session 000');
      }"""
    )
    assert page.evaluate("window.mostRows") < 60


def test_titles_and_everything_that_was_said_are_searched(page: Page, sessions: dict[str, str]) -> None:
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    expect(page.locator("#search")).to_be_focused()
    page.keyboard.type("session 07")
    expect(titles(page).first).to_have_text("Old session 079")
    page.fill("#search", "needle")
    hit = page.locator(".session-row.hit")
    expect(hit).to_have_count(1)
    expect(hit.locator("mark")).to_have_text("needle")
    hit.click()
    expect(page).to_have_url(re.compile(f"#/s/{sessions['needle']}/at/"))
    found = page.locator(".row.reply", has_text="The needle is in the 301st place.")
    expect(found).to_be_in_viewport()
    page.locator("#search").focus()
    page.keyboard.press("Escape")
    expect(page.locator("#search")).to_have_value("")
    expect(titles(page).first).to_have_text("Interrupted one")
    page.fill("#search", "nowhere to be found")
    expect(page.locator(".list-status")).to_have_text("Nothing was found.")


def test_keys_move_through_the_list(page: Page) -> None:
    page.keyboard.press("Escape")
    for key, title in (("j", "Interrupted one"), ("j", "Waiting one"), ("ArrowDown", "Haystack"), ("k", "Waiting one")):
        page.keyboard.press(key)
        expect(page.locator(".session-row:focus .session-title")).to_have_text(title)
    page.keyboard.press("Enter")
    expect(page.locator("h1.title")).to_have_text("Waiting one")
    expect(page.locator(".session-row[aria-current=page] .session-title")).to_have_text("Waiting one")
    page.keyboard.press("Escape")
    page.keyboard.press("2")
    expect(page.locator(".tabs [aria-current=page]")).to_have_text("Timeline")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("next and previous session")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_session_that_is_not_there_is_told(visitor: Visitor, sessions: dict[str, str]) -> None:
    page = visitor.tab(f"#/s/{'a' * 26}")
    expect(page.locator(".nothing")).to_contain_text("Not here")
    short = visitor.session(sessions["needle"][:8])
    expect(short).to_have_url(re.compile(sessions["needle"]))


def test_waiting_and_interrupted_sessions_say_so_and_offer_to_go_on(visitor: Visitor, sessions: dict[str, str]) -> None:
    page = visitor.session(sessions["waiting"])
    banner = page.locator(".banner")
    expect(banner).to_contain_text("A message waits for an answer")
    expect(banner).to_contain_text("Is anybody there?")
    expect(page.locator(".badge.waits")).to_have_text("waiting for an answer")
    banner.get_by_role("button", name="Continue").click()
    expect(page.locator(".toast")).to_contain_text("--model none")
    page.goto(page.url.partition("#")[0] + f"#/s/{sessions['interrupted']}")
    expect(banner).to_contain_text("Interrupted between two steps")
    expect(banner.get_by_role("button")).to_have_text(["Continue", "Retry"])


def test_what_others_do_appears_by_itself(page: Page, server: Server) -> None:
    session = server.new_session(title="From another door")
    expect(titles(page).first).to_have_text("From another door")
    page.locator(f".session-row[data-id='{session}']").focus()
    server.call("PATCH", f"/api/sessions/{session}", {"title": "Renamed elsewhere"})
    expect(page.locator(".session-row:focus .session-title")).to_have_text("Renamed elsewhere")


def test_only_what_nobody_has_answered_waits_in_a_session_that_was_imported(visitor: Visitor, server: Server) -> None:
    with server.store() as store:
        writer = Writer(store, title="From elsewhere")
        writer.appended(Role.USER, "An old question")
        writer.appended(Role.ASSISTANT, "An old answer")
        writer.asked("A new question")
    page = visitor.session(writer.id)
    expect(page.locator(".row.user")).to_have_count(2)
    expect(page.locator(".row.user", has=page.locator(".badge.waits"))).to_have_count(1)
    expect(page.locator(".row.user").last).to_contain_text("waiting for an answer")
