"""What waits for the user's word: shown exactly, bound to the call, answered once, after a restart too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.http.inside import Inside, inside
from tests.support.http_server import call, reply

EDIT = call("write", file_path="notes.txt", content="new line\n")
READ = call("read", file_path="notes.txt")


async def asked(door: Inside, text: str = "go") -> tuple[str, dict[str, Any]]:
    sid = await door.create()
    await door.post(sid, text)
    await door.until(lambda detail: detail["approvals"] > 0, sid)
    [question] = await door.api("GET", f"/api/sessions/{sid}/approvals")
    return sid, question


async def answer(door: Inside, sid: str, status: int = 200, **body: Any) -> Any:
    return await door.api("POST", f"/api/sessions/{sid}/approvals", json=body, status=status)


async def test_a_call_is_shown_exactly_with_its_diff_and_runs_once_approved(tmp_path: Path) -> None:
    async with inside(tmp_path, EDIT, reply("Written."), permission_mode="prompt") as door:
        (door.project / "notes.txt").write_text("old line\n")
        sid, question = await asked(door)
        assert (question["name"], question["arguments"]["content"]) == ("write", "new line\n")
        assert "-old line" in question["diff"]
        assert "+new line" in question["diff"]
        assert question["answers"] == ["once", "session", "always", "deny"]
        given: dict[str, Any] = {
            "approval_id": question["approval_id"],
            "answer": "once",
            "call_digest": question["call_digest"],
        }
        assert (await answer(door, sid, **given))["approval_id"] == question["approval_id"]
        await door.until(lambda _: (door.project / "notes.txt").read_text() == "new line\n", sid)
        later = await door.api("GET", f"/api/sessions/{sid}/approvals")
        assert question["approval_id"] not in [one["approval_id"] for one in later]


async def test_a_denied_call_leaves_no_trace_in_the_project(tmp_path: Path) -> None:
    async with inside(tmp_path, EDIT, reply("Then not."), permission_mode="prompt") as door:
        sid, question = await asked(door)
        await answer(door, sid, approval_id=question["approval_id"], answer="deny")
        messages = await door.until_idle(sid)
        assert not (door.project / "notes.txt").exists()
        assert [message["content"] for message in messages if message["role"] == "assistant"][-1] == "Then not."


async def test_what_a_sub_agent_asks_is_asked_with_its_parent_and_answered_in_its_own_session(tmp_path: Path) -> None:
    """The sub-agent reads the same script from its beginning, so it wants what its parent wanted first."""
    script = (READ, reply("One."), call("task", prompt="Read it too."), reply("Two."))
    async with inside(tmp_path, *script, permission_mode="prompt") as door:
        (door.project / "notes.txt").write_text("a line\n")
        sid, own = await asked(door)
        await answer(door, sid, approval_id=own["approval_id"], answer="deny")
        await door.until_idle(sid)
        await door.post(sid, "again")
        await door.until(lambda detail: detail["approvals"] > 0, sid)
        [task] = await door.api("GET", f"/api/sessions/{sid}/approvals")
        assert (task["name"], task["session_id"], own["session_id"]) == ("task", sid, sid)
        await answer(door, sid, approval_id=task["approval_id"], answer="once")
        await door.until(lambda detail: detail["approvals"] > 0, sid)
        [below] = await door.api("GET", f"/api/sessions/{sid}/approvals")
        assert below["name"] == "read"
        assert below["session_id"] != sid
        await answer(door, below["session_id"], approval_id=below["approval_id"], answer="once")
        messages = await door.until_idle(sid)
        assert messages[-1]["content"] == "Two."
        assert await door.api("GET", f"/api/sessions/{sid}/approvals") == []


async def test_an_answer_is_bound_to_the_question_and_to_the_call(tmp_path: Path) -> None:
    async with inside(tmp_path, EDIT, reply("Done."), permission_mode="prompt") as door:
        sid, question = await asked(door)
        here = question["approval_id"]
        assert (
            "another call" in (await answer(door, sid, 409, approval_id=here, answer="once", call_digest="0"))["detail"]
        )
        assert "no open question" in (await answer(door, sid, 409, approval_id=here + 1, answer="once"))["detail"]
        assert "one of once" in (await answer(door, sid, 400, approval_id=here, answer="maybe"))["detail"]
        for body in ({"approval_id": here}, {"answer": "once"}, {"approval_id": str(here), "answer": "once"}):
            await answer(door, sid, 400, **body)
        assert not (door.project / "notes.txt").exists()
        first = await answer(door, sid, approval_id=here, answer="once")
        assert await answer(door, sid, approval_id=here, answer="once") == first
        assert (await answer(door, sid, 409, approval_id=here, answer="deny"))["detail"]


async def test_a_question_is_still_asked_after_a_restart(tmp_path: Path) -> None:
    async with inside(tmp_path, EDIT, reply("Written."), permission_mode="prompt") as door:
        sid, before = await asked(door)
    async with inside(tmp_path, EDIT, reply("Written."), permission_mode="prompt") as door:
        await door.until(lambda detail: detail["approvals"] > 0, sid)
        [question] = await door.api("GET", f"/api/sessions/{sid}/approvals")
        assert (question["approval_id"], question["call_digest"]) == (before["approval_id"], before["call_digest"])
        await answer(door, sid, approval_id=question["approval_id"], answer="once")
        written = door.project / "notes.txt"
        await door.until(lambda _: written.exists() and written.read_text() == "new line\n", sid)


@pytest.mark.parametrize("text", ["blue", "a longer\nanswer"])
async def test_the_model_asks_and_any_text_answers(tmp_path: Path, text: str) -> None:
    question = call("ask_user", question="Which colour?", choices=["red", "blue"])
    async with inside(tmp_path, question, reply("Thanks.")) as door:
        sid, asking = await asked(door)
        assert (asking["name"], asking["arguments"]["question"]) == ("ask_user", "Which colour?")
        assert (asking["answers"], asking["diff"]) == ([], None)
        await answer(door, sid, approval_id=asking["approval_id"], answer=text)
        messages = await door.until_idle(sid)
        [result] = [message["parts"][0]["content"] for message in messages if message["role"] == "tool"]
        assert text in result
