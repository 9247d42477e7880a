"""The gateway: receives, delivers and supervises for every configured account, in one process.

Each account has two loops. The receive loop stores each update before it asks for the next one; while the store or the
platform cannot be reached it retries with growing pauses, and nothing is lost. The rounds loop finds and resumes
unanswered or undelivered work that a dead process, another gateway or another door left behind.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine
from typing import Any

from outlast.app.chat.chat_router import AdmittedMessage, AlreadyAdmitted
from outlast.app.chat.status import AccountState, forget_gateway, note_gateway
from outlast.app.gateway_settings import GatewaySettings
from outlast.app.settings import Settings
from outlast.app.workers.metrics import Metrics
from outlast.core.errors import (
    ConfigError,
    ConflictError,
    DamagedSession,
    InvalidInput,
    OutcomeUnknown,
    OutlastError,
    SessionBusy,
    SessionNotFound,
    StoreUnavailable,
)
from outlast.core.header import Header
from outlast.doors.gateway.account import GatewayAccount
from outlast.doors.gateway.log import broke, noted, warned
from outlast.doors.gateway.platform import ChatPlatform, ChatUpdate, NotSent, PlatformError, Rejected
from outlast.doors.gateway.platform_factory import platform_for
from outlast.doors.gateway.platforms.webhook import Webhook
from outlast.doors.gateway.platforms.webhook_endpoint import WebhookEndpoint
from outlast.doors.gateway.update_handler import UpdateHandler
from outlast.runtime.turn.context import TurnContext
from outlast.store.log_store import LogStore

ROUND_SECONDS = 2.0
SHORTEST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
BUSY_SECONDS = 5.0
PATIENCE = 5.0
UNFORESEEN = "⚠️ That was not accepted because of an unexpected error; the log of the gateway has it."
_PASSING = (StoreUnavailable, OutcomeUnknown, SessionBusy, ConfigError, SessionNotFound)


MakePlatform = Callable[[GatewaySettings, Settings], ChatPlatform]


class Gateway:
    """Runs the accounts of these settings on an open store. `endpoint` is the ASGI application for webhooks."""

    def __init__(
        self,
        store: LogStore,
        settings: Settings,
        *,
        make: MakePlatform = platform_for,
        equip: Callable[[TurnContext, Header], TurnContext] | None = None,
        works: bool = True,
        metrics: Metrics | None = None,
    ) -> None:
        self.settings = settings
        self.lines = {
            table.name: GatewayAccount(
                store, settings, table, make(table, settings), equip=equip, works=works, metrics=metrics
            )
            for table in settings.gateway
        }
        self._handlers = {name: UpdateHandler(line) for name, line in self.lines.items()}
        self._states = {name: AccountState(name=name) for name in self.lines}
        webhooks = {name: line.platform for name, line in self.lines.items() if isinstance(line.platform, Webhook)}
        self.endpoint = WebhookEndpoint(webhooks, self.take)
        self._tasks: list[asyncio.Task[None]] = []
        self._tried: dict[str, tuple[int, float]] = {}
        self._damaged: set[str] = set()

    async def start(self) -> None:
        """Start receiving and delivering; work that was left behind is resumed at once."""
        self._note()
        for line in self.lines.values():
            self._tasks += [asyncio.create_task(self._receive(line)), asyncio.create_task(self._go_rounds(line))]

    async def close(self, patience: float = PATIENCE) -> None:
        """Stop receiving, finish storing the current update, deliver what was said; the next gateway does the rest."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(line.close(patience) for line in self.lines.values()))
        await asyncio.to_thread(forget_gateway, self.settings)

    async def take(self, name: str, update: ChatUpdate) -> AdmittedMessage | None:
        """Process one update of one account; durable on return."""
        return await self._handlers[name].take(update)

    @property
    def states(self) -> list[AccountState]:
        return list(self._states.values())

    # --- receiving

    async def _receive(self, line: GatewayAccount) -> None:
        pause = 0.0
        while True:
            began = time.monotonic()
            try:
                await self._received(line)
            except PlatformError as trouble:
                pause = _next_pause(pause if time.monotonic() - began < LONGEST_PAUSE else 0.0, trouble)
                if self._states[line.table.name].detail != str(trouble):
                    warned("gateway.waits", trouble, gateway=line.table.name)
                self._is(line, "waiting", str(trouble))
            except Exception as error:  # noqa: BLE001 - a failure in one account must not stop the others
                pause = _next_pause(pause, None)
                broke("gateway.broke")
                self._is(line, "waiting", type(error).__name__)
            await asyncio.sleep(pause * random.uniform(0.8, 1.2))  # noqa: S311 - so that gateways do not retry in step

    async def _received(self, line: GatewayAccount) -> None:
        """Receive until the platform fails."""
        account = await line.platform.open()
        self._is(line, "connected", None)
        noted("gateway.connected", gateway=line.table.name, account=account)
        async for update in line.platform.receive():
            await _whole(self._surely(line, update))

    async def _surely(self, line: GatewayAccount, update: ChatUpdate) -> None:
        """Process an update, however long the store is unavailable: the update is not confirmed before that."""
        pause = 0.5
        while True:
            try:
                await self._handlers[line.table.name].take(update)
                return
            except AlreadyAdmitted:
                noted("update.repeated", gateway=line.table.name, update=update.update_id)
                return
            except (InvalidInput, DamagedSession, ConflictError) as error:
                warned("update.refused", error, gateway=line.table.name, update=update.update_id)
                await line.say(update.address, f"⚠️ That was not accepted: {error}", update.update_id)
                return
            except _PASSING as error:
                warned("update.waits", error, gateway=line.table.name, update=update.update_id)
            except Exception:  # noqa: BLE001 - a failure in one update must not block all later ones
                broke("update.broke")
                await line.say(update.address, UNFORESEEN, update.update_id)
                return
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    def _is(self, line: GatewayAccount, state: str, detail: str | None) -> None:
        known = self._states[line.table.name]
        if (known.state, known.detail) == (state, detail):
            return
        known.state, known.detail = state, detail
        self._note()

    def _note(self) -> None:
        note_gateway(self.settings, self.states)

    # --- the rounds

    async def _go_rounds(self, line: GatewayAccount) -> None:
        while True:
            began = time.monotonic()
            try:
                await self.look(line)
            except OutlastError as error:
                warned("round.failed", error, gateway=line.table.name)
            except Exception:  # noqa: BLE001 - any failure: waiting chats must not wait for ever
                broke("round.broke")
            took = time.monotonic() - began
            await asyncio.sleep(max(ROUND_SECONDS, took * 10))  # a store with very many chats is scanned less often

    async def look(self, line: GatewayAccount) -> None:
        """Resume pending work in the chats of this account, whichever process left it."""
        for route, session_id, debt in await asyncio.to_thread(line.chats.routes, line.prefix):
            try:
                await self._look_at(line, route, session_id, debt=debt)
            except SessionNotFound:
                continue  # deleted in the meantime, with its routes
            except DamagedSession as error:
                if session_id not in self._damaged:
                    warned("session.damaged", error, session=session_id)
                self._damaged.add(session_id)

    async def _look_at(self, line: GatewayAccount, route: str, session_id: str, *, debt: bool) -> None:
        head = await asyncio.to_thread(line.store.head, session_id)
        if head.has_work and self._may_try(line, head):
            line.pool.wake(session_id)
        place = (route, head.root_id)
        if line.seen.get(place) == head.last_seq or place in line.delivery_workers:
            return
        box = await asyncio.to_thread(line.deliveries.outbox, route, session_id)
        line.seen[place] = box.seq
        if not box.empty:
            line.deliver(route, session_id, head.root_id)
        elif debt:
            await line.chats.settle_debt(route, session_id)

    def _may_try(self, line: GatewayAccount, head: Header) -> bool:
        """Whether to wake a session with work: not while it runs here, and not repeatedly if it cannot run."""
        if head.session_id in line.pool.running:
            return False
        seq, at = self._tried.get(head.session_id, (0, 0.0))
        rest = LONGEST_PAUSE if line.pool.trouble(head.session_id) else BUSY_SECONDS
        if seq == head.last_seq and time.monotonic() - at < rest:
            return False
        self._tried[head.session_id] = (head.last_seq, time.monotonic())
        return True


def _next_pause(pause: float, trouble: PlatformError | None) -> float:
    if isinstance(trouble, Rejected):
        return LONGEST_PAUSE  # a wrong token stays wrong, so there is no point in retrying often
    longer = min(max(SHORTEST_PAUSE, pause * 2), LONGEST_PAUSE)
    asked = trouble.retry_after if isinstance(trouble, NotSent) else None
    return max(longer, asked or 0.0)


async def _whole(work: Coroutine[Any, Any, None]) -> None:
    """Run this to completion even if the caller is cancelled, so that an update being stored is stored."""
    doing = asyncio.ensure_future(work)
    try:
        await asyncio.shield(doing)
    except asyncio.CancelledError:
        await asyncio.wait([doing], timeout=PATIENCE)
        doing.cancel()
        raise
