"""Seed 001, checkpoints while streaming: the meaning of each of its tests, against our system.

There a session was saved every few seconds if a counter had moved. Here every step is an event and every piece of a
reply a chunk, durable before anything depends on it, so a checkpoint is not taken but always there. What remains of the
seed is what its users relied on: nothing they said is lost, progress is kept when there was some and only then, lists
agree, and whatever watches a turn ends with it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from outlast import Agent, AgentConfig, ConversationSession, Message, Role, load_settings, open_store
from outlast.core import events as e
from outlast.core.errors import ModelError, ModelRefused
from outlast.core.header import Header
from outlast.models.port import ModelEvent, ModelRequest
from outlast.models.scripted import Item, Line
from outlast.store.log_store import LogStore
from outlast.store.port import Batch, Query
from outlast.testing import ScriptedBackend
from tests.support.agents import call
from tests.support.http_server import Server, reply

SOON = 60.0


@pytest.fixture
def store(temp_dir: Path) -> Iterator[LogStore]:
    """The store under test; `other` opens the same place once more."""
    with open_store(_url()) as opened:
        yield opened


def _url() -> str:
    return load_settings().store


@pytest.fixture
def other(store: LogStore) -> Iterator[LogStore]:
    """What another process would see."""
    with open_store(_url()) as opened:
        yield opened


def new_session(store: LogStore, project: Path, text: str = "hello") -> ConversationSession:
    session = ConversationSession(project_root=project, store=store)
    session.append(Message(role=Role.USER, content=text))
    return session


def agent(store: LogStore, project: Path, *script: Item) -> Agent:
    config = AgentConfig(auto_context=False, permission_mode="allow")
    settings = load_settings(project_root=project, permission_mode="allow")
    return Agent(ScriptedBackend(script), config, project, store=store, settings=settings)


@pytest.mark.parametrize("store_kind", ["files"], indirect=True)
class TestSaveSkipIndex:
    """`save(skip_index=True)`: in `files` an append writes its line and never the index; the next list agrees."""

    def test_save_writes_json_file(self, store: LogStore, temp_dir: Path) -> None:
        session = new_session(store, temp_dir)
        path = session.storage_path
        assert path is not None
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        assert session.session_id in path.name
        assert [line["kind"] for line in lines if "kind" in line] == ["SessionCreated", "MessageAppended"]

    def test_save_with_skip_index_writes_json(self, store: LogStore, temp_dir: Path) -> None:
        session = new_session(store, temp_dir)
        session.append(Message(role=Role.ASSISTANT, content="quietly"), touch=False)
        assert session.storage_path is not None
        assert "quietly" in session.storage_path.read_text()

    def test_save_with_skip_index_skips_index_rebuild(self, store: LogStore, temp_dir: Path) -> None:
        session = new_session(store, temp_dir)
        store.find(Query())
        before = _index_of(session)
        for n in range(20):
            session.append(Message(role=Role.USER, content=f"message {n}"))
        assert _index_of(session) == before

    def test_save_without_skip_index_creates_index(self, store: LogStore, other: LogStore, temp_dir: Path) -> None:
        session = new_session(store, temp_dir)
        assert [row.session_id for row in other.find(Query()).headers] == [session.session_id]

    def test_skip_index_then_full_save_updates_index(self, store: LogStore, other: LogStore, temp_dir: Path) -> None:
        session = new_session(store, temp_dir)
        other.find(Query())
        session.append(Message(role=Role.ASSISTANT, content="hi there"))
        session.append(Message(role=Role.USER, content="thanks"))
        [row] = other.find(Query()).headers
        assert (row.message_count, row.last_seq) == (3, 4)
        assert row == store.head(session.session_id)

    def test_an_index_that_was_removed_or_garbled_gives_the_same_list(
        self, store: LogStore, other: LogStore, temp_dir: Path
    ) -> None:
        session = new_session(store, temp_dir)
        store.find(Query())
        assert session.storage_path is not None
        for garbage in (None, b"{not json\n"):
            for path in (session.storage_path.parent / "index").glob("*"):
                path.unlink() if garbage is None else path.write_bytes(garbage)
            assert other.find(Query()).headers == [store.head(session.session_id)]


def _index_of(session: ConversationSession) -> list[bytes]:
    assert session.storage_path is not None
    return [path.read_bytes() for path in sorted((session.storage_path.parent / "index").glob("*"))]


def test_skip_index_save_with_touch_updated_at_false(store: LogStore, temp_dir: Path) -> None:
    session = new_session(store, temp_dir)
    before = store.head(session.session_id)
    session.append(Message(role=Role.ASSISTANT, content="quietly"), touch=False)
    after = store.head(session.session_id)
    assert after.updated_at == before.updated_at
    assert after.last_seq == before.last_seq + 1


class TestPeriodicCheckpoint:
    """Progress is durable, and visible to other processes, as it is made."""

    async def test_checkpoint_fires_on_activity_counter_increment(
        self, store: LogStore, other: LogStore, temp_dir: Path
    ) -> None:
        """Each finished tool is in the store before the next one starts, and while the turn still runs."""
        seen: list[tuple[int, bool]] = []

        def look() -> None:
            seen.append((_finished_tools(other, one), other.head(one).turn is not None))

        script = [call("todo", f"c{n}", items=[]) for n in (1, 2)]
        worker = agent(store, temp_dir)
        worker.session.persist()
        one = worker.session.session_id
        worker.backend = _Looking([*script, "done"], look)
        await worker.run("tell me what is on the list")
        assert seen == [(0, True), (1, True), (2, True)]
        assert other.head(one).turn is None

    async def test_checkpoint_fires_on_new_text(self, store: LogStore, other: LogStore, temp_dir: Path) -> None:
        worker = agent(store, temp_dir, Line(reply="one two three four five six seven eight", delay=2))
        running = asyncio.create_task(worker.run("talk"))
        texts = await _drafts(other, worker, 2)
        assert len(texts) >= 2
        assert all("one two three four five six seven eight".startswith(text) for text in texts)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    async def test_checkpoint_does_not_fire_without_activity(
        self, store: LogStore, other: LogStore, temp_dir: Path
    ) -> None:
        worker = agent(store, temp_dir, Line(reply="late", delay=30))
        running = asyncio.create_task(worker.run("wait"))
        head = await _asked(other, worker)
        await asyncio.sleep(0.5)  # five times as long as a draft may wait
        again = other.head(head.session_id)
        assert (again.last_seq, again.updated_at) == (head.last_seq, head.updated_at)
        assert _draft(other, head.session_id, head.last_seq) == ""
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    async def test_checkpoint_stops_on_signal(self, store: LogStore, temp_dir: Path) -> None:
        """Nothing that watched or wrote for a turn is left when it ends, however it ends."""
        before = asyncio.all_tasks()
        worker = agent(store, temp_dir, "well", Line(reply="one two three four", delay=5))
        await worker.run("first")
        assert asyncio.all_tasks() <= before
        running = asyncio.create_task(worker.run("second"))
        await _asked(store, worker)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert asyncio.all_tasks() <= before

    async def test_activity_checkpoint_persists_updated_at(
        self, store: LogStore, other: LogStore, temp_dir: Path
    ) -> None:
        stamps: list[int] = []
        worker = agent(store, temp_dir)
        worker.session.persist()
        one = worker.session.session_id
        script = [call("todo", f"c{n}", items=[]) for n in (1, 2)]
        worker.backend = _Looking([*script, "done"], lambda: stamps.append(other.head(one).updated_at))
        await worker.run("work")
        assert stamps == sorted(set(stamps))
        assert len(stamps) == 3


@pytest.mark.parametrize("store_kind", ["sqlite", "postgres"], indirect=True)
class TestRestart:
    """`test_pending_message_survives_simulated_restart`, with a real server that is really killed."""

    def test_the_message_is_durable_before_the_model_is_called_and_the_turn_goes_on_by_itself(
        self, store_kind: str, tmp_path: Path
    ) -> None:
        words = "a long answer that takes its time " * 8
        with Server(tmp_path / "server", store=_url()) as server:
            server.says(reply(words, delay_ms=30_000))
            session_id = server.create()
            posted = server.post(session_id, "do a long research task")
            server.until(lambda: bool(_shown_draft(server, session_id)))
            server.kill()
            with open_store(server.store_url) as left:
                head = left.head(session_id)
            assert (head.pending_text, head.pending_count) == ("do a long research task", 1)
            assert head.pending_at is not None
            assert head.turn is not None
            server.says(reply(words))
            server.start()
            texts = [(row["role"], row["content"]) for row in server.until_idle(session_id)]
            assert texts == [("user", "do a long research task"), ("assistant", words)]
            again = server.detail(session_id, "?all=true")["messages"]
            assert posted["seq"] == again[0]["seq"]
            assert [row["interrupted"] for row in again] == [False, True, False]

    @pytest.mark.soak
    def test_it_goes_on_within_five_seconds(self, store_kind: str, tmp_path: Path) -> None:
        """On a machine that does nothing else; how soon it is on a busy one, nobody promised."""
        with Server(tmp_path / "server", store=_url()) as server:
            server.says(reply("a long answer that takes its time " * 8, delay_ms=30_000))
            session_id = server.create()
            server.post(session_id, "do a long research task")
            server.until(lambda: bool(_shown_draft(server, session_id)))
            server.kill()
            with server.store() as store:
                left = store.head(session_id).last_seq
            server.start()
            server.until(lambda: server.detail(session_id)["last_seq"] > left, patience=5)

    def test_left_to_the_user_it_shows_what_waits_and_goes_on_when_told(self, store_kind: str, tmp_path: Path) -> None:
        with Server(tmp_path / "server", "--no-resume", store=_url()) as server:
            server.says(reply("a long answer that takes its time " * 8, delay_ms=30_000))
            session_id = server.create()
            server.post(session_id, "do a long research task")
            server.until(lambda: bool(_shown_draft(server, session_id)))
            server.kill()
            server.says(reply("a long answer that takes its time " * 8))
            server.start()
            shown = server.detail(session_id)
            row = shown["session"]
            assert row["pending_user_message"] == "do a long research task"
            assert row["pending_started_at"] <= row["updated_at"]
            assert row["active_stream_id"] is not None
            assert row["activity"] == "interrupted"
            assert "interrupted" in shown["interrupted"]
            assert shown["draft"]["text"], "what had come of the answer"
            server.api("POST", f"/api/sessions/{session_id}/continue")
            assert server.until_idle(session_id)[-1]["role"] == "assistant"


class TestCheckpointVariableLifecycle:
    """A turn that fails before it began tells its own failure, and leaves nothing running."""

    async def test_early_failure_ends_the_draft_writer_and_keeps_its_cause(
        self, store: LogStore, temp_dir: Path
    ) -> None:
        before = asyncio.all_tasks()
        worker = agent(store, temp_dir, ModelRefused("early failure"))
        with pytest.raises(ModelError, match="early failure"):
            await worker.run("hello")
        assert asyncio.all_tasks() <= before
        head = store.head(worker.session.session_id)
        assert (head.turn, head.pending_count) == (None, 0)
        assert "hello" in [message.content for message in worker.session.history()]

    async def test_failure_in_the_middle_keeps_what_had_come(self, store: LogStore, temp_dir: Path) -> None:
        worker = agent(store, temp_dir, Line(reply="half an answer", breaks_after=8, error=ModelRefused("cut off")))
        with pytest.raises(ModelError, match="cut off"):
            await worker.run("hello")
        broken = [m for m in worker.session.history(include_archived=True) if m.interrupted]
        assert [message.content for message in broken] == ["half an "]


# --- what the tests look with ----------------------------------------------------------------------------------------


def _shown_draft(server: Server, session_id: str) -> str:
    draft: dict[str, str] | None = server.detail(session_id)["draft"]
    return draft["text"] if draft is not None else ""


class _Looking(ScriptedBackend):
    """A script that looks at something each time it is asked."""

    def __init__(self, script: list[Item], look: Callable[[], None]) -> None:
        super().__init__(script)
        self._look = look

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self._look()
        async for event in super().stream(request):
            yield event


def _finished_tools(store: LogStore, session_id: str) -> int:
    return len(store.read(session_id, kinds=frozenset({e.ToolCallFinished.__name__})))


async def _asked(store: LogStore, worker: Agent) -> Header:
    """The head once the model was asked."""
    async with asyncio.timeout(SOON):
        while True:
            await asyncio.sleep(0.02)
            if worker.session.exists:
                head = store.head(worker.session.session_id)
                rows = store.read(head.session_id, after=head.last_seq - 1)
                asked = rows and rows[-1].kind == e.ModelRequested.__name__
                if asked and rows[-1].seq == head.last_seq:  # not one that came between the two reads
                    return head


def _draft(store: LogStore, session_id: str, after: int) -> str:
    found: Batch | None = next(store.follow(session_id, after=after, timeout=0), None)
    return b"".join(chunk.data for chunk in found.chunks).decode() if found is not None else ""


async def _drafts(store: LogStore, worker: Agent, wanted: int) -> list[str]:
    head = await _asked(store, worker)
    texts: list[str] = []
    async with asyncio.timeout(SOON):
        while len(texts) < wanted:
            text = _draft(store, head.session_id, head.last_seq)
            if text and text not in texts:
                texts.append(text)
            await asyncio.sleep(0.02)
    return texts
