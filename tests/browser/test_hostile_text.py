"""Hostile text in every field: no script runs, nothing is loaded from anywhere, and it is shown as text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from outlast.core import events as e
from outlast.core.messages import FilePart, ImagePart, Role, TextPart
from tests.browser.conftest import Visitor
from tests.browser.hostile import payloads
from tests.browser.serving import Server
from tests.browser.writing import Writer, forked, sub_agent, thought

HERE = Path(__file__).parent
PAYLOADS = payloads()
VISIBLE = [text for text in PAYLOADS if text.isprintable()]
PROJECT = {"project_root": "/srv/shop", "project_key": "a" * 16}


def test_there_are_more_than_a_hundred_of_them() -> None:
    assert len(PAYLOADS) > 150
    assert len(set(PAYLOADS)) == len(PAYLOADS)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One of its own: these sessions would be in everybody's list."""
    started = Server(tmp_path_factory.mktemp("hostile"), script())
    yield started
    started.stop()


def script() -> list[dict[str, Any]]:
    calls = [{"name": text, "arguments": {text: text, "command": text}} for text in VISIBLE[:20]]
    question = {"question": "\n".join(VISIBLE[:30]), "choices": VISIBLE[:6]}
    return [
        {"content": "\n\n".join(PAYLOADS), "delay_ms": 1200, "tool_calls": calls},
        {"content": "", "tool_calls": [{"name": "ask_user", "arguments": question}]},
        {"error": "\n".join(VISIBLE[:30]), "status": 400},
    ]


def safe(text: str) -> str:
    """What a header can hold of it."""
    return text.encode("utf-8", "replace").decode().replace("\0", "")[:150]


@pytest.fixture(scope="module")
def talk(server: Server) -> str:
    """Every payload as message, reply, thought, name, argument, output, difference, error, picture, file and note."""
    with server.store() as store:
        writer = Writer(store, title=safe(PAYLOADS[0]), persona=safe(PAYLOADS[1]), model=safe(PAYLOADS[2]), **PROJECT)
        with writer.held():
            for text in PAYLOADS:
                _said(writer, text)
            for text in PAYLOADS[:40]:
                writer.add(e.SessionRenamed(title=text), e.ModelChanged(model=text), e.PersonaChanged(persona=text))
            for text in PAYLOADS:
                entry = dict.fromkeys(("kind", "mode", "reason_code", "summary", "policy_stage"), text)
                lists = {"evidence_summary": [text], "evidence_provenance": [{"source": text}], "timestamp": text}
                writer.add(e.TimelineRecorded(entry={**entry, **lists}))
            item = [
                {"text": text, "status": text, "introduced_phase": text, "evidence": [text]} for text in PAYLOADS[:64]
            ]
            ledger: dict[str, Any] = dict.fromkeys(("assumptions", "acceptance_anchors", "decision_boundaries"), item)
            writer.add(e.LedgerUpdated(ledger=ledger))
            writer.add(e.Compacted(summary="\n\n".join(PAYLOADS), first_kept_seq=2, tokens_before=9, tokens_after=1))
        for text in PAYLOADS[:25]:
            forked(store, writer.id, text)
            sub_agent(store, writer.id, safe(text), **PROJECT)
        return writer.id


def _said(writer: Writer, text: str) -> None:
    asked = writer.asked(
        text,
        ImagePart(media_type="image/svg+xml", data=text.encode("utf-8", "replace"), alt=text),
        ImagePart(media_type="image/png", url=text, alt=text),
        FilePart(name=text, media_type="text/html", data=b"x"),
    )
    writer.add(e.TurnStarted(inputs=[asked]), turn="t1")
    call = writer.call(text, {text: text, "command": text, "list": [text]})
    writer.replied(thought(text), TextPart(text), call)
    writer.finished(call, text, diff=f"--- a/{text}\n+++ b/{text}\n@@ -1 +1 @@\n-{text}\n+{text}", path=text)
    writer.appended(Role.SYSTEM, text)
    writer.add(e.TurnEnded(outcome="failed", reason=text, answered=[asked]), turn="t1")


