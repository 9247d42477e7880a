"""The transcript: streaming Markdown, tool calls with folded output and diffs, reasoning, notes, pictures."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from outlast.core import events as e
from outlast.core.messages import ImagePart, Role, TextPart
from tests.browser.conftest import Visitor
from tests.browser.serving import Server
from tests.browser.writing import Writer, thought

MARKDOWN = (
    "## Done\n\nIt **works**:\n\n```python\ndef f(x):\n    return x  # same\n```\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n"
    "- [x] written\n- [ ] tested\n\n[docs](https://example.org/) and [file](src/a.py) and ![cat](https://example.org/c.png)"
)
DIFF = "--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n-old\n+new\n same"


SCRIPT = ({"content": MARKDOWN}, {"content": "Second **answer**."})


def newest(page: Page) -> Locator:
    return page.locator(".row.reply").last


def test_a_reply_streams_as_markdown_and_ends_as_the_same(visitor: Visitor, server: Server) -> None:
    session = server.saying({"content": MARKDOWN, "delay_ms": 1500})
    page = visitor.followed(session, "holding.js")
    server.post(session, "Say it in Markdown")
    draft = page.locator(".row.draft")
    expect(draft.locator("h4")).to_have_text("Done")  # before the end
    expect(draft).to_have_attribute("aria-busy", "true")
    page.evaluate("goOn()")
    expect(draft).to_have_count(0)
    reply = newest(page)
    expect(reply.locator("h4")).to_have_text("Done")
    expect(reply.locator("strong")).to_have_text("works")
    expect(reply.locator("pre code")).to_have_text("def f(x):\n    return x  # same")
    expect(reply.locator(".hl-word").first).to_have_text("def")
    expect(reply.locator("td.to-right")).to_have_text("2")
    expect(reply.locator("input[type=checkbox]")).to_have_count(2)
    expect(reply.locator("input[type=checkbox]").first).to_be_checked()
    expect(reply.locator("input[type=checkbox]").last).not_to_be_checked()


def test_what_comes_while_the_rest_is_parsed_is_written_on_where_it_ends(visitor: Visitor, server: Server) -> None:
    code = "```python\n" + "".join(f"line_{n} = {n}\n" for n in range(40)) + "```"
    session = server.saying({"content": code, "delay_ms": 1500})
    page = visitor.followed(session, "holding.js")
    parsed: list[str] = []

    def once(route: Route) -> None:
        """Nothing is parsed any more once some of the code was."""
        if parsed:
            route.abort()
            return
        parsed.extend(["code"] if "line_" in str(route.request.post_data) else [])
        route.continue_()

    page.route("**/api/markdown", once)
    server.post(session, "Say it in code")
    expect(page.locator(".draft pre code")).to_contain_text("line_10 = 10 line_11 = 11")
    expect(page.locator(".draft .prose > .raw")).to_have_count(0)
    page.evaluate("goOn()")
    expect(page.locator(".draft")).to_have_count(0)


def test_links_lead_outside_safely_and_pictures_are_not_loaded(visitor: Visitor, server: Server) -> None:
    page = visitor.session(server.saying(*SCRIPT, text="Say it in Markdown"))
    docs = page.locator(".row.reply:not(.draft) a", has_text="docs")
    expect(docs).to_have_attribute("href", "https://example.org/")
    expect(docs).to_have_attribute("rel", "noopener noreferrer nofollow external")
    expect(docs).to_have_attribute("target", "_blank")
    reply = newest(page)
    expect(reply.locator("span.address")).to_have_text("file")  # no page: told, and not to be followed
    expect(reply.locator("a", has_text="cat")).to_have_attribute("href", "https://example.org/c.png")
    expect(reply.locator("img")).to_have_count(0)


def test_code_can_be_copied(visitor: Visitor, server: Server) -> None:
    visitor.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = visitor.session(server.saying(*SCRIPT, text="Say it in Markdown"))
    button = page.locator(".row.reply:not(.draft) .code .copy")
    button.evaluate(
        """(button) => {
        window.labels = [];
        new MutationObserver(() => labels.push(button.ariaLabel)).observe(button, {attributes: true});
      }"""
    )
    button.click()
    page.wait_for_function("() => labels.includes('Copied')")  # it says so for a moment
    assert page.evaluate("navigator.clipboard.readText()") == "def f(x):\n    return x  # same\n"


def worked(server: Server) -> str:
    """A session in which much was done."""
    with server.store() as store:
        writer = Writer(store, title="Much was done")
        with writer.held():  # nobody is to find it half done, and go on with it
            asked = writer.asked("Please fix it")
            writer.add(e.TurnStarted(inputs=[asked]), turn="t1")
            search = writer.call("search", {"pattern": "def total"})
            edit = writer.call("edit", {"file_path": "x.py", "old_string": "old", "new_string": "new"})
            run = writer.call("bash", {"command": "pytest -q"})
            todo = writer.call("todo", {"items": [{"content": "First", "status": "completed"}, {"content": "Then"}]})
            writer.replied(thought("Let me *think* about it."), TextPart("I look first."), search, edit)
            writer.finished(search, "x.py:1:def total\ny.py:2:def total")
            writer.finished(edit, "edited", diff=DIFF, added=1, removed=1)
            writer.replied(run, todo)
            writer.finished(run, "1 failed\n", is_error=True, exit_code=1)
            writer.finished(todo, "[x] First\n[ ] Then")
            writer.appended(Role.SYSTEM, "Please go on: the tests fail.")
            writer.replied(TextPart("All done."))
            writer.add(e.TurnEnded(outcome="failed", reason="the provider went away", answered=[asked]), turn="t1")
        return writer.id


@pytest.fixture(scope="module")
def busy(server: Server) -> str:
    return worked(server)


def test_tool_calls_are_one_line_with_their_output_folded(visitor: Visitor, busy: str) -> None:
    page = visitor.session(busy)
    lines = page.locator(".row.tool .fold-line")
    expect(lines).to_have_count(4)
    search = lines.first
    expect(search).to_contain_text("search")
    expect(search).to_contain_text("def total")
    expect(search).to_contain_text("2 lines")
    expect(search).to_have_attribute("aria-expanded", "false")
    expect(page.locator("pre.output")).to_have_count(0)
    search.click()
    expect(search).to_have_attribute("aria-expanded", "true")
    expect(page.locator("pre.output")).to_have_text("x.py:1:def total\ny.py:2:def total")
    search.click()
    expect(page.locator("pre.output")).to_be_hidden()


def test_changes_are_shown_as_a_diff(visitor: Visitor, busy: str) -> None:
    page = visitor.session(busy)
    edit = page.locator(".row.tool .fold-line", has_text="edit")
    expect(edit).to_contain_text(re.compile(r"\+1 .1"))
    edit.click()
    expect(page.locator(".diff-line.added .diff-text")).to_have_text("+new")
    expect(page.locator(".diff-line.removed .diff-text")).to_have_text("-old")


def test_failed_calls_and_lists_of_things_to_do_stand_out(visitor: Visitor, busy: str) -> None:
    page = visitor.session(busy)
    expect(page.locator(".tool.bad")).to_contain_text("pytest -q")
    expect(page.locator(".tool.bad")).to_contain_text("exit code 1")
    expect(page.locator("ul.todo li")).to_have_text(["First", "Then"])
    expect(page.locator("ul.todo li.done")).to_have_text("First")


def test_reasoning_is_folded(visitor: Visitor, busy: str) -> None:
    page = visitor.session(busy)
    thoughts = page.locator(".thought .fold-line")
    expect(thoughts).to_contain_text("Thought")
    expect(page.get_by_text("about it.")).to_have_count(0)
    thoughts.click()
    expect(page.locator(".thought em")).to_have_text("think")


def test_messages_and_the_notes_between_them_come_at_once(visitor: Visitor, busy: str) -> None:
    page = visitor.tab()
    held: list[Route] = []
    page.route("**/events?*", lambda route: held.append(route))
    page.goto(f"{visitor.server.url}/#/s/{busy}")
    expect(page.locator("h1.title")).to_have_text("Much was done")
    expect(page.locator(".row")).to_have_count(0)
    held[0].continue_()
    expect(page.locator(".row.note", has_text="The turn failed")).to_be_visible()
    expect(page.locator(".row.user")).to_have_count(1)


def test_what_the_runtime_said_and_why_a_turn_failed_are_notes(visitor: Visitor, busy: str) -> None:
    page = visitor.session(busy)
    expect(page.locator(".row.note", has_text="Outlast told the model")).to_be_visible()
    failed = page.locator(".note-text.bad")
    expect(failed).to_contain_text("The turn failed: the provider went away")
    expect(failed.get_by_role("button", name="Retry")).to_be_visible()


def test_pictures_of_the_session_come_from_its_own_log(visitor: Visitor, server: Server, picture: Path) -> None:
    with server.store() as store:
        writer = Writer(store, title="A picture")
        image = ImagePart(media_type="image/png", data=picture.read_bytes(), alt="one pixel")
        writer.asked("See this", image, ImagePart(media_type="image/png", url="https://example.org/no.png", alt="far"))
    page = visitor.session(writer.id)
    shown = page.locator("img.picture")
    expect(shown).to_have_count(1)
    expect(shown).to_have_attribute("alt", "one pixel")
    page.wait_for_function("() => document.querySelector('img.picture').naturalWidth === 1")
    expect(page.locator(".attached")).to_contain_text("not loaded: https://example.org/no.png")


def test_pictures_are_attached_and_shown_live(visitor: Visitor, server: Server, picture: Path) -> None:
    session = server.new_session(title="Pictures")
    page = visitor.session(session)
    page.locator("input[type=file]").set_input_files(picture)
    expect(page.locator(".chosen-one img")).to_be_visible()
    page.fill("#composer", "What is this?")
    page.keyboard.press("Enter")
    expect(page.locator(".row.user img.picture")).to_be_visible()
    expect(page.locator(".chosen-one")).to_have_count(0)
    [message] = [one for one in server.call("GET", f"/api/sessions/{session}")["messages"] if one["role"] == "user"]
    assert [part["type"] for part in message["parts"]] == ["text", "image"]
    assert message["parts"][1]["size"] == len(base64.b64encode(picture.read_bytes())) * 3 // 4 - 2


def test_a_second_turn_follows_the_first(visitor: Visitor, server: Server) -> None:
    page = visitor.session(server.saying(*SCRIPT, text="One"))
    expect(page.locator(".row.reply:not(.draft) h4")).to_have_text("Done")
    page.fill("#composer", "Two")
    page.keyboard.press("Enter")
    expect(page.locator(".row.reply:not(.draft) strong", has_text="answer")).to_be_visible()
    expect(page.locator(".row.user .said")).to_have_text(["One", "Two"])
