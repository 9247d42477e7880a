"""Approvals and the model's own questions: shown to the letter, answered once, and never by a stray key."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Visitor, drawn
from tests.browser.serving import Server

READINGS = re.compile(r"/approvals$")
HIDDEN = "echo safe\u202e \u200b# ok\tx  "


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    started = Server(tmp_path_factory.mktemp("asking"), [{"content": "x"}], mode="prompt")
    yield started
    started.stop()


def calling(name: str, **arguments: Any) -> dict[str, Any]:
    return {"content": "", "tool_calls": [{"name": name, "arguments": arguments}]}


def asked(visitor: Visitor, server: Server, *script: dict[str, Any]) -> tuple[str, Page]:
    """A session whose turn asks something, on the screen."""
    session = server.saying(*script, {"content": "It is done."})
    page = visitor.session(session)
    page.fill("#composer", "Go")
    page.keyboard.press("Enter")
    expect(page.locator(".question")).to_be_visible()
    expect(page.locator(".head-state")).to_have_text("Needs your answer")
    return session, page


def answers(server: Server, session: str) -> list[str]:
    events = server.call("GET", f"/api/sessions/{session}/events?kinds=ApprovalAnswered")
    return [event["body"]["answer"] for event in events]


def over(page: Page) -> None:
    expect(page.locator(".row.reply:not(.draft)", has_text="It is done.")).to_be_visible()
    expect(page.locator(".question")).to_have_count(0)


def test_a_command_is_shown_to_the_letter_and_allowed_once(visitor: Visitor, server: Server) -> None:
    session, page = asked(visitor, server, calling("bash", command=HIDDEN, timeout=9))
    question = page.locator(".question")
    expect(question.locator("h2")).to_contain_text("Allow bash")
    expect(question.locator("pre.command")).to_have_text("echo safe<U+202E> <U+200B># ok<TAB>x··")
    expect(question.locator("mark.spelled")).to_have_text(["<U+202E>", "<U+200B>", "<TAB>", "··"])
    expect(question).to_contain_text("timeout = 9")
    expect(question.get_by_role("button")).to_have_text(
        ["Allow once", "Allow in this session", "Always allow here", "Deny"]
    )
    expect(page.locator(".row.reply .tool-words")).to_have_text("waits for your answer")
    question.get_by_role("button", name="Allow once").click()
    over(page)
    expect(page.locator(".row.tool .tool-line")).to_contain_text("bash")
    assert answers(server, session) == ["once"]


def test_a_change_is_shown_as_a_diff_and_denied(visitor: Visitor, server: Server) -> None:
    (server.project / "a.txt").write_text("one\ntwo\n")
    edit = calling("edit", file_path="a.txt", old_string="two", new_string="zwei\u200b ")
    session, page = asked(visitor, server, calling("read", file_path="a.txt"), edit)
    page.get_by_role("button", name="Allow once").click()  # in this mode even reading is asked
    expect(page.locator(".question .diff-line.removed .diff-text")).to_have_text("-two")
    expect(page.locator(".question .diff-line.added .diff-text")).to_have_text("+zwei<U+200B>·")
    page.get_by_role("button", name="Deny").click()
    over(page)
    expect(page.locator(".tool.warn, .tool.bad")).to_contain_text("edit")
    assert answers(server, session) == ["once", "deny"]
    assert (server.project / "a.txt").read_text() == "one\ntwo\n"


def test_allowed_for_the_session_is_not_asked_again(visitor: Visitor, server: Server) -> None:
    session, page = asked(visitor, server, *[calling("bash", command="echo x >> b.txt")] * 2)
    expect(page.locator(".question")).to_contain_text("For the session or always: this exact call")
    page.get_by_role("button", name="Allow in this session").click()
    over(page)
    assert answers(server, session) == ["session"]
    assert (server.project / "b.txt").read_text() == "x\nx\n"


def test_what_a_sub_agent_asks_is_asked_where_its_parent_is_seen(visitor: Visitor, server: Server) -> None:
    """The sub-agent reads the same script from its beginning, so it wants what its parent wanted first."""
    wanted, task = calling("bash", command="echo below > below.txt"), calling("task", prompt="Do it too.")
    session, page = asked(visitor, server, wanted, {"content": "First."}, task)
    page.get_by_role("button", name="Deny").click()
    expect(page.locator(".row.reply:not(.draft)", has_text="First.")).to_be_visible()
    page.fill("#composer", "Go on")
    page.keyboard.press("Enter")
    expect(page.locator(".question h2")).to_contain_text("Allow task")
    page.get_by_role("button", name="Allow once").click()
    expect(page.locator(".question h2")).to_contain_text("Allow bash")
    expect(page.locator(".question")).to_contain_text("A sub-agent asks.")
    expect(page.locator(".head-state")).to_have_text("Needs your answer")
    page.get_by_role("button", name="Allow once").click()
    over(page)
    assert (server.project / "below.txt").read_text() == "below\n"
    assert answers(server, session) == ["deny", "once"]


def test_what_is_typed_never_answers(visitor: Visitor, server: Server) -> None:
    session, page = asked(visitor, server, calling("bash", command="true"))
    expect(page.locator("#composer")).to_be_focused()
    page.keyboard.type("yes once always a y 1")
    page.keyboard.press("Control+Enter")
    page.keyboard.press("Escape")
    for key in ("y", "1", "a", "o", "Enter", "Space"):
        page.keyboard.press(key)
    expect(page.locator(".question")).to_be_visible()
    assert answers(server, session) == []
    page.goto(f"{server.url}/#/s/{session}")
    page.get_by_role("button", name="Deny").click()
    over(page)


def test_the_focus_goes_on_to_the_composer_when_a_question_is_answered_with_a_key(
    visitor: Visitor, server: Server
) -> None:
    session, page = asked(visitor, server, calling("bash", command="true"))
    page.get_by_role("button", name="Deny").focus()
    page.keyboard.press("Enter")
    over(page)
    expect(page.locator("#composer")).to_be_focused()
    assert answers(server, session) == ["deny"]


def test_the_second_of_two_clicks_answers_no_question(visitor: Visitor, server: Server) -> None:
    """The next question may stand where the one before it was answered."""
    session, page = asked(visitor, server, calling("bash", command="true"))
    allow = page.get_by_role("button", name="Allow once")
    allow.dispatch_event("click", {"detail": 2})
    expect(allow).to_be_enabled()
    assert answers(server, session) == []
    page.get_by_role("button", name="Deny").click()
    over(page)
    assert answers(server, session) == ["deny"]


def test_the_list_tells_which_sessions_wait_for_an_answer(visitor: Visitor, server: Server) -> None:
    session, page = asked(visitor, server, calling("bash", command="true"))
    other = visitor.tab()
    row = other.locator(f".session-row[data-id='{session}']")
    expect(row.get_by_role("img", name="Needs your answer")).to_be_visible()
    page.get_by_role("button", name="Deny").click()
    over(page)
    expect(row.get_by_role("img", name="Needs your answer")).to_have_count(0)


def test_a_question_answered_elsewhere_goes_away_at_once(visitor: Visitor, server: Server) -> None:
    session, page = asked(visitor, server, calling("bash", command="echo one"), calling("bash", command="echo two"))
    held: list[Route] = []
    page.route(READINGS, lambda route: held.append(route))
    [open_one] = server.call("GET", f"/api/sessions/{session}/approvals")
    answer = {"approval_id": open_one["approval_id"], "answer": "once"}
    server.call("POST", f"/api/sessions/{session}/approvals", answer)
    expect(page.locator(".question")).to_have_count(0)
    page.unroute(READINGS)  # which lets them go on
    expect(page.locator(".question pre.command")).to_have_text("echo two")
    page.get_by_role("button", name="Deny").click()
    over(page)


def test_an_answer_that_comes_late_hides_no_newer_question(visitor: Visitor, server: Server) -> None:
    _, page = asked(visitor, server, calling("bash", command="echo one"), calling("bash", command="echo two"))
    late: list[Route] = []

    def first(route: Route) -> None:
        if route.request.method == "GET" and not late:
            late.append(route)
        else:
            route.continue_()

    page.route(READINGS, first)
    page.get_by_role("button", name="Allow once").click()
    expect(page.locator(".question pre.command")).to_have_text("echo two")
    with page.expect_event("requestfinished", lambda request: bool(READINGS.search(request.url))):
        late[0].fulfill(json=[])
    drawn(page)
    expect(page.locator(".question pre.command")).to_have_text("echo two")
    page.get_by_role("button", name="Deny").click()
    over(page)


def test_the_model_asks_and_gets_a_choice_or_any_text(visitor: Visitor, server: Server, tmp_path: Path) -> None:
    question = calling("ask_user", question="Which one?\nBoth would do.", choices=["Red", "Blue"])
    session, page = asked(visitor, server, question, question)
    expect(page.locator(".asks")).to_have_text("Which one?\nBoth would do.")
    page.locator(".question").get_by_role("button", name="Blue").click()
    free = page.locator(".question").get_by_label("Your answer")
    expect(page.locator(".row.tool")).to_have_count(1)
    free.fill("Neither, green")
    page.keyboard.press("Enter")
    over(page)
    assert answers(server, session) == ["Blue", "Neither, green"]


def test_a_question_survives_a_reload_and_is_seen_in_other_views(visitor: Visitor, server: Server) -> None:
    _, page = asked(visitor, server, calling("bash", command="echo still here"))
    page.reload()
    expect(page.locator(".question pre.command")).to_have_text("echo still here")
    page.locator(".tabs").get_by_role("link", name="Usage").click()
    expect(page.locator(".question")).to_be_visible()
    page.get_by_role("button", name="Allow once").click()
    expect(page.locator(".question")).to_have_count(0)
