"""What a terminal asks of the layers below: the feed, previews of changes, modes, interruptions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from outlast import open_store
from outlast.app.permissions import consent, modes_under, pending_consents
from outlast.app.sessions.context_usage import context_use
from outlast.app.sessions.pending_approvals import change_of
from outlast.app.streams.cursor import DraftChunk
from outlast.app.streams.event_feed import EventStored, feed
from outlast.app.turn_setup import build_turn_context
from outlast.core import events as e
from outlast.doors.repl.resume_prompt import interruption
from outlast.models.scripted import Line
from outlast.runtime.permissions.mode import PermissionMode
from outlast.store.log_store import LogStore
from tests.support.agents import agent_with, call


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LogStore]:
    with open_store(f"sqlite:///{tmp_path / 'x.db'}") as opened:
        yield opened


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def test_no_mode_above_the_ceiling_can_be_chosen() -> None:
    assert modes_under(PermissionMode.READ_ONLY) == [PermissionMode.READ_ONLY]
    assert modes_under(PermissionMode.WORKSPACE_WRITE) == ["read-only", "prompt", "workspace-write"]
    assert set(modes_under(PermissionMode.ALLOW)) == set(PermissionMode)


async def test_the_feed_tells_every_event_once_and_drafts_before_their_reply(store: LogStore, project: Path) -> None:
    agent = agent_with(store, project, Line(reply="A text that comes slowly.", delay=0.1))
    agent.session.persist()
    told: list[EventStored | DraftChunk] = []

    async def listen() -> None:
        async for item in feed(store, agent.session.session_id):
            if isinstance(item, EventStored | DraftChunk):
                told.append(item)
            if isinstance(item, EventStored) and isinstance(item.event, e.TurnEnded):
                return

    listening = asyncio.ensure_future(listen())
    await agent.run("go")
    await asyncio.wait_for(listening, 10)
    seqs = [item.stored.seq for item in told if isinstance(item, EventStored)]
    assert seqs == list(range(1, len(seqs) + 1))
    drafts = [n for n, item in enumerate(told) if isinstance(item, DraftChunk)]
    replied = [
        n for n, item in enumerate(told) if isinstance(item, EventStored) and item.stored.kind == "AssistantReplied"
    ]
    assert drafts
    assert max(drafts) < replied[0]


async def test_a_change_is_seen_before_it_is_made(store: LogStore, project: Path) -> None:
    (project / "a.txt").write_text("old\n")
    agent = agent_with(store, project)
    context = build_turn_context(agent.settings, agent.config, project, agent.session.state, backend=agent.backend)
    edit = {"file_path": "a.txt", "old_string": "old", "new_string": "new"}
    change = await change_of(context, "s", "edit", edit)
    assert change is not None
    assert "-old\n+new" in change
    written = await change_of(context, "s", "write", {"file_path": "b.txt", "content": "x\n"})
    assert written is not None
    assert "+x" in written
    impossible = await change_of(context, "s", "edit", {**edit, "old_string": "missing"})
    assert impossible is not None
    assert impossible.startswith("This call would fail now: old_string is not in a.txt")
    assert await change_of(context, "s", "bash", {"command": "ls"}) is None
    patch = {"patch": "*** Begin Patch\n*** Update File: a.txt\n@@\n-old\n+new\n*** Add File: c\n+c\n*** End Patch"}
    assert await change_of(context, "s", "apply_patch", patch) is None  # this model is not offered it
    config = msgspec.structs.replace(agent.config, apply_patch=True)
    patching = build_turn_context(agent.settings, config, project, agent.session.state, backend=agent.backend)
    several = await change_of(patching, "s", "apply_patch", patch)
    assert several is not None
    assert "-old\n+new" in several
    assert "+++ b/c" in several
    missing = {"patch": patch["patch"].replace("-old", "-missing")}
    assert str(await change_of(patching, "s", "apply_patch", missing)).startswith("This call would fail now: a.txt")
    assert (project / "a.txt").read_text() == "old\n"


async def test_how_full_the_window_is(store: LogStore, project: Path) -> None:
    agent = agent_with(store, project, "An answer.")
    await agent.run("a question")
    context = build_turn_context(agent.settings, agent.config, project, agent.session.state, backend=agent.backend)
    found = context_use(context, agent.messages, agent.session.state)
    assert found.window == 200_000
    assert found.by_role["user"][0] == found.by_role["assistant"][0] == 1
    assert found.used > found.system + found.tools


def test_what_a_project_brings_counts_after_consent_to_that_content(tmp_path: Path, project: Path) -> None:
    from outlast.app.settings import load_settings

    (project / ".outlast").mkdir()
    rules = project / ".outlast" / "permission-rules.json"
    rules.write_text('{"allow": [{"tool": "bash"}]}')
    settings = load_settings(home=tmp_path / "home", project_root=project)
    [pending] = pending_consents(settings)
    assert pending.content == rules.read_bytes()
    consent(settings, pending)
    assert pending_consents(settings) == []
    rules.write_text('{"allow": [{"tool": "web_fetch"}]}')
    assert len(pending_consents(settings)) == 1


async def test_an_interrupted_turn_says_what_it_was_doing(store: LogStore, project: Path) -> None:
    agent = agent_with(store, project, call("bash", command="touch started; sleep 60"), allow=("bash",))
    running = asyncio.ensure_future(agent.run("go"))
    while not (project / "started").exists():
        await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    found = interruption(agent)
    assert found is not None
    assert not found.is_open
    assert found.text == ("The last turn was interrupted while running `touch started; sleep 60`; outcome unknown.")


async def test_a_finished_session_and_a_new_one_have_nothing_to_tell(store: LogStore, project: Path) -> None:
    agent = agent_with(store, project, "Done.")
    assert interruption(agent) is None
    await agent.run("go")
    assert interruption(agent) is None


async def test_a_stored_message_that_nobody_answered_is_told(store: LogStore, project: Path) -> None:
    agent = agent_with(store, project)
    agent.queue_steering_message("do it")
    found = interruption(agent)
    assert found is not None
    assert (found.is_open, found.text) == (True, "A message was stored here and not answered yet.")
