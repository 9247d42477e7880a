"""Writing messages: keys, drafts that survive, queueing, steering, stopping; and that nothing typed is ever lost."""

from __future__ import annotations

import json
import re
import secrets
from pathlib import Path
from typing import Any

from playwright.sync_api import APIResponse, Locator, Page, Route, expect

from tests.browser.conftest import Visitor
from tests.browser.serving import Server

NOTHING_KEPT = "() => !Object.keys(localStorage).some((name) => name.includes('outbox.'))"
"""Whether the server has acknowledged every message of this browser."""
ENDLESS = {"content": "One two three four five six seven eight. " * 50, "delay_ms": 60_000}


def said(page: Page) -> Locator:
    return page.locator(".row.user:not(.outgoing) .said")


class Gate:
    """A call that takes as long as the test wants it to."""

    def __init__(self, server: Server) -> None:
        self._file = server.project / f"gate-{secrets.token_hex(4)}"
        command = f"until [ -e {self._file.name} ]; do sleep 0.05; done"
        self.call = {"content": "", "tool_calls": [{"name": "bash", "arguments": {"command": command}}]}

    def open(self) -> None:
        self._file.touch()


def send(page: Page, text: str, keys: str = "Enter") -> None:
    page.fill("#composer", text)
    page.keyboard.press(keys)


def running(visitor: Visitor, server: Server, *script: dict[str, Any]) -> tuple[str, Page]:
    """A session whose turn runs, on the screen."""
    session = server.saying(*script)
    page = visitor.session(session)
    send(page, "Begin")
    expect(page.locator(".head-state")).to_have_text("Running")
    return session, page


def test_a_new_session_begins_with_a_message(visitor: Visitor, server: Server) -> None:
    page = visitor.tab()
    expect(page.locator("#composer")).to_be_focused()
    send(page, "Hello from the start page")
    expect(page).to_have_url(re.compile(r"#/s/[a-z2-7]{26}$"))
    expect(page.locator("h1.title")).to_have_text("Hello from the start page")
    expect(page.locator(".row.reply:not(.draft)").first).to_contain_text("Answer 0.")
    expect(page.locator(".session-row[aria-current]")).to_contain_text("Hello from the start page")
    page.keyboard.press("Escape")
    page.keyboard.press("n")
    expect(page.locator("#composer")).to_have_value("")


def test_enter_sends_and_shift_enter_begins_a_line(visitor: Visitor, server: Server) -> None:
    page = visitor.session(server.new_session(title="Lines"))
    page.locator("#composer").press_sequentially("one")
    page.keyboard.press("Shift+Enter")
    page.locator("#composer").press_sequentially("two")
    expect(page.locator("#composer")).to_have_value("one\ntwo")
    page.keyboard.press("Enter")
    expect(page.locator("#composer")).to_have_value("")
    expect(page.locator(".row.user .said")).to_have_text(["one\ntwo"])
    expect(page.get_by_role("button", name="Send")).to_be_disabled()


def test_a_draft_survives_a_reload_and_belongs_to_its_session(visitor: Visitor, server: Server) -> None:
    one, other = server.new_session(title="One"), server.new_session(title="Other")
    page = visitor.session(one)
    page.fill("#composer", "half a thou")
    page.reload()
    expect(page.locator("#composer")).to_have_value("half a thou")
    page.goto(f"{server.url}/#/s/{other}")
    expect(page.locator("h1.title")).to_have_text("Other")
    expect(page.locator("#composer")).to_have_value("")
    page.goto(f"{server.url}/#/s/{one}")
    expect(page.locator("#composer")).to_have_value("half a thou")


