"""Seed 003: its five scenarios of a session over HTTP, with our names, on every store.

What differs: a token is wanted, the host has to be allowed, prefixes of ids work over HTTP too, and `/clear` archives
by an event, so the archived message of the last scenario is cleared through the API and not flipped in a table.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from httpx import ASGITransport, AsyncClient

from outlast import load_settings
from outlast.http import create_app

TOKEN = "a-token-of-at-least-thirty-two-characters"
PERSONA = "default-interactive"


@pytest.fixture
async def app_client(temp_dir: Path) -> AsyncIterator[AsyncClient]:
    settings = load_settings(
        home=temp_dir / "data", project_root=temp_dir, model="none", token=TOKEN, allowed_hosts=["test"]
    )
    app = create_app(settings)
    transport = ASGITransport(app=app)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with (
        app.router.lifespan_context(app),
        AsyncClient(transport=transport, base_url="http://test", timeout=60.0, headers=headers) as client,
    ):
        yield client


async def _created(client: AsyncClient, folder: Path) -> str:
    r = await client.post("/api/sessions", json={"persona_name": PERSONA, "repo_path": str(folder)})
    assert r.status_code == 200, r.text
    return r.json()["session_id"]


async def test_create_session_and_post_message_persists(app_client: AsyncClient, temp_dir: Path) -> None:
    sid = await _created(app_client, temp_dir)
    r2 = await app_client.post(f"/api/sessions/{sid}/messages", json={"content": "안녕! wordcount CLI 만들고 싶어"})
    assert r2.status_code == 200, r2.text
    r3 = await app_client.get(f"/api/sessions/{sid}")
    assert r3.status_code == 200
    detail = r3.json()
    assert detail["session"]["state"] == "active"
    assert detail["session"]["title"] is not None
    assert "wordcount" in detail["session"]["title"]
    assert detail["session"]["total_input_tokens"] > 0
    assert len(detail["messages"]) == 1
    assert detail["messages"][0]["role"] == "user"
    assert "wordcount" in detail["messages"][0]["content"]


async def test_list_sessions_includes_all_recent_in_last_activity_order(
    app_client: AsyncClient, temp_dir: Path
) -> None:
    ids: list[str] = []
    for n in range(3):
        sid = await _created(app_client, temp_dir)
        await app_client.post(f"/api/sessions/{sid}/messages", json={"content": f"session {n} first message"})
        ids.append(sid)
    r = await app_client.get("/api/sessions?limit=10")
    assert r.status_code == 200
    assert [row["id"] for row in r.json()] == ids[::-1]
    await app_client.post(f"/api/sessions/{ids[0]}/messages", json={"content": "again"})
    assert (await app_client.get("/api/sessions?limit=1")).json()[0]["id"] == ids[0]


async def test_resolve_session_id_by_prefix(app_client: AsyncClient, temp_dir: Path) -> None:
    sid = await _created(app_client, temp_dir)
    for wanted in (sid, sid[:6], sid[:12]):
        r = await app_client.get(f"/api/sessions/{wanted}")
        assert r.status_code == 200
        assert r.json()["session"]["id"] == sid
    for bogus in ("00000000-1234-1234-1234-000000000000", sid[:5], "zzzzzzzz"):
        assert (await app_client.get(f"/api/sessions/{bogus}")).status_code == 404


async def test_end_session_rejects_further_messages(app_client: AsyncClient, temp_dir: Path) -> None:
    sid = await _created(app_client, temp_dir)
    await app_client.post(f"/api/sessions/{sid}/messages", json={"content": "first"})
    end = await app_client.post(f"/api/sessions/{sid}/end")
    assert end.status_code == 200
    assert end.json()["state"] == "ended"
    blocked = await app_client.post(f"/api/sessions/{sid}/messages", json={"content": "after-ended"})
    assert blocked.status_code == 409
    assert "ended" in blocked.json()["detail"]


async def test_get_session_show_archived_when_requested(app_client: AsyncClient, temp_dir: Path) -> None:
    sid = await _created(app_client, temp_dir)
    await app_client.post(f"/api/sessions/{sid}/messages", json={"content": "first message"})
    assert (await app_client.post(f"/api/sessions/{sid}/clear")).status_code == 200
    r_default = await app_client.get(f"/api/sessions/{sid}")
    assert r_default.status_code == 200
    assert r_default.json()["messages"] == []
    r_all = await app_client.get(f"/api/sessions/{sid}?all=true")
    assert r_all.status_code == 200
    assert len(r_all.json()["messages"]) == 1
    assert r_all.json()["messages"][0]["archived"] is True
