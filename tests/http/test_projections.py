"""What can be known of a session, and of all of them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from outlast.app.maintenance import exported
from outlast.app.transfer.import_session import import_file
from outlast.core.messages import Message, Role
from outlast.doors.http import server_state
from outlast.session import ConversationSession
from outlast.store import open_store
from tests.http.inside import Inside, inside
from tests.http.server import call, reply


@pytest.fixture
async def spoken(talking: Inside) -> tuple[Inside, str]:
    sid = await talking.create(title="Fruit")
    await talking.post(sid, "What about pineapples?")
    await talking.until_idle(sid)
    return talking, sid


async def view(spoken: tuple[Inside, str], name: str) -> Any:
    door, sid = spoken
    return await door.api("GET", f"/api/sessions/{sid}/{name}")


async def test_events_are_the_log_as_it_is_page_by_page(spoken: tuple[Inside, str]) -> None:
    door, sid = spoken
    every = await view(spoken, "events")
    assert [event["seq"] for event in every] == list(range(1, len(every) + 1))
    store = (await door.door.server()).store
    assert [event["hash"] for event in every] == [row.hash.hex() for row in store.read(sid)]
    paged: list[dict[str, Any]] = []
    after = "0"
    while True:
        answer = await door.client.get(f"/api/sessions/{sid}/events?after={after}&limit=3")
        paged += answer.json()
        assert len(answer.json()) <= 3
        if "X-Next-Cursor" not in answer.headers:
            break
        after = answer.headers["X-Next-Cursor"]
    assert paged == every
    assert [e["kind"] for e in await view(spoken, "events?kinds=InputAdmitted,TurnEnded")] == [
        "InputAdmitted",
        "TurnEnded",
    ]
    assert await view(spoken, "events?before=3") == every[:2]


async def test_a_page_of_large_events_is_cut_and_goes_on(door: Inside) -> None:
    store = (await door.door.server()).store
    session = ConversationSession(store=store, project_root=door.project)
    for n in range(6):
        session.append(Message(role=Role.USER, content=str(n) * 3_000_000))
    answer = await door.client.get(f"/api/sessions/{session.session_id}/events")
    assert len(answer.content) < 15_000_000
    seqs = [event["seq"] for event in answer.json()]
    more = await door.client.get(f"/api/sessions/{session.session_id}/events?after={answer.headers['X-Next-Cursor']}")
    assert seqs + [event["seq"] for event in more.json()] == list(range(1, 8))


async def test_timeline_ledger_prompts_and_usage(spoken: tuple[Inside, str]) -> None:
    assert {"timestamp", "kind", "mode", "reason_code", "summary"} <= set((await view(spoken, "timeline"))[0])
    assert set(await view(spoken, "ledger")) == {"assumptions", "acceptance_anchors", "decision_boundaries"}
    assert (await view(spoken, "prompts"))[0]["content"]
    usage = await view(spoken, "usage")
    assert (usage["turns"], usage["replies"], usage["total"]["input_tokens"]) == (1, 1, 10)
    every = await spoken[0].api("GET", "/api/stats")
    for total in (usage["total"], *usage["models"].values(), every["total"]):
        assert total["cache_read_tokens"] == total["cost_micros"] == 0  # told, though it is nothing
    assert usage["context"]["window"] > usage["context"]["used"] > 0
    assert usage["context"]["by_role"]["user"]["messages"] == 1
    assert [(one["kind"], one["output_tokens"], one["cost_micros"]) for one in usage["recent"]] == [("reply", 2, None)]


async def test_an_export_is_what_the_command_line_writes_and_can_be_imported(
    spoken: tuple[Inside, str], tmp_path: Path
) -> None:
    door, sid = spoken
    answer = await door.client.get(f"/api/sessions/{sid}/export")
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    assert answer.headers["content-disposition"] == f'attachment; filename="outlast-{sid[:8]}.jsonl"'
    store = (await door.door.server()).store
    assert answer.content.splitlines() == list(exported(store.url, sid))
    file = tmp_path / "session.jsonl"
    file.write_bytes(answer.content)
    url = f"sqlite:///{tmp_path}/other.db"
    import_file(url, file)
    with open_store(url) as other:
        assert other.head(sid).head_hash == store.head(sid).head_hash


@pytest.mark.parametrize(("form", "kind"), [("md", "text/markdown"), ("html", "text/html")])
async def test_documents_have_their_secrets_redacted_and_run_nothing(talking: Inside, form: str, kind: str) -> None:
    sid = await talking.create()
    await talking.post(sid, "key sk-ant-api03-" + "a" * 90 + " <script>alert(1)</script>")
    await talking.until_idle(sid)
    answer = await talking.client.get(f"/api/sessions/{sid}/export?format={form}")
    assert answer.headers["content-type"].startswith(kind)
    assert answer.headers["content-disposition"].startswith("attachment")
    assert "sk-ant-api03-aaa" not in answer.text
    assert form == "md" or "<script>" not in answer.text
    kept = await talking.client.get(f"/api/sessions/{sid}/export?format={form}&redact=false")
    assert "sk-ant-api03-aaa" in kept.text


async def test_search_finds_words_of_all_sessions(spoken: tuple[Inside, str]) -> None:
    door, sid = spoken
    found = await door.api("GET", "/api/search?q=pineapp")
    [hit] = found["hits"]
    assert (hit["session_id"], hit["seq"], hit["snippet"]["match"]) == (sid, 2, "pineapp")
    assert (await door.api("GET", "/api/search?q=nothing-like-it"))["hits"] == []
    assert (await door.api("GET", f"/api/search?q=pineapp&project={door.project}"))["hits"]
    assert (await door.api("GET", "/api/search?q=pineapp&project=/elsewhere"))["hits"] == []
    for query in ("", "?q=", "?q=x&limit=0"):
        await door.api("GET", f"/api/search{query}", status=400)


async def test_stats_add_up_and_forget_what_is_deleted(spoken: tuple[Inside, str]) -> None:
    door, sid = spoken
    found = await door.api("GET", "/api/stats")
    assert (found["total"]["sessions"], found["total"]["turns"], found["total"]["input_tokens"]) == (1, 1, 10)
    assert list(found["projects"]) == [str(door.project)]
    await door.api("DELETE", f"/api/sessions/{sid}")
    assert set((await door.api("GET", "/api/stats"))["total"].values()) == {0}


async def test_sub_agents_are_in_the_tree(tmp_path: Path) -> None:
    lines = [call("task", prompt="Look around"), reply("Found it."), reply("Done.")]
    async with inside(tmp_path, *lines, permission_mode="danger-full-access") as door:
        sid = await door.create()
        await door.post(sid, "Delegate")
        await door.until_idle(sid)
        family = await door.api("GET", f"/api/sessions/{sid}/tree")
        first, child, *deeper = family["members"]
        assert (first["relation"], first["depth"], first["parent_id"]) == ("root", 0, None)
        assert (child["relation"], child["depth"], child["parent_id"]) == ("task", 1, sid)
        assert [(one["relation"], one["depth"]) for one in deeper] == [("task", 2), ("task", 3)]
        assert family["complete"] is True
        assert (await door.api("GET", f"/api/sessions/{child['id']}/tree"))["root_id"] == sid


async def test_markdown_comes_back_as_trees_and_html_in_it_as_text(door: Inside) -> None:
    found = await door.api("POST", "/api/markdown", json={"texts": ["# Title", "<img src=x onerror=alert(1)>"]})
    assert len(found) == 2
    assert found[0][0]["tag"] == "h1"
    assert '"img"' not in json.dumps(found[1])
    await door.api("POST", "/api/markdown", json={"texts": ["x"] * 201}, status=400)
    await door.api("POST", "/api/markdown", json={"texts": "x"}, status=400)


async def test_info_tells_what_may_be_chosen(door: Inside) -> None:
    found = await door.api("GET", "/api/info")
    assert found["permission_modes"] == ["read-only", "prompt", "workspace-write"]
    assert (found["answers"], found["store"]) == (False, "sqlite")
    assert "default-interactive" in [persona["name"] for persona in found["personas"]]


async def test_metrics_are_text_for_prometheus_without_ids(spoken: tuple[Inside, str]) -> None:
    door, sid = spoken
    answer = await door.client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'outlast_http_requests_total{method="POST",status="200"} 2' in answer.text
    assert "outlast_followers 0" in answer.text
    assert sid not in answer.text
    for line in answer.text.splitlines():
        assert line.startswith("# ") or len(line.rsplit(" ", 1)) == 2


async def test_a_damaged_session_is_a_503_that_says_so_and_its_neighbours_are_served(tmp_path: Path) -> None:
    url = f"files:///{tmp_path}/store"
    async with inside(tmp_path, store=url) as door:
        broken, whole = await door.create(title="broken"), await door.create(title="whole")
        await door.post(broken, "some words")
        [log] = (tmp_path / "store").rglob(f"{broken}.jsonl")
    log.write_bytes(log.read_bytes().replace(b"some words", b"some wards"))
    async with inside(tmp_path, store=url) as door:
        for path in ("", "/events", "/timeline", "/usage"):
            answer = await door.api("GET", f"/api/sessions/{broken}{path}", status=503)
            assert "damaged" in answer["detail"]
        assert (await door.detail(whole))["session"]["title"] == "whole"
        assert broken in [row["id"] for row in await door.api("GET", "/api/sessions")]
        exported_lines = await door.client.get(f"/api/sessions/{broken}/export")
        assert (exported_lines.status_code, exported_lines.headers["x-damaged"]) == (200, "1")


async def test_statistics_of_a_large_store_come_at_once_and_are_completed_in_the_background(
    spoken: tuple[Inside, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    door, _ = spoken
    monkeypatch.setattr(server_state, "STATS_SECONDS", -1.0)
    found = await door.api("GET", "/api/stats")
    assert (found["uncounted"], found["total"]["replies"]) == (1, 0)
    async with asyncio.timeout(20):
        while found["uncounted"]:
            await asyncio.sleep(0.02)
            found = await door.api("GET", "/api/stats")
    assert found["total"]["replies"] == 1