def test_a_message_is_queued_while_a_turn_runs(visitor: Visitor, server: Server) -> None:
    gate = Gate(server)
    session, page = running(visitor, server, gate.call, {"content": "First this."}, {"content": "Then this."})
    send(page, "And then?")
    expect(page.locator(".badge.waits")).to_have_text("queued")
    gate.open()
    expect(page.locator(".row.reply:not(.draft)").last).to_contain_text("Then this.")
    expect(page.locator(".badge.waits")).to_have_count(0)
    expect(said(page)).to_have_text(["Begin", "And then?"])
    kinds = [event["kind"] for event in server.call("GET", f"/api/sessions/{session}/events")]
    assert kinds.count("TurnStarted") == 2


def test_control_enter_steers_the_running_turn(visitor: Visitor, server: Server) -> None:
    gate = Gate(server)
    session, page = running(visitor, server, gate.call, {"content": "Steered."})
    send(page, "Mind the gap", "Control+Enter")
    expect(page.locator(".badge.waits")).to_have_text("steers at the next step")
    gate.open()
    expect(page.locator(".row.reply:not(.draft)").last).to_contain_text("Steered.")
    events = server.call("GET", f"/api/sessions/{session}/events")
    inputs = [event["body"] for event in events if event["kind"] == "InputAdmitted"]
    assert [one.get("delivery", "queue") for one in inputs] == ["queue", "steer"]
    assert [event["kind"] for event in events].count("TurnStarted") == 1


def test_what_the_stream_has_told_is_not_undone_by_an_answer_that_comes_late(visitor: Visitor, server: Server) -> None:
    gate = Gate(server)
    session = server.saying(gate.call, {"content": "Done."})
    page = visitor.session(session)
    late = server.call("GET", f"/api/sessions/{session}?limit=1")
    late["session"]["title"] = "Told late"
    send(page, "Begin")
    expect(page.locator(".head-state")).to_have_text("Running")
    page.route("**/api/sessions/*?limit=1", lambda route: route.fulfill(json=late))
    server.call("PATCH", f"/api/sessions/{session}", {"title": "Something to look at"})
    expect(page.locator("h1.title")).to_have_text("Told late")
    expect(page.locator(".head-state")).to_have_text("Running")
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    gate.open()


def test_a_turn_is_stopped_by_the_button_and_by_its_key(visitor: Visitor, server: Server) -> None:
    _, page = running(visitor, server, ENDLESS)
    expect(page.locator(".draft")).to_contain_text("One")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".note-text.warn")).to_contain_text("Stopped")
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    send(page, "Again")
    expect(page.locator(".head-state")).to_have_text("Running")
    page.keyboard.press("Control+.")
    expect(page.locator(".note-text.warn")).to_have_count(2)
    expect(page.locator(".broke-off").first).to_contain_text("Interrupted")


def test_an_interrupting_message_is_answered_at_once(visitor: Visitor, server: Server) -> None:
    session, page = running(visitor, server, ENDLESS)
    page.get_by_label("How the message reaches the running turn").select_option("interrupt")
    expect(page.locator(".row.reply.draft")).to_contain_text("One")
    server.call("PATCH", f"/api/sessions/{session}", {"model": server.model({"content": "Something else."})})
    send(page, "Stop that, do this")
    expect(page.locator(".row.reply", has=page.locator(".broke-off"))).to_contain_text("One")  # what had come is kept
    expect(page.locator(".row.reply:not(.draft)").last).to_contain_text("Something else.")
    expect(said(page)).to_have_text(["Begin", "Stop that, do this"])


def test_a_message_that_cannot_be_sent_is_kept_and_arrives_once(visitor: Visitor, server: Server) -> None:
    session = server.new_session(title="Cut off")
    page = visitor.session(session)
    keys: list[str] = []

    def cut(route: Route) -> None:
        keys.append(json.loads(route.request.post_data or "{}")["key"])
        if len(keys) == 1:
            route.abort()
        elif len(keys) == 2:
            route.fetch()  # it arrives, but the answer is lost
            route.abort()
        else:
            route.continue_()

    page.route("**/messages", cut)
    send(page, "Important")
    expect(page.locator(".outgoing")).to_contain_text("Important")
    expect(page.locator(".row.user:not(.outgoing)")).to_contain_text("Important")
    expect(page.locator(".outgoing")).to_have_count(0)
    page.wait_for_function(NOTHING_KEPT)
    assert len(keys) == 3
    assert len(set(keys)) == 1
    events = server.call("GET", f"/api/sessions/{session}/events?kinds=InputAdmitted")
    assert len(events) == 1


