"""The list, creating, and one session in full."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from outlast.core.event_row import StoredEvent
from outlast.core.ids import id_from
from outlast.core.messages import Message, Role
from outlast.runtime.prompt.project_identity import project_key
from outlast.session import ConversationSession
from tests.http.inside import Inside, inside
from tests.support.http_server import reply

ROW = {
    "id", "title", "state", "model", "persona", "plan_mode", "project_key", "parent_session_id", "depth",
    "total_input_tokens", "total_output_tokens", "message_count", "last_seq", "created_at", "updated_at",
    "last_message_at", "pending_user_message", "pending_started_at", "active_stream_id",
}  # fmt: skip
MESSAGE = {
    "seq", "message_id", "role", "content", "parts", "tool_calls", "token_count", "is_summary", "archived", "ts",
}  # fmt: skip


async def test_a_new_session_is_stored_before_it_is_answered(door: Inside) -> None:
    wanted = {"persona_name": "default-interactive", "model_override": "openai:gpt-x", "title": "Named"}
    answer = await door.api("POST", "/api/sessions", json={"repo_path": str(door.project), **wanted})
    assert answer["state"] == "active"
    header = (await door.door.server()).store.head(answer["session_id"])
    assert (header.title, header.model, header.persona) == ("Named", "openai:gpt-x", "default-interactive")
    assert header.project_key == project_key(door.project)


async def test_a_session_without_a_body_is_of_the_servers_folder(door: Inside) -> None:
    answer = await door.api("POST", "/api/sessions")
    assert (await door.door.server()).store.head(answer["session_id"]).project_root == str(door.project)


async def test_what_does_not_fit_is_refused_by_name(door: Inside) -> None:
    bodies: list[tuple[dict[str, Any], str]] = [
        ({"repo_path": "relative/path"}, "$.repo_path"),
        ({"repo_path": "/a\0b"}, "$.repo_path"),
        ({"title": ""}, "$.title"),
        ({"titel": "typo"}, "'titel'"),
        ({"title": 5}, "$.title"),
    ]
    for body, named in bodies:
        answer = await door.api("POST", "/api/sessions", json=body, status=400)
        assert named in answer["detail"]
    assert await door.api("GET", "/api/sessions") == []


async def test_what_is_not_on_the_server_is_a_conflict(door: Inside) -> None:
    bodies = [
        ({"repo_path": "/there/is/no/such/folder"}, "not a folder"),
        ({"repo_path": "/" + "long" * 1000}, "not a folder"),
        ({"persona_name": "nobody"}, "no persona 'nobody'"),
        ({"model_override": "gibberish"}, "unknown model 'gibberish'"),
    ]
    for body, named in bodies:
        answer = await door.api("POST", "/api/sessions", json=body, status=409)
        assert named in answer["detail"]
    assert await door.api("GET", "/api/sessions") == []


async def test_a_row_has_every_field_of_the_contract(talking: Inside) -> None:
    sid = await talking.create()
    await talking.post(sid, "Hello there")
    await talking.until_idle(sid)
    [row] = await talking.api("GET", "/api/sessions")
    assert set(row) >= ROW
    assert (row["title"], row["message_count"], row["active_stream_id"]) == ("Hello there", 2, None)
    assert (row["total_input_tokens"], row["total_output_tokens"]) == (10, 2)


async def test_pages_by_cursor_show_each_session_once_newest_first(door: Inside) -> None:
    made = [await door.create(title=f"n{n}") for n in range(7)]
    seen: list[str] = []
    query, cursor = "?limit=3", None
    for _ in range(3):
        answer = await door.client.get(f"/api/sessions{query}")
        seen += [row["id"] for row in answer.json()]
        cursor = answer.headers.get("X-Next-Cursor")
        query = f"?limit=3&cursor={cursor}"
    assert cursor is None
    assert seen == made[::-1]


async def test_the_list_is_filtered_by_state_project_and_title(door: Inside) -> None:
    other = door.project / "other"
    other.mkdir()
    one, two, three = await door.create(title="Apples"), await door.create(title="Pears"), await door.create()
    elsewhere = await door.create(repo_path=str(other), title="Apples too")
    await door.api("POST", f"/api/sessions/{two}/end")
    await door.api("POST", f"/api/sessions/{three}/archive")

    async def found(**query: str) -> set[str]:
        return {row["id"] for row in await door.api("GET", "/api/sessions", params=query)}

    assert await found(state="active") == {one, elsewhere}
    assert await found(state="ended") == {two}
    assert await found(state="archived") == {three}
    assert await found(project=project_key(other)) == {elsewhere}
    assert await found(project=str(door.project)) == {one, two, three}
    assert await found(q="apples") == {one, elsewhere}
    assert await found(q="apples", project=str(door.project)) == {one}


async def test_a_query_that_does_not_fit_is_a_400_with_one_sentence(door: Inside) -> None:
    wrong = ("limit=0", "limit=1001", "limit=x", "limit=", "state=gone", "cursor=%00", "cursor=garbage", "limit=1.5")
    for query in wrong:
        answer = await door.api("GET", f"/api/sessions?{query}", status=400)
        assert answer["detail"].startswith((f"{query.partition('=')[0]}: ", "the cursor"))
        assert "\n" not in answer["detail"]


# --- one session


async def test_six_characters_are_enough_and_nothing_else_is_an_id(door: Inside) -> None:
    sid = await door.create()
    assert (await door.detail(sid[:6]))["session"]["id"] == sid
    for wrong in (
        sid[:5],
        sid.upper(),
        f"{sid}a",
        "00000000-1234-1234-1234-000000000000",
        "%00",
        "a%2Fb",
        "é" * 6,
    ):
        assert (await door.api("GET", f"/api/sessions/{wrong}", status=404))["detail"]
    unknown = id_from(b"\0" * 16)
    for path in ("", "/events", "/approvals", "/usage", "/tree", "/export", "/stream"):
        assert "detail" in await door.api("GET", f"/api/sessions/{unknown}{path}", status=404)


async def test_an_ambiguous_prefix_is_a_conflict_that_names_the_matches(door: Inside) -> None:
    store = (await door.door.server()).store
    twins = [f"aaaaaa{letter * 20}" for letter in "bc"]
    for name in twins:
        ConversationSession(store=store, session_id=name, project_root=door.project).persist()
    answer = await door.api("GET", "/api/sessions/aaaaaa", status=409)
    assert answer["matches"] == twins
    await door.api("POST", "/api/sessions/aaaaaa/end", status=409)
    assert {row["state"] for row in await door.api("GET", "/api/sessions")} == {"active"}


async def test_a_session_of_another_owner_is_not_there(door: Inside) -> None:
    store = (await door.door.server()).store
    foreign = ConversationSession(store=store, project_root=door.project, owner_id="somebody")
    foreign.append(Message(role=Role.USER, content="private"))
    assert await door.api("GET", "/api/sessions") == []
    for wanted in (foreign.session_id, foreign.session_id[:8]):
        await door.api("GET", f"/api/sessions/{wanted}", status=404)
        await door.api("POST", f"/api/sessions/{wanted}/messages", json={"content": "hi"}, status=404)
    assert (await door.api("GET", "/api/search?q=private"))["hits"] == []


async def test_messages_have_every_field_of_the_contract_and_no_system_prompt(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "seen.txt").write_text("inside")
    lines = [{"tool_calls": [{"name": "read", "arguments": {"file_path": "seen.txt"}}]}, reply("I read it.")]
    async with inside(tmp_path, *lines) as door:
        sid = await door.create()
        await door.post(sid, "Read it")
        messages = await door.until_idle(sid)
        assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant"]
        assert all(set(message) >= MESSAGE for message in messages)
        assert messages[1]["tool_calls"][0]["name"] == "read"
        assert "inside" in messages[2]["parts"][0]["content"]
        assert len({message["message_id"] for message in messages}) == 4


async def test_the_last_200_messages_come_first_and_before_leads_back(door: Inside) -> None:
    store = (await door.door.server()).store
    session = ConversationSession(store=store, project_root=door.project)
    session.extend([Message(role=Role.USER if n % 2 else Role.ASSISTANT, content=str(n)) for n in range(450)])
    newest = await door.messages(session.session_id)
    assert [message["content"] for message in newest] == [str(n) for n in range(250, 450)]
    older = await door.messages(session.session_id, f"?before={newest[0]['seq']}&limit=1000")
    assert [message["content"] for message in older] == [str(n) for n in range(250)]
    assert await door.messages(session.session_id, f"?before={older[0]['seq']}") == []


async def test_opening_a_long_session_reads_a_page_of_it(door: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    store = (await door.door.server()).store
    session = ConversationSession(store=store, project_root=door.project)
    session.extend([Message(role=Role.USER, content=str(n)) for n in range(6_000)])
    await door.messages(session.session_id)  # leaves a snapshot behind
    rows = 0
    read = store.read

    def counted(*given: Any, **more: Any) -> list[StoredEvent]:
        nonlocal rows
        found = read(*given, **more)
        rows += len(found)
        return found

    monkeypatch.setattr(store, "read", counted)
    for query in ("", "?before=3000", "?all=true&before=100", "?limit=1"):
        await door.messages(session.session_id, query)
        assert rows <= 500, query
        rows = 0


async def test_cleared_messages_are_shown_only_with_all(talking: Inside) -> None:
    sid = await talking.create()
    await talking.post(sid, "one")
    await talking.until_idle(sid)
    await talking.api("POST", f"/api/sessions/{sid}/clear")
    assert await talking.messages(sid) == []
    every = await talking.messages(sid, "?all=true")
    assert [(message["content"], message["archived"]) for message in every] == [("one", True), ("First.", True)]


async def test_pages_in_the_middle_of_a_turn_show_what_the_whole_would(talking: Inside) -> None:
    sid = await talking.create()
    for text in ("one", "two", "three"):
        await talking.post(sid, text)
        await talking.until_idle(sid)
    asked = (await talking.messages(sid))[2]
    await talking.api("POST", f"/api/sessions/{sid}/rewind", json={"seq": asked["seq"], "keep": False})
    for query in ("", "?all=true"):
        whole = await talking.messages(sid, query)
        more = "&all=true" if query else ""
        for before in range(2, (await talking.detail(sid))["last_seq"] + 1):
            page = await talking.messages(sid, f"?before={before}{more}")
            assert page == [message for message in whole if message["seq"] < before]


async def test_text_that_is_no_valid_unicode_is_answered(door: Inside) -> None:
    store = (await door.door.server()).store
    session = ConversationSession(store=store, project_root=door.project)
    session.append(Message(role=Role.USER, content="broken \ud800 text"))
    [message] = await door.messages(session.session_id)
    assert message["content"].startswith("broken ")
    assert message["content"].endswith(" text")
    assert await door.api("GET", f"/api/sessions/{session.session_id}/events")


async def test_a_message_of_a_fork_keeps_its_id(talking: Inside) -> None:
    sid = await talking.create()
    ack = await talking.post(sid, "one")
    await talking.until_idle(sid)
    forked = (await talking.api("POST", f"/api/sessions/{sid}/fork", json={"title": "Forked"}))["session_id"]
    assert [m["message_id"] for m in await talking.messages(forked)] == [
        m["message_id"] for m in await talking.messages(sid)
    ]
    assert (await talking.messages(forked))[0]["message_id"] == ack["message_id"]


# --- what a holder of the token cannot do


async def test_a_folder_that_no_user_has_worked_in_is_refused(tmp_path: Path) -> None:
    """A command that had the token could otherwise have any folder written by the server, which is not confined."""
    folders = {name: tmp_path / name for name in ("known", "listed", "listed/inner", "strange")}
    for folder in folders.values():
        folder.mkdir()
    (folders["listed"] / "way-out").symlink_to(folders["strange"])
    async with inside(tmp_path) as door:
        store = (await door.door.server()).store
        ConversationSession(project_root=folders["known"], store=store).persist()
        allowed = replace(door.door.settings, allowed_projects=(str(folders["listed"]),))
        (await door.door.server()).settings = allowed
        inner = door.project / "inner"
        inner.mkdir()
        for folder in (folders["known"], folders["listed"], folders["listed/inner"], inner):
            await door.api("POST", "/api/sessions", json={"repo_path": str(folder)})
        for folder in (folders["strange"], folders["listed"] / "way-out", tmp_path, Path("/"), Path.home()):
            answer = await door.api("POST", "/api/sessions", json={"repo_path": str(folder)}, status=409)
            assert "is not a project that this server knows" in answer["detail"]


async def test_a_file_as_a_model_is_refused_wherever_a_client_names_a_model(tmp_path: Path) -> None:
    script = tmp_path / "evil" / "own.json"
    script.parent.mkdir()
    script.write_text('[{"content": "obeyed"}]')
    async with inside(tmp_path, {"content": "Hello."}) as door:
        sid = await door.create()
        for name in (f"scripted:{script}", "scripted:own.json", "scripted:", f"scripted:{tmp_path}/../x"):
            made = await door.api("POST", "/api/sessions", json={"model_override": name}, status=409)
            changed = await door.api("PATCH", f"/api/sessions/{sid}", json={"model": name}, status=409)
            assert "a file as a model" in made["detail"]
            assert "a file as a model" in changed["detail"]
        await door.post(sid, "hi")
        assert (await door.until_idle(sid))[-1]["content"] == "Hello."
