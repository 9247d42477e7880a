"""State that all routes share: the store, the session service, the worker pool and the event streams."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from outlast.app.placement import place_for
from outlast.app.sessions.messages_page import message_id_of
from outlast.app.sessions.statistics import UsageStatistics, cache_of, stats_of
from outlast.app.settings import Settings
from outlast.app.stores import store_of
from outlast.app.streams.broadcast import StreamHub
from outlast.app.workers.metrics import Metrics
from outlast.app.workers.options import WorkerOptions
from outlast.core.errors import ConflictError, SessionBusy, SessionNotFound
from outlast.core.events import Delivery
from outlast.core.header import Header
from outlast.core.ids import is_id, is_prefix
from outlast.core.messages import Part
from outlast.doors.http.schemas import MessageAck
from outlast.runtime.agent_config import AgentConfig
from outlast.runtime.service import SessionService
from outlast.store.log_store import LogStore

T = TypeVar("T")
OWNER = "local"
DOOR = "http"
STATS_SECONDS = 0.4
"""How long one request for statistics reads sessions that were not counted before."""
SLICE_SECONDS = 2.0


class ServerState:
    """One open store, with the session service, the worker pool and the stream hub that use it."""

    def __init__(
        self,
        settings: Settings,
        store: LogStore,
        *,
        config: AgentConfig | None = None,
        working: WorkerOptions | None = None,
    ) -> None:
        self.settings = settings
        self.store = store
        self.service = SessionService(store, DOOR)
        self.pool = (working or WorkerOptions()).pool(store, settings, Metrics(), config)
        self.live = StreamHub(store)
        self._counting: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls, settings: Settings, *, config: AgentConfig | None = None, working: WorkerOptions | None = None
    ) -> ServerState:
        server = cls(settings, await asyncio.to_thread(store_of, settings), config=config, working=working)
        await server.pool.start(resume=settings.resume_on_start)
        return server

    def place(self, label: str | None) -> str | None:
        """Return the place where a new session will run."""
        return place_for(self.store, label, here=self.pool.works)

    def label_folder(self, label: str) -> Path | None:
        """Return the folder of a label; None if this server does not offer it."""
        return self.pool.places.folders.get(label)

    async def close(self) -> None:
        """End the streams, leave running turns to the next process, and close the store."""
        self.live.close()
        if self._counting is not None:
            self._counting.cancel()
            await asyncio.gather(self._counting, return_exceptions=True)
        await self.pool.close()
        await asyncio.to_thread(self.store.close)

    async def statistics(self, project: Path | None) -> UsageStatistics:
        """What was used, within a second. On the first call to a large store the sums leave sessions out; the rest is
        then counted in the background, for the next call."""
        found = await self._counted(project, STATS_SECONDS)
        if found.uncounted and (self._counting is None or self._counting.done()):
            self._counting = asyncio.create_task(self._count_all())
        return found

    async def _count_all(self) -> None:
        """Count in slices, so that a closing server waits for one slice at most."""
        while (await self._counted(None, SLICE_SECONDS)).uncounted:
            await asyncio.sleep(0)

    async def _counted(self, project: Path | None, seconds: float) -> UsageStatistics:
        place = cache_of(self.settings)
        return await self.read(stats_of, self.store, place, project=project, owner_id=OWNER, seconds=seconds)

    async def named(self, session: str) -> Header:
        """Return the header of the session with this id or id prefix. Raises SessionNotFound for text that is not an
        id."""
        return await asyncio.to_thread(self.header, session)

    def header(self, session: str) -> Header:
        """The same as `named`, for callers that are already outside the event loop."""
        if not is_prefix(session):
            raise SessionNotFound("there is no such session; an id has 26 characters, its first 6 are enough")
        name = session if is_id(session) else self.store.resolve(session, owner_id=OWNER)
        header = self.store.head(name)
        if header.owner_id != OWNER:
            raise SessionNotFound(f"no session {name}")
        return header

    async def admit(self, session_id: str, parts: tuple[Part, ...], key: str | None, delivery: Delivery) -> MessageAck:
        """Store the message, then wake the worker pool to answer it."""
        receipt = await self.service.admit(session_id, parts, key=key, delivery=delivery)
        if not receipt.replayed:
            self.pool.wake(receipt.session_id)
        message_id = message_id_of(receipt.session_id, receipt.seq)
        return MessageAck(session_id=receipt.session_id, seq=receipt.seq, message_id=message_id)

    async def until(self, session_id: str, true: Callable[[Header], bool], seconds: float) -> None:
        """Wait until the condition holds for the session's header. Raises SessionBusy after `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                while not true(header := await self.read(self.store.head, session_id)):
                    async for _ in self.store.follow_async(session_id, after=header.last_seq, timeout=1.0):
                        break
        except TimeoutError as error:
            raise SessionBusy("whoever drives this session did not stop in time; try again") from error

    async def read(self, reading: Callable[..., T], *given: Any, **named: Any) -> T:
        """Run a function that uses the disk in a thread, outside the event loop."""
        return await asyncio.to_thread(reading, *given, **named)


def folder(path: str | None, otherwise: Path) -> Path:
    """Return the project folder that a request names, or `otherwise`. Raises ConflictError if it is not a folder."""
    if path is None:
        return otherwise
    found = Path(path)
    if is_folder(found):
        return found
    raise ConflictError(f"{path} is not a folder on the server; make it first, or give another one")


def is_folder(path: Path) -> bool:
    """Return whether the path is a folder. False also for paths the OS rejects (too long, null bytes)."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False
