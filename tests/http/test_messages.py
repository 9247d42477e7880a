"""Saying something: stored before it is answered, once, however often it is sent."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from outlast.app.workers.worker_pool import WorkerPool
from outlast.core.errors import StoreUnavailable
from tests.http.inside import Inside, inside
from tests.support.http_server import reply

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def test_it_is_stored_when_it_is_answered_and_then_a_turn_runs(talking: Inside) -> None:
    sid = await talking.create()
    ack = await talking.post(sid, "hello")
    assert (ack["session_id"], ack["seq"]) == (sid, 2)
    messages = await talking.until_idle(sid)
    assert [message["content"] for message in messages] == ["hello", "First."]
    assert messages[0]["message_id"] == ack["message_id"]


async def test_without_a_model_it_only_waits(door: Inside) -> None:
    sid = await door.create()
    await door.post(sid, "hello")
    row = (await door.detail(sid))["session"]
    assert (row["pending_user_message"], row["activity"], row["active_stream_id"]) == ("hello", "waiting", None)
    assert row["pending_started_at"] == row["last_message_at"]
    assert row["total_input_tokens"] > 0


async def test_the_same_key_twice_is_one_message_and_one_turn(talking: Inside) -> None:
    sid = await talking.create()
    first = await talking.post(sid, "hello", key="k-1")
    assert await talking.post(sid, "hello", key="k-1") == first
    await talking.until_idle(sid)
    assert await talking.post(sid, "hello", key="k-1") == first
    assert [message["content"] for message in await talking.until_idle(sid)] == ["hello", "First."]
    events = await talking.api("GET", f"/api/sessions/{sid}/events?kinds=TurnStarted")
    assert len(events) == 1


async def test_another_body_under_the_same_key_is_a_conflict(door: Inside) -> None:
    sid = await door.create()
    await door.post(sid, "hello", key="k-1")
    for other in ({"content": "else"}, {"content": "hello", "delivery": "steer"}):
        answer = await door.api("POST", f"/api/sessions/{sid}/messages", json={**other, "key": "k-1"}, status=409)
        assert "key" in answer["detail"]
    assert len(await door.messages(sid)) == 1


async def test_what_may_be_left_out_may_be_null(door: Inside) -> None:
    sid = await door.create()
    first = await door.post(sid, "hello", key="k-1", delivery=None, attachments=None)
    assert await door.post(sid, "hello", key="k-1", delivery="queue", attachments=[]) == first
    assert await door.post(sid, "hello", key=None) != first


async def test_a_key_counts_after_the_session_has_ended(door: Inside) -> None:
    sid = await door.create()
    first = await door.post(sid, "hello", key="k-1")
    await door.api("POST", f"/api/sessions/{sid}/end")
    assert await door.post(sid, "hello", key="k-1") == first
    refused = await door.api("POST", f"/api/sessions/{sid}/messages", json={"content": "more"}, status=409)
    assert "ended" in refused["detail"]


REFUSED: list[tuple[Any, str]] = [
    ({}, "content"),
    ({"content": ""}, "content"),
    ({"content": 1}, "content"),
    ({"content": None}, "content"),
    ({"content": "x", "role": "system"}, "'role'"),
    ({"content": "x", "key": ""}, "key"),
    ({"content": "x", "key": "a\nb"}, "key"),
    ({"content": "x", "delivery": "now"}, "delivery"),
    ({"content": "x", "attachments": [{"data": "not base64!"}]}, "base64"),
    ({"content": "x", "attachments": [{"data": "aGk=", "evil": 1}]}, "'evil'"),
    ({"content": "x", "attachments": [{"data": "aGk="}] * 21}, "attachments"),
    ([], "object"),
    ("text", "object"),
    (None, "body is missing"),
]


async def test_a_body_that_does_not_fit_is_refused_by_field(door: Inside) -> None:
    sid = await door.create()
    for body, named in REFUSED:
        answer = await door.api("POST", f"/api/sessions/{sid}/messages", json=body, status=400)
        assert named in answer["detail"]
    assert await door.messages(sid) == []


async def test_a_body_that_is_no_json_is_refused(door: Inside) -> None:
    sid = await door.create()
    headers = {"Content-Type": "application/json"}
    for body in (b"{", b"\xff\xfe", b'{"content": "\\ud800"}', b"[" * 100_000, b'{"content": NaN}', b"null", b" "):
        answer = await door.api("POST", f"/api/sessions/{sid}/messages", content=body, headers=headers, status=400)
        assert answer["detail"]
        assert "\n" not in answer["detail"]
    assert await door.messages(sid) == []


async def test_a_picture_goes_to_the_model_and_can_be_fetched_as_what_it_is(door: Inside) -> None:
    sid = await door.create()
    given = {"data": base64.b64encode(PIXEL).decode(), "media_type": "text/html", "name": "pixel"}
    await door.post(sid, "look", attachments=[given])
    [message] = await door.messages(sid)
    part = message["parts"][1]
    assert (part["type"], part["media_type"], part["size"], part["alt"]) == ("image", "image/png", len(PIXEL), "pixel")
    fetched = await door.client.get(part["url"])
    assert (fetched.content, fetched.headers["content-type"]) == (PIXEL, "image/png")
    [stored] = [e for e in await door.api("GET", f"/api/sessions/{sid}/events") if e["kind"] == "InputAdmitted"]
    assert "$bytes" in str(stored["body"]) or "data" in stored["body"]["parts"][1]


async def test_text_files_become_text_and_others_are_downloads(door: Inside) -> None:
    sid = await door.create()
    page = b"<script>alert(1)</script>\0binary"
    attachments = [
        {"data": base64.b64encode(b"line 1\n").decode(), "name": "notes.txt"},
        {"data": base64.b64encode(page).decode(), "name": "x.html", "media_type": "text/html"},
    ]
    await door.post(sid, "see", attachments=attachments)
    [message] = await door.messages(sid)
    assert 'path="notes.txt"' in message["content"]
    fetched = await door.client.get(message["parts"][2]["url"])
    assert fetched.content == page
    assert fetched.headers["content-type"] == "application/octet-stream"
    assert fetched.headers["content-disposition"].startswith("attachment")
    assert "sandbox" in fetched.headers["content-security-policy"]
    for wrong in ("/0", "/9", "/x"):
        missing = await door.client.get(f"/api/sessions/{sid}/attachments/2{wrong}")
        assert missing.status_code == 404


async def test_what_is_too_large_is_refused_and_named(door: Inside) -> None:
    sid = await door.create()
    picture = base64.b64encode(PIXEL + b"\0" * (5 * 1024 * 1024)).decode()
    body = {"content": "x", "attachments": [{"data": picture, "name": "big.png"}]}
    answer = await door.api("POST", f"/api/sessions/{sid}/messages", json=body, status=400)
    assert "big.png" in answer["detail"]
    answer = await door.api("POST", f"/api/sessions/{sid}/messages", json={"content": "x" * 70_000_000}, status=413)
    assert "MiB" in answer["detail"]
    answer = await door.api("POST", "/api/sessions", json={"title": "x" * 3_000_000}, status=413)
    assert await door.messages(sid) == []


async def test_steering_is_read_by_the_running_turn_and_an_interrupt_stops_it(tmp_path: Path) -> None:
    wait = {"tool_calls": [{"name": "bash", "arguments": {"command": "touch started; sleep 30"}}]}
    async with inside(tmp_path, wait, reply("Then this."), permission_mode="danger-full-access") as door:
        sid = await door.create()
        await door.post(sid, "run")
        await door.until(lambda _: (door.project / "started").exists(), sid)
        await door.post(sid, "stop that", delivery="interrupt")
        messages = await door.until_idle(sid)
        assert [message["content"] for message in messages if message["role"] == "user"] == ["run", "stop that"]
        assert messages[-1]["content"] == "Then this."


async def test_a_model_that_is_chosen_while_a_turn_runs_answers_the_next_one(tmp_path: Path) -> None:
    """Also where the next message waits already."""
    wait = {"tool_calls": [{"name": "bash", "arguments": {"command": "until [ -e go ]; do sleep 0.02; done"}}]}
    other = tmp_path / "other.json"
    other.write_text(json.dumps([reply("Old."), reply("Old."), reply("New.")]))
    async with inside(tmp_path, wait, *[reply("Old.")] * 2, permission_mode="danger-full-access") as door:
        sid = await door.create()
        await door.post(sid, "run")
        await door.post(sid, "and then")
        await door.until(lambda found: found["session"]["active_stream_id"] is not None, sid)
        await door.api("PATCH", f"/api/sessions/{sid}", json={"model": f"scripted:{other}"})
        (door.project / "go").touch()
        replies = [one["content"] for one in await door.until_idle(sid) if one["role"] == "assistant"]
        assert replies == ["", "Old.", "New."]


async def test_a_store_that_fails_is_a_503_with_one_sentence(door: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    sid = await door.create()

    async def fails(*_: Any) -> Any:
        raise StoreUnavailable("the disk is full; free some space")

    monkeypatch.setattr((await door.door.server()).store, "commit_async", fails)
    answer = await door.api("POST", f"/api/sessions/{sid}/messages", json={"content": "x"}, status=503)
    assert answer == {"detail": "the disk is full; free some space"}


async def test_what_nobody_foresaw_is_a_500_without_a_trace(
    door: Inside, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def breaks(self: WorkerPool, session_id: str) -> str:
        raise RuntimeError("secret-internals")

    monkeypatch.setattr(WorkerPool, "trouble", breaks)
    sid = await door.create()
    answer = await door.api("GET", f"/api/sessions/{sid}", status=500)
    assert "secret-internals" not in str(answer)
    assert "Traceback" not in str(answer)
    assert "secret-internals" in caplog.text
