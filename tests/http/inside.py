"""The HTTP door inside the test's own process, without a socket: httpx speaks to the ASGI application itself.

async with inside(tmp_path, reply("Hello.")) as door:
    sid = await door.create()
    await door.post(sid, "hi")
    await door.until_idle(sid)
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from outlast.app.settings import Settings, load_settings
from outlast.app.workers.options import WorkerOptions
from outlast.http import HttpDoor, create_app

TOKEN = "a-token-for-tests-of-more-than-32-characters"
HOST = "outlast.test"


class Inside:
    def __init__(self, door: HttpDoor, client: httpx.AsyncClient, project: Path) -> None:
        self.door = door
        self.client = client
        self.project = project

    async def api(self, method: str, path: str, *, status: int = 200, **more: Any) -> Any:
        answer = await self.client.request(method, path, **more)
        assert answer.status_code == status, f"{method} {path}: {answer.status_code} {answer.text[:500]}"
        return answer.json() if answer.content else None

    async def create(self, **body: Any) -> str:
        wanted = {"repo_path": str(self.project), **body}
        return (await self.api("POST", "/api/sessions", json=wanted))["session_id"]

    async def post(self, session_id: str, content: str, **more: Any) -> dict[str, Any]:
        return await self.api("POST", f"/api/sessions/{session_id}/messages", json={"content": content, **more})

    async def detail(self, session_id: str, query: str = "") -> dict[str, Any]:
        return await self.api("GET", f"/api/sessions/{session_id}{query}")

    async def messages(self, session_id: str, query: str = "") -> list[dict[str, Any]]:
        return (await self.detail(session_id, query))["messages"]

    async def until(self, true: Callable[[dict[str, Any]], bool], session_id: str) -> dict[str, Any]:
        """Wait until a session's detail is so; that detail. Each look comes after something was stored."""
        server = await self.door.server()
        seen = 0
        async with asyncio.timeout(60):
            while True:
                found = await self.detail(session_id)
                if true(found):
                    return found
                seen = max(seen, found["last_seq"])
                async for _ in server.store.follow_async(session_id, after=seen, timeout=0.2):
                    break

    async def until_idle(self, session_id: str) -> list[dict[str, Any]]:
        found = await self.until(lambda detail: is_idle(detail["session"]), session_id)
        return found["messages"]


def is_idle(row: dict[str, Any]) -> bool:
    return row["active_stream_id"] is None and row["pending_user_message"] is None


def settings_in(folder: Path, *lines: dict[str, Any], **more: Any) -> Settings:
    """Settings for a home and a project of their own. With `lines` a scripted model says them; without, none does."""
    project = folder / "project"
    project.mkdir(parents=True, exist_ok=True)
    script = folder / "script.json"
    script.write_text(json.dumps(lines))
    wanted: dict[str, Any] = {
        "home": folder / "home",
        "store": f"sqlite:///{folder}/store.db",
        "model": f"scripted:{script}" if lines else "none",
        "token": TOKEN,
        "project_root": project,
        "allowed_hosts": [HOST],
    }
    return load_settings(**(wanted | more))


@asynccontextmanager
async def inside(
    folder: Path, *lines: dict[str, Any], working: WorkerOptions | None = None, **more: Any
) -> AsyncGenerator[Inside]:
    settings = settings_in(folder, *lines, **more)
    door = create_app(settings) if working is None else HttpDoor(settings, working=working)
    transport = httpx.ASGITransport(app=door)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with (
        door.lifespan(),
        httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}", headers=headers, timeout=60) as client,
    ):
        yield Inside(door, client, settings.project_root)
