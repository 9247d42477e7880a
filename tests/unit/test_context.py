"""The session that the running code belongs to."""

import asyncio

import pytest

from outlast.context import current_session_id, get_session_env, set_current_session_id


async def test_concurrent_turns_see_only_their_own_session() -> None:
    async def turn(name: str) -> str | None:
        set_current_session_id(name)
        await asyncio.sleep(0)
        return current_session_id()

    assert await asyncio.gather(*(asyncio.create_task(turn(f"s{n}")) for n in range(5))) == [f"s{n}" for n in range(5)]


def test_a_child_process_finds_it_in_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTLAST_SESSION_ID", "from-the-parent")
    set_current_session_id(None)
    assert get_session_env("OUTLAST_SESSION_ID", "none") == "from-the-parent"
    set_current_session_id("mine")
    assert get_session_env("OUTLAST_SESSION_ID", "none") == "mine"
    set_current_session_id(None)


def test_a_name_that_is_not_set_gives_the_default() -> None:
    assert get_session_env("OUTLAST_NO_SUCH_THING", "other") == "other"