def test_a_message_that_is_stored_before_it_is_acknowledged_is_shown_once(visitor: Visitor, server: Server) -> None:
    page = visitor.session(server.new_session(title="Slow answer"))
    answers: list[tuple[Route, APIResponse]] = []
    page.route("**/messages", lambda route: answers.append((route, route.fetch())))
    send(page, "Once, please")
    expect(page.locator(".row.reply:not(.draft)").first).to_contain_text("Answer")
    expect(page.locator(".row.user .said")).to_have_text(["Once, please"])
    [(route, answer)] = answers
    route.fulfill(response=answer)
    page.wait_for_function(NOTHING_KEPT)
    expect(page.locator(".row.user .said")).to_have_text(["Once, please"])


def test_a_message_that_is_posted_again_is_shown_once(visitor: Visitor, server: Server) -> None:
    session = server.new_session(title="Opened again too soon")
    page = visitor.session(session)
    answers: list[tuple[Route, APIResponse]] = []
    page.route("**/messages", lambda route: answers.append((route, route.fetch())))
    send(page, "Once, please")
    expect(page.locator(".row.reply:not(.draft)").first).to_contain_text("Answer")
    page.goto(f"{server.url}/#/")
    expect(page.locator(".row")).to_have_count(0)
    page.goto(f"{server.url}/#/s/{session}")
    expect(page.locator(".row.reply:not(.draft)").first).to_contain_text("Answer")
    expect(page.locator(".row.user .said")).to_have_text(["Once, please"])  # it is on its way again, and known
    route, answer = answers[-1]
    route.fulfill(response=answer)
    page.wait_for_function(NOTHING_KEPT)
    expect(page.locator(".row.user .said")).to_have_text(["Once, please"])


def test_a_message_that_was_not_sent_before_a_reload_is_sent_after_it(visitor: Visitor, server: Server) -> None:
    session = server.new_session(title="Reloaded")
    page = visitor.session(session)
    page.route("**/messages", lambda route: route.abort())
    send(page, "Do not forget me")
    expect(page.locator(".outgoing .badge")).to_have_text("being sent")
    page.unroute("**/messages")
    page.reload()
    expect(page.locator(".row.reply:not(.draft)").first).to_contain_text("Answer")
    expect(said(page)).to_have_text(["Do not forget me"])


def test_a_message_that_is_refused_can_be_edited(visitor: Visitor, server: Server, picture: Path) -> None:
    session = server.new_session(title="Will be ended")
    page = visitor.session(session)
    page.route("**/messages", lambda route: route.fulfill(status=409, json={"detail": "session has ended"}))
    page.locator("input[type=file]").set_input_files(picture)
    expect(page.locator(".chosen-one")).to_have_count(1)
    send(page, "Too late")
    expect(page.locator(".outgoing .badge.bad")).to_have_text("session has ended")
    page.get_by_role("button", name="Edit").click()
    expect(page.locator("#composer")).to_have_value("Too late")
    expect(page.locator(".chosen-one")).to_have_count(1)
    expect(page.locator(".outgoing")).to_have_count(0)


def test_an_ended_session_takes_no_message(visitor: Visitor, server: Server) -> None:
    session = server.new_session(title="Ended")
    server.call("POST", f"/api/sessions/{session}/end")
    page = visitor.session(session)
    expect(page.locator(".banner")).to_contain_text("This session has ended")
    expect(page.locator("#composer")).to_be_disabled()
    page.locator(".banner").get_by_role("button", name="Reopen").click()
    expect(page.locator("#composer")).to_be_enabled()
    expect(page.locator(".banner")).to_be_hidden()
