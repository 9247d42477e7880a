"""What can be done to a session as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from outlast.app.workers.options import WorkerOptions
from outlast.core import events as e
from outlast.core.errors import SessionDeleted
from outlast.core.messages import Message, Role, TextPart
from outlast.session import ConversationSession
from outlast.store.port import ClaimRequest
from outlast.testing.contract.restores import elsewhere, part
from tests.http.inside import Inside, inside
from tests.support.http_server import call, reply


async def act(door: Inside, sid: str, verb: str, status: int = 200, **body: Any) -> Any:
    return await door.api("POST", f"/api/sessions/{sid}/{verb}", json=body or None, status=status)


async def said(door: Inside, sid: str, query: str = "") -> list[str]:
    return [message["content"] for message in await door.messages(sid, query)]


@pytest.fixture
async def spoken(talking: Inside) -> tuple[Inside, str]:
    """Two turns: one, First., two, Second."""
    sid = await talking.create()
    for text in ("one", "two"):
        await talking.post(sid, text)
        await talking.until_idle(sid)
    return talking, sid


async def test_end_and_reopen_and_what_an_ended_session_refuses(spoken: tuple[Inside, str]) -> None:
    door, sid = spoken
    assert (await act(door, sid, "end"))["state"] == "ended"
    assert (await act(door, sid, "end"))["result"] == "nothing"
    for verb in ("clear", "compact", "uncompact", "continue", "retry", "unrewind"):
        assert "ended" in (await act(door, sid, verb, 409))["detail"]
    assert "ended" in (await act(door, sid, "rewind", 409, seq=2))["detail"]
    assert (await act(door, sid, "fork"))["state"] == "active"
    assert (await act(door, sid, "reopen"))["state"] == "active"
    await door.post(sid, "three")
    assert (await door.until_idle(sid))[-1]["content"] == "Third."


async def test_end_stops_a_running_turn_first(tmp_path: Path) -> None:
    wait = {"tool_calls": [{"name": "bash", "arguments": {"command": "touch started; sleep 30; touch finished"}}]}
    async with inside(tmp_path, wait, permission_mode="danger-full-access") as door:
        sid = await door.create()
        await door.post(sid, "run")
        await door.until(lambda _: (door.project / "started").exists(), sid)
        assert (await act(door, sid, "end"))["state"] == "ended"
        detail = await door.detail(sid)
        assert (detail["session"]["active_stream_id"], detail["session"]["state"]) == (None, "ended")
        assert not (door.project / "finished").exists()


async def test_archive_and_unarchive_bring_back_what_it_was(spoken: tuple[Inside, str]) -> None:
    door, sid = spoken
    assert (await act(door, sid, "archive"))["state"] == "archived"
    assert (await act(door, sid, "archive"))["result"] == "nothing"
    assert (await act(door, sid, "unarchive"))["state"] == "active"
    await act(door, sid, "end")
    await act(door, sid, "archive")
    assert (await act(door, sid, "unarchive"))["state"] == "ended"


async def test_clear_archives_and_the_session_goes_on(spoken: tuple[Inside, str]) -> None:
    door, sid = spoken
    assert (await act(door, sid, "clear"))["result"] == "done"
    assert await said(door, sid) == []
    await door.post(sid, "three")
    await door.until_idle(sid)
    assert await said(door, sid) == ["three", "Third."]
    assert await said(door, sid, "?all=true") == ["one", "First.", "two", "Second.", "three", "Third."]


async def test_rewind_sets_aside_and_unrewind_brings_back(spoken: tuple[Inside, str]) -> None:
    door, sid = spoken
    asked = (await door.messages(sid))[2]
    await act(door, sid, "rewind", seq=asked["seq"], keep=False)
    assert await said(door, sid) == ["one", "First."]
    await act(door, sid, "unrewind")
    assert await said(door, sid) == ["one", "First.", "two", "Second."]
    assert "not a message" in (await act(door, sid, "rewind", 409, seq=1))["detail"]
    await act(door, sid, "rewind", 409, seq=9999)
    assert "'to'" in (await act(door, sid, "rewind", 400, to=3))["detail"]


async def test_compact_puts_a_summary_and_uncompact_takes_it_back(talking: Inside) -> None:
    store = (await talking.door.server()).store
    session = ConversationSession(store=store, project_root=talking.project)
    session.extend([Message(role=Role.USER if n % 2 == 0 else Role.ASSISTANT, content=f"m{n}") for n in range(20)])
    sid = session.session_id
    assert (await act(talking, sid, "compact"))["result"] == "done"
    messages = await talking.messages(sid)
    [summary] = [message for message in messages if message["is_summary"]]
    assert summary["role"] == "system"
    assert [message["content"] for message in messages if not message["is_summary"]] == [f"m{n}" for n in range(20)]
    assert (await act(talking, sid, "uncompact"))["result"] == "done"
    assert "not compacted" in (await act(talking, sid, "uncompact", 409))["detail"]


async def test_a_fork_goes_on_by_itself_and_the_tree_shows_both(spoken: tuple[Inside, str]) -> None:
    door, sid = spoken
    answered = (await door.messages(sid))[1]
    forked = (await act(door, sid, "fork", at=answered["seq"], title="Another way"))["session_id"]
    assert await said(door, forked) == ["one", "First."]
    await door.post(forked, "elsewhere")
    await door.until_idle(forked)
    assert await said(door, sid) == ["one", "First.", "two", "Second."]
    for one in (sid, forked):
        family = await door.api("GET", f"/api/sessions/{one}/tree")
        assert family["root_id"] == sid
        assert [(member["id"], member["relation"]) for member in family["members"]] == [(sid, "root"), (forked, "fork")]
        assert family["members"][1]["base_seq"] == answered["seq"]
    assert "9999" in (await act(door, sid, "fork", 409, at=9999))["detail"]


async def test_retry_asks_the_last_message_once_more(spoken: tuple[Inside, str]) -> None:
    door, sid = spoken
    ack = await act(door, sid, "retry")
    assert ack["session_id"] == sid
    await door.until_idle(sid)
    assert await said(door, sid) == ["one", "First.", "two", "Third."]


async def test_retry_stops_a_running_turn_first(tmp_path: Path) -> None:
    wait = {"tool_calls": [{"name": "bash", "arguments": {"command": "touch started; sleep 30"}}]}
    async with inside(tmp_path, wait, reply("Better now."), permission_mode="danger-full-access") as door:
        sid = await door.create()
        await door.post(sid, "run")
        await door.until(lambda _: (door.project / "started").exists(), sid)
        await act(door, sid, "retry")
        messages = await door.until_idle(sid)
        assert [message["content"] for message in messages][:2] == ["run", "Better now."]


async def test_retry_with_nothing_said_is_refused(door: Inside) -> None:
    sid = await door.create()
    assert "has no messages yet" in (await act(door, sid, "retry", 409))["detail"]


async def test_interrupt_stops_the_turn_and_keeps_the_session(tmp_path: Path) -> None:
    wait = {"tool_calls": [{"name": "bash", "arguments": {"command": "touch started; sleep 30"}}]}
    async with inside(tmp_path, wait, reply("Still here."), permission_mode="danger-full-access") as door:
        sid = await door.create()
        assert (await act(door, sid, "interrupt"))["result"] == "nothing"
        await door.post(sid, "run")
        await door.until(lambda _: (door.project / "started").exists(), sid)
        assert (await act(door, sid, "interrupt", reason="enough"))["result"] == "requested"
        await door.until_idle(sid)
        await door.post(sid, "and now?")
        assert (await door.until_idle(sid))[-1]["content"] == "Still here."


async def test_continue_answers_what_waits(tmp_path: Path) -> None:
    async with inside(tmp_path) as door:
        sid = await door.create()
        assert (await act(door, sid, "continue"))["result"] == "nothing"
        await door.post(sid, "waiting")
        assert "--model none" in (await act(door, sid, "continue", 409))["detail"]
    async with inside(tmp_path, reply("At last."), resume_on_start=False) as door:
        assert (await door.detail(sid))["session"]["activity"] == "waiting"
        assert (await act(door, sid, "continue"))["result"] == "done"
        assert (await door.until_idle(sid))[-1]["content"] == "At last."


async def test_continue_at_a_server_without_a_worker_reaches_the_workers_elsewhere(tmp_path: Path) -> None:
    rows = elsewhere("i" * 26, e.SessionCreated(), e.InputAdmitted(parts=(TextPart("waiting"),)))
    wanted = ClaimRequest(token="t", holder="another", most=1)
    async with inside(tmp_path, reply("never"), working=WorkerOptions(works=False)) as door:
        store = (await door.door.server()).store
        store.commit(part(rows))
        assert store.claim(wanted) == [], "what came from a file waits until somebody asks for it"
        assert (await act(door, "i" * 26, "continue"))["result"] == "done"
        assert [claimed.lease.session_id for claimed in store.claim(wanted)] == ["i" * 26]
        last = store.head("i" * 26).last_seq
        await act(door, "i" * 26, "continue")
        assert store.head("i" * 26).last_seq == last, "whoever drives it needs no call"


async def test_a_start_answers_what_waits_by_itself(tmp_path: Path) -> None:
    async with inside(tmp_path) as door:
        sid = await door.create()
        await door.post(sid, "waiting")
    async with inside(tmp_path, reply("By itself.")) as door:
        assert (await door.until_idle(sid))[-1]["content"] == "By itself."


async def test_what_is_given_is_changed_and_a_rename_wins(spoken: tuple[Inside, str]) -> None:
    door, sid = spoken
    change = {"title": "Mine", "model": "anthropic:claude-x", "permission_mode": "read-only", "plan_mode": True}
    row = await door.api("PATCH", f"/api/sessions/{sid}", json=change)
    assert (row["title"], row["model"], row["plan_mode"]) == ("Mine", "anthropic:claude-x", True)
    assert (await door.detail(sid))["permission_mode"] == "read-only"
    row = await door.api("PATCH", f"/api/sessions/{sid}", json={"plan_mode": False})
    assert (row["plan_mode"], row["title"]) == (False, "Mine")
    assert (await door.detail(sid))["workflow"] is None
    await door.api("PATCH", f"/api/sessions/{sid}", json={"workflow": "guided"})
    assert (await door.detail(sid))["workflow"] == "guided"


async def test_a_change_that_cannot_be_changes_nothing(door: Inside) -> None:
    wrong: list[tuple[dict[str, Any], int, str]] = [
        ({"permission_mode": "allow"}, 409, "'workspace-write'"),
        ({"permission_mode": "danger-full-access"}, 409, "'workspace-write'"),
        ({"permission_mode": "root"}, 400, "permission_mode"),
        ({"workflow": "quick"}, 400, "workflow"),
        ({"title": "  "}, 400, "title"),
        ({"model": "nonsense"}, 409, "unknown model"),
        ({"persona": "nobody"}, 409, "no persona"),
        ({"state": "ended"}, 400, "'state'"),
    ]
    sid = await door.create(title="Before")
    last_seq = (await door.detail(sid))["last_seq"]
    for change, status, named in wrong:
        for body in (change, {"title": "After", **change}):
            answer = await door.api("PATCH", f"/api/sessions/{sid}", json=body, status=status)
            assert named in answer["detail"]
    await door.api("PATCH", f"/api/sessions/{sid}", json={})
    assert (await door.detail(sid))["last_seq"] == last_seq


async def test_a_session_that_is_to_plan_plans_until_somebody_says_otherwise(tmp_path: Path) -> None:
    plan = "1. Look at the code\n2. Change it\n\nAcceptance criteria:\n- it works"
    async with inside(tmp_path, reply(plan), reply(plan), reply("Done.")) as door:
        sid = await door.create()
        await door.api("PATCH", f"/api/sessions/{sid}", json={"plan_mode": True})
        for _ in range(2):
            await door.post(sid, "Refactor the parser and its tests")
            await door.until_idle(sid)
            assert (await door.detail(sid))["session"]["plan_mode"] is True
        modes = [e["body"]["mode"] for e in await door.api("GET", f"/api/sessions/{sid}/events?kinds=TurnStarted")]
        assert modes == ["plan", "plan"]
        await door.api("PATCH", f"/api/sessions/{sid}", json={"plan_mode": False})
        await door.post(sid, "hi")
        await door.until_idle(sid)
        assert (await door.detail(sid))["session"]["plan_mode"] is False


async def test_a_plan_is_approved_over_http_and_then_carried_out(tmp_path: Path) -> None:
    plan, write = call("exit_plan", plan="# Steps\n- write a.txt"), call("write", file_path="a.txt", content="x")
    async with inside(tmp_path, plan, write, reply("Written.")) as door:
        sid = await door.create()
        await door.api("PATCH", f"/api/sessions/{sid}", json={"plan_mode": True})
        await door.post(sid, "Write it")
        await door.until(lambda detail: detail["approvals"] > 0, sid)
        [asked] = await door.api("GET", f"/api/sessions/{sid}/approvals")
        assert asked["answers"] == ["once", "deny"]
        assert (asked["name"], asked["arguments"]) == ("exit_plan", {"plan": "# Steps\n- write a.txt"})
        answer = {"approval_id": asked["approval_id"], "answer": "once", "call_digest": asked["call_digest"]}
        await door.api("POST", f"/api/sessions/{sid}/approvals", json=answer)
        assert (await door.until_idle(sid))[-1]["content"] == "Written."
        assert (await door.detail(sid))["session"]["plan_mode"] is False


async def test_delete_erases_and_leaves_a_receipt(spoken: tuple[Inside, str]) -> None:
    door, sid = spoken
    last_seq = (await door.detail(sid))["last_seq"]
    forked = (await act(door, sid, "fork"))["session_id"]
    [receipt] = await door.api("DELETE", f"/api/sessions/{sid}")
    assert (receipt["session_id"], receipt["last_seq"], receipt["kept_for_forks"]) == (sid, last_seq, 1)
    assert receipt["deleted_by"] == "user/http"
    assert await said(door, forked) == ["one", "First.", "two", "Second."]
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/events"), ("POST", "/end"), ("GET", "/stream")):
        assert "deleted" in (await door.api(method, f"/api/sessions/{sid}{path}", status=404))["detail"]
    with pytest.raises(SessionDeleted):
        (await door.door.server()).store.head(sid)
    gone = await door.api("DELETE", f"/api/sessions/{forked}?with_forks=true")
    assert [one["session_id"] for one in gone] == [forked]
    assert await door.api("GET", "/api/sessions") == []
