"""One configured gateway account, a `[gateway.NAME]` table: its platform, routes, permissions and delivery workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from outlast.app.chat.chat_router import ChatRouter, NewSessionDefaults
from outlast.app.chat.delivery_log import DeliveryLog
from outlast.app.chat.pairing_code import Pairing
from outlast.app.gateway_settings import GatewaySettings
from outlast.app.settings import Settings
from outlast.app.workers.metrics import Metrics
from outlast.app.workers.worker_pool import WorkerPool
from outlast.core.chat_route import ChatAddress, address_of, route_key, route_prefix
from outlast.core.errors import OutlastError
from outlast.core.header import Header
from outlast.core.outbox import DeliveryKind
from outlast.doors.gateway.delivery_worker import DeliveryWorker, facts_of
from outlast.doors.gateway.identity import Identity
from outlast.doors.gateway.log import broke, warned
from outlast.doors.gateway.platform import ChatPlatform, OutgoingMessage, PlatformError
from outlast.runtime.agent_config import AgentConfig
from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.turn.context import TurnContext
from outlast.store.log_store import LogStore


class GatewayAccount:
    """The chats of one account, their permissions, and the delivery workers that are running."""

    def __init__(
        self,
        store: LogStore,
        settings: Settings,
        table: GatewaySettings,
        platform: ChatPlatform,
        *,
        equip: Callable[[TurnContext, Header], TurnContext] | None = None,
        works: bool = True,
        metrics: Metrics | None = None,
    ) -> None:
        self.store = store
        self.table = table
        self.platform = platform
        self.settings = settings_of(settings, table)
        self.chats = ChatRouter(store)
        self.deliveries = DeliveryLog(store)
        self.identity = Identity(table, Pairing(settings, table.name))
        rights = self.rights if table.chats else None
        self.pool = WorkerPool(
            store, self.settings, config_of(table), equip=equip, rights=rights, works=works, metrics=metrics
        )
        self.delivery_workers: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._out: dict[tuple[str, str], DeliveryWorker] = {}
        self._again: set[tuple[str, str]] = set()
        self.seen: dict[tuple[str, str], int] = {}
        self.closing = False

    @property
    def prefix(self) -> str:
        return route_prefix(self.table.platform, self.table.name)

    def route(self, address: ChatAddress, user: str, *, private: bool) -> str:
        """Route of a message: depending on the settings, each thread and each user of a group gets its own session."""
        thread = address.thread if self.table.per_thread else ""
        who = user if self.table.per_user and not private else ""
        return route_key(self.table.platform, self.table.name, ChatAddress(address.chat, thread), who)

    @property
    def project(self) -> Path:
        return self.settings.project_root

    def place(self, chat: str) -> NewSessionDefaults:
        """Defaults for a new session of that chat."""
        table = self.table
        return NewSessionDefaults(
            project=self.project, permission_mode=table.mode_of(chat), model=table.model, persona=table.persona
        )

    def rights(self, session_id: str) -> PermissionMode:
        """Permission mode of a turn in this session: what every chat that leads to it allows."""
        routes = self.chats.routes(self.prefix)
        return self.table.mode_for(address_of(route).chat for route, found, _ in routes if found == session_id)

    async def say(self, address: ChatAddress, text: str, key: str) -> None:
        """Send a message to a chat without storing it in a session."""
        try:
            await self.platform.send(address, OutgoingMessage(text=text, key=key, facts=facts_of(DeliveryKind.NOTICE)))
        except PlatformError as trouble:
            warned("answer.not_sent", trouble, gateway=self.table.name)

    # --- deliveries

    def deliver(self, route: str, session_id: str, root: str | None = None) -> None:
        """Start a delivery worker for this chat and session; one that already runs looks again before it ends."""
        if self.closing:
            return
        place = (route, root or session_id)
        if place in self.delivery_workers:
            self._again.add(place)
        else:
            self.delivery_workers[place] = asyncio.create_task(self._served(place, session_id))

    async def _served(self, place: tuple[str, str], session_id: str) -> None:
        try:
            while True:
                self._again.discard(place)
                delivery_worker = self._out[place] = self._delivery_worker(place[0], session_id)
                await delivery_worker.run()
                session_id = delivery_worker.session_id
                self.seen[place] = delivery_worker.box.seq
                if place not in self._again:
                    await self._settle(place[0], session_id)
                    return
        except OutlastError as error:
            warned("chat.waits", error, route=place[0], session=session_id)
        except Exception:  # noqa: BLE001 - a failure in one chat must not stop the others
            broke("chat.broke")
            self.seen[place] = await asyncio.to_thread(self._last_seq, session_id)  # retry only after new events
        finally:
            self.delivery_workers.pop(place, None)
            self._out.pop(place, None)
            if place in self._again and not self.closing:
                self._again.discard(place)
                self.deliver(place[0], session_id, place[1])

    async def close(self, patience: float) -> None:
        """Accept no more work. Stored replies are still delivered for `patience` seconds; the rest stays in the log."""
        self.closing = True
        await self.pool.close(patience=patience)
        for delivery_worker in list(self._out.values()):
            delivery_worker.finish(await asyncio.to_thread(self._last_seq, delivery_worker.session_id))
        if self.delivery_workers:
            await asyncio.wait(self.delivery_workers.values(), timeout=patience)
        for task in list(self.delivery_workers.values()):
            task.cancel()
        await asyncio.gather(*self.delivery_workers.values(), return_exceptions=True)
        await self.platform.close()
        self.deliveries.close()

    def _last_seq(self, session_id: str) -> int:
        try:
            return self.store.head(session_id).last_seq
        except OutlastError:
            return 0  # it cannot be read, or is deleted

    def _delivery_worker(self, route: str, session_id: str) -> DeliveryWorker:
        return DeliveryWorker(
            self.platform,
            self.deliveries,
            route,
            session_id,
            edit_seconds=self.table.edit_seconds,
            trouble=self.pool.trouble,
        )

    async def _settle(self, route: str, session_id: str) -> None:
        """Clear the debt of a session that the chat has left and that owes it nothing more."""
        if await self.chats.leads(route) != session_id:
            await self.chats.settle_debt(route, session_id)


def settings_of(settings: Settings, table: GatewaySettings) -> Settings:
    """Settings for turns of this account's chats: its permission mode is a ceiling, whatever a session asks for."""
    return replace(
        settings,
        project_root=table.project or settings.project_root,
        permission_mode=table.permission_mode,
        model=table.model or settings.model,
        persona=table.persona or settings.persona,
    )


def config_of(table: GatewaySettings) -> AgentConfig:
    return AgentConfig(
        prompting=True,
        sub_agents_ask=False,
        permission_mode=str(table.permission_mode),
        compaction_mode=table.compaction,
        auto_compaction_input_tokens_threshold=table.compact_at_tokens,
    )
