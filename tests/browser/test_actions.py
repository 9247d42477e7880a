"""What can be done with a session: rename, fork, rewind, clear, compact, end, archive, export, delete, settings."""

from __future__ import annotations

import json
import re
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from outlast.core.messages import TextPart
from tests.browser.conftest import Visitor
from tests.browser.serving import Server
from tests.browser.writing import Writer


def talked(server: Server, title: str = "Some talk") -> str:
    with server.store() as store:
        writer = Writer(store, title=title, project_root=str(server.project))
        with writer.held():
            for n in range(1, 4):
                writer.turn(f"Question {n}", [TextPart(f"Answer {n}.")])
        return writer.id


def choose(page: Page, action: str) -> None:
    page.get_by_role("button", name="Actions").click()
    page.get_by_role("menuitem", name=action, exact=True).click()


def confirm(page: Page, button: str) -> None:
    page.get_by_role("dialog").get_by_role("button", name=button).click()


def said(page: Page) -> Locator:
    return page.locator(".row.user .said")


def state(server: Server, session: str) -> str:
    return str(server.call("GET", f"/api/sessions/{session}")["session"]["state"])


def test_a_session_is_renamed(visitor: Visitor, server: Server) -> None:
    page = visitor.session(talked(server))
    choose(page, "Rename …")
    expect(page.get_by_role("dialog").get_by_label("Title")).to_have_value("Some talk")
    page.keyboard.type("A better name")
    page.keyboard.press("Enter")
    expect(page.locator("h1.title")).to_have_text("A better name")
    expect(page.locator(".session-row[aria-current] .session-title")).to_have_text("A better name")
    expect(page).to_have_title("A better name · Outlast")


def test_a_fork_goes_on_from_a_message_and_the_other_stays(visitor: Visitor, server: Server) -> None:
    session = talked(server)
    page = visitor.session(session)
    second = page.locator(".row.user", has_text="Question 2")
    second.hover()
    second.get_by_role("button", name="Fork from here").click()
    expect(page).not_to_have_url(re.compile(session))
    expect(said(page)).to_have_text(["Question 1", "Question 2"])
    expect(page.locator(".row.note", has_text="Forked here")).to_be_visible()
    assert len(server.call("GET", f"/api/sessions/{session}")["messages"]) == 6


def test_a_rewind_asks_first_gives_the_text_back_and_can_be_undone(visitor: Visitor, server: Server) -> None:
    page = visitor.session(talked(server))
    second = page.locator(".row.user", has_text="Question 2")
    second.hover()
    second.get_by_role("button", name="Rewind to before this message").click()
    expect(page.get_by_role("dialog")).to_contain_text("set aside")
    confirm(page, "Cancel")
    expect(page.locator(".row.user")).to_have_count(3)
    second.hover()
    second.get_by_role("button", name="Rewind to before this message").click()
    confirm(page, "Rewind")
    expect(page.locator(".row.user")).to_have_count(1)
    expect(page.locator("#composer")).to_have_value("Question 2")
    page.locator(".note-text", has_text="Rewound").get_by_role("button", name="Undo").click()
    expect(said(page)).to_have_text(["Question 1", "Question 2", "Question 3"])


def test_clearing_archives_the_messages_which_can_still_be_seen(visitor: Visitor, server: Server) -> None:
    page = visitor.session(talked(server))
    choose(page, "Clear …")
    confirm(page, "Clear")
    expect(page.locator(".row.note")).to_contain_text("Cleared")
    expect(page.locator(".row.user")).to_have_count(0)
    choose(page, "Show archived messages")
    expect(page.locator(".row.user.archived")).to_have_count(3)
    choose(page, "Hide archived messages")
    expect(page.locator(".row.user")).to_have_count(0)


def test_a_session_is_compacted_and_that_is_undone(visitor: Visitor, server: Server) -> None:
    with server.store() as store:
        writer = Writer(store, title="Long talk")
        with writer.held():
            for n in range(30):
                writer.turn(f"Question {n} " + "and more " * 60, [TextPart(f"Answer {n}. " + "It is so. " * 60)])
    page = visitor.session(writer.id)
    choose(page, "Compact")
    compacted = page.locator(".row.note", has_text="Compacted from")
    expect(compacted).to_be_visible()
    choose(page, "Undo the last compaction")
    expect(page.locator(".row.note", has_text="The compaction was undone")).to_be_visible()