def through(page: Page) -> int:
    """Scroll through the whole transcript, unfold everything on the way; how many rows were seen."""
    return int(page.evaluate((HERE / "through.js").read_text()))


def test_nothing_runs_in_a_transcript(visitor: Visitor, talk: str) -> None:
    page = visitor.session(talk)
    expect(page.locator(".row").last).to_be_visible()
    assert through(page) >= 4 * len(PAYLOADS)
    forbidden = "script, iframe, object, embed, form, link, style, base, video, audio"
    expect(page.locator(f".transcript :is({forbidden})")).to_have_count(0)
    links = page.evaluate("[...document.querySelectorAll('.transcript a')].map((link) => link.protocol)")
    assert set(links) <= {"http:", "https:", "mailto:"}


def test_hostile_messages_are_shown_as_they_were_written(visitor: Visitor, server: Server) -> None:
    with server.store() as store:
        writer = Writer(store, title="As written")
        for text in VISIBLE[:12]:
            writer.asked(text)
    page = visitor.session(writer.id)
    expect(page.locator(".row.user .said")).to_have_text(VISIBLE[:12])


@pytest.mark.parametrize("view", ["timeline", "ledger", "usage", "tree"])
def test_nothing_runs_in_a_view(visitor: Visitor, talk: str, view: str) -> None:
    page = visitor.session(talk, f"/{view}")
    expect(page.locator(".view :is(.timeline, .ledger, .usage, .tree)")).to_be_visible()
    page.evaluate("document.querySelectorAll('.view .fold-line').forEach((line) => line.click())")
    expect(page.locator(".view .fold-line[aria-expanded=false]")).to_have_count(0)
    assert page.evaluate("document.querySelectorAll('.view :is(script, iframe, img, a[href^=javascript])').length") == 0


def test_nothing_runs_in_the_list_in_a_search_and_in_the_sum_of_all(visitor: Visitor, talk: str) -> None:
    queries = ("script", "onerror", "evil.example", "<img", "javascript:")
    with visitor.server.store() as store:  # each is found in a message, whatever titles it is in, too
        Writer(store, title="Said").appended(Role.USER, "\n".join(queries))
    page = visitor.tab()
    expect(page.locator(".session-row").first).to_be_visible()
    page.wait_for_function(
        """() => {
        const box = document.querySelector('.session-list');
        box.scrollTop += 600;
        return box.scrollTop + box.clientHeight >= box.scrollHeight - 1;
      }"""
    )
    for query in queries:
        page.fill("#search", query)
        expect(page.locator(".session-row.hit mark").first).to_have_text(query, ignore_case=True)
    page.goto(f"{visitor.server.url}/#/stats")
    expect(page.locator(".usage")).to_be_visible()


def test_nothing_runs_while_a_hostile_reply_streams_asks_and_fails(visitor: Visitor, server: Server) -> None:
    session = server.new_session(title=safe(PAYLOADS[3]))
    page = visitor.followed(session, "holding.js")
    page.fill("#composer", PAYLOADS[4])
    page.keyboard.press("Enter")
    expect(page.locator(".draft .prose")).to_contain_text("script")
    page.evaluate("goOn()")
    expect(page.locator(".asks")).to_contain_text(VISIBLE[0])
    page.locator(".question").get_by_role("button").first.click()
    expect(page.locator(".note-text.bad")).to_contain_text("The turn failed")
    through(page)


def test_nothing_runs_in_an_approval_a_title_or_a_word_of_the_server(visitor: Visitor, server: Server) -> None:
    """Every payload through the code that draws questions, banners, notes and short words."""
    with server.store() as store:
        writer = Writer(store, title="Questions")
    page = visitor.session(writer.id)
    drawn = page.evaluate(
        (HERE / "drawing.js").read_text(),
        [PAYLOADS, page.evaluate("document.querySelector('script[type=module]').src")],
    )
    assert drawn == len(PAYLOADS)
