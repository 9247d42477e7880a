"""A gateway for tests: a real store, real turns, an echoing model, a room in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from outlast.app.gateway_settings import Credential, GatewaySettings
from outlast.app.settings import Settings, load_settings
from outlast.core import events as e
from outlast.core.chat_route import ChatAddress, route_key
from outlast.core.header import Header
from outlast.core.messages import text_of
from outlast.doors.gateway.gateway import Gateway
from outlast.doors.gateway.platform import ChatPlatform
from outlast.models.port import Model
from outlast.runtime.turn.context import TurnContext
from outlast.store import open_store
from outlast.store.log_store import LogStore
from outlast.store.read.decode import decode_events
from tests.gateway.echo import Echo
from tests.gateway.room import MEMBER, OWNER, Room

NAME = "test"


def settings_for(folder: Path, store: str | None = None, **table: Any) -> Settings:
    """Settings with one gateway called `test`, on a store in this folder."""
    home, project = folder / "home", folder / "project"
    home.mkdir(exist_ok=True)
    project.mkdir(exist_ok=True)
    script = folder / "script.json"
    script.write_text("[]")
    url = store or f"sqlite:///{folder / 'store.db'}"
    settings = load_settings(home=home, store=url, model=f"scripted:{script}", project_root=project)
    given: dict[str, Any] = {
        "name": NAME,
        "platform": "telegram",
        "credential": Credential(kind="token", value="1:x"),
        "owners": frozenset({OWNER}),
        "members": frozenset({MEMBER}),
        "project": project,
        "edit_seconds": 0.05,
        **table,
    }
    return replace(settings, gateway=(GatewaySettings(**given),))


def equipped(model: Model, **config: Any) -> Callable[[TurnContext, Header], TurnContext]:
    """Kits with this model, and without what a project would add."""

    def equip(context: TurnContext, header: Header) -> TurnContext:
        changed = msgspec.structs.replace(context.config, compaction_keep_last_messages=2, **config)
        return replace(context, model=model, memory=(), facts=(), config=changed)

    return equip


class World:
    """One gateway at work, and what can be asked about it."""

    def __init__(self, gateway: Gateway, room: Room, model: Echo, store: LogStore, settings: Settings) -> None:
        self.gateway, self.room, self.model, self.store, self.settings = gateway, room, model, store, settings
        self.line = gateway.lines[NAME]

    def route(self, chat: str = OWNER, user: str = "", thread: str = "") -> str:
        return route_key("telegram", NAME, ChatAddress(chat, thread), user)

    def session(self, chat: str = OWNER, user: str = "") -> str:
        found = self.store.route(self.route(chat, user))
        assert found is not None
        return found

    def events(self, session_id: str | None = None) -> list[e.Event | e.Opaque]:
        return events_of(self.store, session_id or self.session())

    async def settled(self, chat: str = OWNER) -> None:
        """Until the chat's session has nothing to do, and owes the chat nothing."""
        route = self.route(chat)

        def is_settled() -> bool:
            session_id = self.store.route(route)
            if session_id is None or self.store.head(session_id).has_work:
                return False
            return self.line.deliveries.outbox(route, session_id).empty

        await eventually(is_settled)

    async def asked(self, text: str, answer: str | None = None, chat: str = OWNER, **more: Any) -> None:
        """Say something and wait for the answer."""
        self.room.say(text, chat=chat, user=more.pop("user", chat), **more)
        await self.room.heard(answer or f"re: {text}", chat)


def events_of(store: LogStore, session_id: str) -> list[e.Event | e.Opaque]:
    return [event for _, event in decode_events(store, store.read(session_id))]


def inputs_of(store: LogStore, session_id: str) -> list[str]:
    return [text_of(event.parts) for event in events_of(store, session_id) if isinstance(event, e.InputAdmitted)]


def kinds_of(store: LogStore, session_id: str, *kinds: type[e.Event]) -> list[Any]:
    return [event for event in events_of(store, session_id) if isinstance(event, kinds)]


async def eventually(true: Callable[[], bool], seconds: float = 30.0) -> None:
    """Wait until this holds, of what no event tells: another process's, or another task's, doing."""
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def running(
    folder: Path,
    room: Room | None = None,
    model: Echo | None = None,
    *,
    chat_platform: ChatPlatform | None = None,
    store: LogStore | None = None,
    url: str | None = None,
    config: dict[str, Any] | None = None,
    patience: float = 5.0,
    **table: Any,
) -> AsyncGenerator[World]:
    """A gateway that runs; closed politely at the end."""
    room, model = room if room is not None else Room(), model if model is not None else Echo()
    settings = settings_for(folder, url, **table)
    opened = store if store is not None else open_store(settings.store)

    def make(table: GatewaySettings, settings: Settings) -> ChatPlatform:
        return chat_platform if chat_platform is not None else room

    gateway = Gateway(opened, settings, make=make, equip=equipped(model, **(config or {})))
    await gateway.start()
    try:
        yield World(gateway, room, model, opened, settings)
    finally:
        await gateway.close(patience)
        if store is None:
            opened.close()