def test_a_session_is_ended_and_reopened(visitor: Visitor, server: Server) -> None:
    session = talked(server)
    page = visitor.session(session)
    choose(page, "End …")
    confirm(page, "End")
    expect(page.locator(".banner")).to_contain_text("This session has ended")
    assert state(server, session) == "ended"
    choose(page, "Reopen")
    expect(page.locator(".banner")).to_be_hidden()
    assert state(server, session) == "active"


def test_a_session_is_archived_and_comes_back(visitor: Visitor, server: Server) -> None:
    session = talked(server)
    page = visitor.session(session)
    choose(page, "Archive")
    expect(page.locator(".banner")).to_contain_text("This session is archived")
    assert state(server, session) == "archived"
    page.locator(".banner").get_by_role("button", name="Unarchive").click()
    expect(page.locator(".banner")).to_be_hidden()
    assert state(server, session) == "active"


def test_deleting_asks_and_is_for_good(visitor: Visitor, server: Server) -> None:
    session = talked(server, "To be deleted")
    page = visitor.session(session)
    choose(page, "Delete …")
    expect(page.get_by_role("dialog")).to_contain_text("“To be deleted” and everything in it is removed")
    expect(page.get_by_role("button", name="Cancel")).to_be_focused()  # Enter must not delete
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    choose(page, "Delete …")
    confirm(page, "Delete")
    expect(page).to_have_url(re.compile(r"#/$"))
    expect(page.locator(".session-title", has_text="To be deleted")).to_have_count(0)
    assert all(row["id"] != session for row in server.call("GET", "/api/sessions?limit=1000"))


def test_a_session_is_exported_in_three_formats(visitor: Visitor, server: Server, tmp_path: Path) -> None:
    page = visitor.session(talked(server))
    found: dict[str, str] = {}
    for label, ending in (("Markdown", "md"), ("HTML", "html"), ("JSON lines", "jsonl")):
        with page.expect_download() as download:
            choose(page, f"Export as {label}")
        assert download.value.suggested_filename.endswith(f".{ending}")
        path = tmp_path / ending
        download.value.save_as(path)
        found[ending] = path.read_text()
    assert "Question 2" in found["md"]
    assert "Answer 3." in found["html"]
    assert all(json.loads(line) for line in found["jsonl"].splitlines())
    expect(page.locator("h1.title")).to_have_text("Some talk")  # still here


def test_a_failed_turn_is_retried(visitor: Visitor, server: Server) -> None:
    session = server.saying({"error": "overloaded", "status": 400}, {"content": "Now it works."})
    page = visitor.session(session)
    page.fill("#composer", "Try")
    page.keyboard.press("Enter")
    failed = page.locator(".note-text.bad")
    expect(failed).to_contain_text("The turn failed: overloaded")
    failed.get_by_role("button", name="Retry").click()
    expect(page.locator(".row.reply:not(.draft)")).to_contain_text("Now it works.")
    expect(said(page)).to_have_text(["Try"])


def test_model_and_rights_of_a_session_are_changed(visitor: Visitor, server: Server) -> None:
    session = talked(server)
    page = visitor.session(session)
    choose(page, "Model, persona, rights …")
    dialog = page.get_by_role("dialog")
    modes = dialog.get_by_label("Permission mode").locator("option")
    expect(modes.filter(has_text="workspace-write")).to_have_count(1)
    expect(modes.filter(has_text="danger-full-access")).to_have_count(0)
    dialog.get_by_label("Permission mode").select_option("read-only")
    dialog.get_by_label("Model").fill("local")
    dialog.get_by_label("Plan mode").check()
    confirm(page, "Save")
    expect(page.locator(".facts")).to_contain_text("local")
    expect(page.locator(".facts")).to_contain_text("plan mode")
    assert server.call("GET", f"/api/sessions/{session}")["permission_mode"] == "read-only"


def test_the_menu_is_used_with_keys(visitor: Visitor, server: Server) -> None:
    page = visitor.session(talked(server))
    button = page.get_by_role("button", name="Actions")
    button.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("menuitem", name="Rename …")).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(page.get_by_role("menuitem", name="Delete …")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("menu")).to_have_count(0)
    expect(button).to_be_focused()
