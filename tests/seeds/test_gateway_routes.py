"""Seed 002: a chat whose session was compacted into another one goes on there, after a restart too.

The seed's gateway kept the mapping of chats in memory and on disk and had to remember to save it in three places
(its issue 29335). Here the mapping is a row that moves in the very commit that makes the new session, so there is
nothing to forget; what the seed's tests mean is shown on every store.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from outlast import load_settings, open_store
from outlast.context import get_session_env, set_current_session_id
from outlast.core import events as e
from outlast.core.header import Header
from outlast.core.ids import id_from
from outlast.runtime.clock import SystemClock
from outlast.runtime.driver import Driver
from outlast.runtime.history import boundaries
from outlast.store import lineage
from outlast.store.log_store import LogStore
from outlast.store.port import Append, MoveRoutes, PutRoute, Write
from tests.architecture.source import dotted, modules
from tests.gateway.echo import Echo
from tests.gateway.room import Room
from tests.gateway.world import World, kinds_of, running

LONG = "word " * 300


@asynccontextmanager
async def gateway(folder: Path, room: Room, model: Echo | None = None) -> AsyncGenerator[World]:
    url = load_settings().store
    async with running(folder.parent, room, model, url=url, compaction="rotate", compact_at_tokens=80_000) as world:
        yield world


async def talked(world: World, times: int = 4) -> str:
    for n in range(times):
        await world.asked(f"{n} {LONG}".strip())
    await world.settled()
    return world.session()


async def compressed(world: World) -> str:
    """The chat's session is compacted by hand; the new one."""
    old = world.session()
    world.room.say("/compact")
    await world.room.until(lambda: any("summarised now" in text for text in world.room.texts()))
    assert world.session() != old
    return world.session()


def test_every_post_compression_session_id_assignment_persists() -> None:
    """There is one function that lets a session go on under another id. Its writes always hold the routes, and whoever
    calls it commits all of them at once."""
    header = Header(session_id=id_from(b"\1" * 16), last_seq=3)
    writes = lineage.rotate(header, id_from(b"\2" * 16), token="t", holder="h")
    assert [write for write in writes if isinstance(write, MoveRoutes)] == [
        MoveRoutes(from_session_id=header.session_id, to_session_id=id_from(b"\2" * 16))
    ]
    callers = {
        module.name
        for module in modules()
        if "rotate" in module.text and not module.is_in("outlast.testing", lineage.__name__)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and dotted(node.func).split(".")[-1] == "rotate"
    }
    assert callers == {boundaries.__name__}
    source = inspect.getsource(boundaries)
    assert source.count("= rotate(") == source.count("commit_async(*writes)") == 1


async def test_gateway_session_entry_follows_compression_rotation(temp_dir: Path) -> None:
    """The route leads to the new session at once, for whoever opens the store anew, and after a restart."""
    room = Room()
    async with gateway(temp_dir, room) as world:
        old = await talked(world)
        new = await compressed(world)
        route = world.route()
        with open_store(load_settings().store) as another:
            assert another.route(route) == new
            assert another.head(old).rotated_to == new
    async with gateway(temp_dir, room) as world:
        assert world.session() == new
        await world.asked("and now")
        assert world.session() == new
        assert world.model.seen[-1][0] == new, "the next turn reads the new session"
        assert len(kinds_of(world.store, new, e.Compacted)) == 1, "and does not compact again"


async def test_no_update_when_session_id_unchanged(temp_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn that does not compact writes nothing to any route."""
    written: list[Write] = []
    real = LogStore.commit_async

    async def noting(self: LogStore, *writes: Write) -> Any:
        written.extend(writes)
        return await real(self, *writes)

    async with gateway(temp_dir, Room()) as world:
        await world.asked("one")
        await world.settled()
        before = world.session()
        monkeypatch.setattr(LogStore, "commit_async", noting)
        await world.asked("two")
        await world.asked("three")
        await world.settled()
        assert world.session() == before
    assert any(isinstance(write, Append) for write in written)
    assert not any(isinstance(write, PutRoute | MoveRoutes) for write in written)


async def test_contextvar_and_session_entry_agree_after_compression(temp_dir: Path) -> None:
    """Whoever asks in the context of a session that rotates is told the same as the route says, at every moment."""
    async with gateway(temp_dir, Room()) as world:
        old = await talked(world)
        turn_context = await asyncio.to_thread(world.line.pool.turn_context, old)
        driver = await Driver.open(world.store, old, SystemClock())
        await driver.claim()
        set_current_session_id(old)
        try:
            assert get_session_env("OUTLAST_SESSION_ID", "") == old == world.session()
            await boundaries.apply_boundary(driver, turn_context, "rotate", {})
            new = world.session()
            assert get_session_env("OUTLAST_SESSION_ID", "") == new == driver.session_id != old
        finally:
            set_current_session_id(None)
            await driver.release()
        await world.asked("and in a turn")
        session, context, _ = world.model.seen[-1]
        assert session == context == world.session() == new


async def test_issue_29335_cannot_occur(temp_dir: Path) -> None:
    """Compress, restart, turn, restart, turn: the context never jumps back, and is compacted once."""
    room, model = Room(), Echo(tokens=100)
    async with gateway(temp_dir, room, model) as world:
        await talked(world, 3)
        model.tokens = 90_000
        await world.asked("the one that fills it")
        model.tokens = 100
    sessions = set[str]()
    for n in range(3):
        async with gateway(temp_dir, room, model) as world:
            await world.asked(f"after restart {n}")
            sessions.add(world.session())
            assert len(kinds_of(world.store, world.session(), e.Compacted)) == 1
    assert len(sessions) == 1
