"""Timeline, ledger, usage, context, tree, all usage: drawn by hand, and readable without seeing them."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from outlast.core import events as e
from outlast.core.messages import TextPart
from tests.browser.conftest import Visitor, drawn
from tests.browser.serving import Server
from tests.browser.writing import Writer, forked, sub_agent

PROJECT = {"project_root": "/srv/shop", "project_key": "a" * 16}


@pytest.fixture(scope="module")
def server(silent: Server) -> Server:
    return silent


@pytest.fixture(scope="module")
def family(server: Server) -> dict[str, str]:
    with server.store() as store:
        writer = Writer(store, title="The root", **PROJECT)
        with writer.held():
            for n in range(5):
                writer.turn(f"Question {n}", [TextPart(f"Answer {n}")])
        for kind, summary in (("route", "execute: it is concrete"), ("completion_complete", "every check passed")):
            entry = {
                "timestamp": "2026-03-04T10:11:12+00:00",
                "kind": kind,
                "mode": "execute",
                "reason_code": "task_is_concrete",
                "summary": summary,
                "evidence_summary": ["48 passed"],
            }
            writer.add(e.TimelineRecorded(entry=entry))
        item = {
            "text": "Prices are whole",
            "status": "contradicted",
            "introduced_phase": "plan",
            "evidence": ["Decimal"],
        }
        writer.add(e.LedgerUpdated(ledger={"assumptions": [item]}))
        made = forked(store, writer.id, "A fork")
        below = forked(store, made, "A fork of a fork")
        helper = sub_agent(store, writer.id, "A helper", **PROJECT)
    return {"root": writer.id, "fork": made, "below": below, "helper": helper}


def test_the_timeline_tells_decisions_newest_first_with_their_evidence(
    visitor: Visitor, family: dict[str, str]
) -> None:
    page = visitor.session(family["root"], "/timeline")
    entries = page.locator(".timeline > li")
    expect(entries).to_have_count(2)
    expect(entries.first).to_contain_text("completion complete")
    expect(entries.first).to_contain_text("every check passed")
    entries.first.get_by_role("button").click()
    expect(entries.first).to_contain_text("48 passed")


def test_the_ledger_tells_what_became_of_assumptions(visitor: Visitor, family: dict[str, str]) -> None:
    page = visitor.session(family["root"], "/ledger")
    expect(page.locator(".ledger h2")).to_have_text("Assumptions")
    expect(page.locator(".items li").first).to_contain_text("Prices are whole")
    expect(page.locator(".chip.warn")).to_have_text("contradicted")


def test_times_of_the_timeline_stand_below_each_other(visitor: Visitor, server: Server) -> None:
    with server.store() as store:
        writer = Writer(store, title="Times")
        for evidence in ([], ["48 passed"]):  # one that can be unfolded, and one that cannot
            writer.add(e.TimelineRecorded(entry={"kind": "route", "mode": "execute", "evidence_summary": evidence}))
    page = visitor.session(writer.id, "/timeline")
    times = page.locator(".timeline .time")
    expect(times).to_have_count(2)
    one, other = times.evaluate_all("(times) => times.map((time) => time.getBoundingClientRect().right)")
    assert one == other


def test_usage_and_context_are_drawn(visitor: Visitor, family: dict[str, str]) -> None:
    page = visitor.session(family["root"], "/usage")
    expect(page.locator(".tile", has_text="turns").locator("b")).to_have_text("5")
    chart = page.get_by_role("img", name=re.compile("^Tokens per reply"))
    expect(chart.locator("g.bar")).to_have_count(5)
    heights = chart.locator("rect.s-input").evaluate_all(
        "(bars) => bars.map((bar) => Number(bar.getAttribute('height')))"
    )
    assert all(height > 0 for height in heights)
    assert heights == sorted(heights)  # each reply used more
    expect(page.get_by_role("img", name=re.compile("^Context"))).to_be_visible()
    expect(page.locator("table.figures tbody tr").first).to_contain_text("scripted")


def test_the_family_is_drawn_and_leads_to_its_members(visitor: Visitor, family: dict[str, str]) -> None:
    page = visitor.session(family["root"], "/tree")
    nodes = page.get_by_role("group", name="Family of 4 sessions").get_by_role("link")
    expect(nodes).to_have_count(4)
    names = nodes.evaluate_all("(links) => links.map((link) => link.getAttribute('aria-label'))")
    assert names[0].startswith("The root")
    assert any(re.match(r"A fork, fork at event \d+", name) for name in names)
    assert any(name.startswith("A helper, sub-agent") for name in names)
    expect(page.locator("path.edge")).to_have_count(3)
    expect(page.locator(".node.current")).to_have_attribute("aria-current", "page")
    nodes.filter(has=page.locator("text=A helper")).focus()
    page.keyboard.press("Enter")
    expect(page.locator("h1.title")).to_have_text("A helper")


def test_views_are_places_with_addresses_and_the_way_back_works(visitor: Visitor, family: dict[str, str]) -> None:
    page = visitor.session(family["root"])
    for name in ("Timeline", "Ledger", "Usage", "Tree"):
        page.locator(".tabs").get_by_role("link", name=name).click()
        expect(page).to_have_url(re.compile(f"/{name.lower()}$"))
        expect(page.locator(".tabs [aria-current=page]")).to_have_text(name)
    page.go_back()
    expect(page.locator(".tabs [aria-current=page]")).to_have_text("Usage")
    page.locator(".tabs").get_by_role("link", name="Ledger").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".tabs :focus")).to_have_text("Ledger")
    expect(page.locator(".tabs [aria-current=page]")).to_have_text("Ledger")
    page.locator(".tabs").get_by_role("link", name="Transcript").click()
    expect(page.locator(".row.user").last).to_contain_text("Question 4")


def test_nothing_yet_is_said_in_words(visitor: Visitor, family: dict[str, str]) -> None:
    page = visitor.session(family["helper"], "/timeline")
    expect(page.locator(".empty")).to_contain_text("No decisions in this session yet")
    page.locator(".tabs").get_by_role("link", name="Ledger").click()
    expect(page.locator(".empty")).to_contain_text("The ledger is empty")


def test_a_view_that_is_read_again_keeps_what_has_the_focus(visitor: Visitor, server: Server) -> None:
    with server.store() as store:
        writer = Writer(store, title="Looked at")
        entry = {"kind": "route", "mode": "execute", "summary": "it is concrete", "evidence_summary": ["48 passed"]}
        writer.add(e.TimelineRecorded(entry=entry))
    page = visitor.session(writer.id, "/timeline")
    button = page.locator(".timeline").get_by_role("button")
    button.focus()
    with page.expect_event("requestfinished", lambda request: request.url.endswith("/timeline")):
        server.call("PATCH", f"/api/sessions/{writer.id}", {"title": "Changed elsewhere"})
    drawn(page)
    expect(button).to_be_focused()


def test_all_sessions_together_are_counted(visitor: Visitor, server: Server, family: dict[str, str]) -> None:
    every = len(server.call("GET", "/api/sessions?limit=1000"))
    assert every >= len(family)
    page = visitor.tab("#/stats")
    expect(page.locator(".tile", has_text="sessions").locator("b")).to_have_text(str(every))
    expect(page.get_by_role("img", name=re.compile("^Tokens per day"))).to_be_visible()
    expect(page.locator("table.figures").last).to_contain_text("shop")
    expect(page.locator("table.figures th[scope=row]", has_text="unknown")).to_have_count(0)  # it used nothing
