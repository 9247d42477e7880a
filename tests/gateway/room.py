"""A chat platform in memory: what is said is queued, what is sent is kept, and every fault can be had."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from outlast.core.chat_route import ChatAddress
from outlast.doors.gateway.platform import Button, ChatUpdate, OutgoingMessage, PlatformError

OWNER, STRANGER, MEMBER = "1001", "6666", "2002"


@dataclass
class Shown:
    """A message of ours as the chat shows it, and everything that it has shown."""

    message_id: str
    address: ChatAddress
    text: str
    buttons: tuple[Button, ...]
    repeat: bool
    key: str
    reply_to: str | None
    edits: list[str] = field(default_factory=list[str])


class Room:
    """Any number of chats on one account. `faults` are raised by the next sends, in order; an entry of None sends."""

    name = "room"
    longest = 4_000
    typing_seconds = 0.5
    can_edit = True
    knows_repeats = False

    def __init__(self) -> None:
        self.queue: asyncio.Queue[ChatUpdate] = asyncio.Queue()
        self.shown: list[Shown] = []
        self.faults: list[PlatformError | None] = []
        self.lost_answers = 0
        self.edit_faults: list[PlatformError] = []
        self.confirmed: list[str] = []
        self.acknowledged: list[ChatUpdate] = []
        self.typed = 0
        self.opened = 0
        self.groups: set[str] = set()
        self.trouble: list[PlatformError] = []
        self._ids = itertools.count(1)
        self._updates = itertools.count(1)
        self._changed = asyncio.Condition()

    # --- what a person does

    def update(self, text: str | None, *, user: str = OWNER, chat: str | None = None, **more: object) -> ChatUpdate:
        chat = chat if chat is not None else user
        number = next(self._updates)
        given: dict[str, object] = {
            "update_id": f"u{number}",
            "message_id": f"m{number}",
            "private": chat not in self.groups,
            **more,
        }
        thread = str(given.pop("thread", ""))
        return ChatUpdate(address=ChatAddress(chat, thread), user=user, text=text, **given)  # pyright: ignore[reportArgumentType]

    def say(self, text: str | None, *, user: str = OWNER, chat: str | None = None, **more: object) -> ChatUpdate:
        update = self.update(text, user=user, chat=chat, **more)
        self.queue.put_nowait(update)
        return update

    def texts(self, chat: str = OWNER) -> list[str]:
        """What our messages in a chat say now."""
        return [shown.text for shown in self.shown if shown.address.chat == chat]

    async def until(self, true: Callable[[], bool], seconds: float = 30.0) -> None:
        """Wait until what was sent makes this true."""
        async with asyncio.timeout(seconds):
            async with self._changed:
                await self._changed.wait_for(true)

    async def heard(self, text: str, chat: str = OWNER, seconds: float = 30.0) -> Shown:
        """The message in the chat that says exactly this, as soon as there is one."""
        await self.until(lambda: text in self.texts(chat), seconds)
        return next(one for one in self.shown if one.address.chat == chat and one.text == text)

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    # --- the platform

    def size(self, text: str) -> int:
        return len(text)

    async def open(self) -> str:
        self.opened += 1
        await self._tell()
        if self.trouble:
            raise self.trouble.pop(0)
        return "bot"

    async def receive(self) -> AsyncIterator[ChatUpdate]:
        while True:
            update = await self.queue.get()
            yield update
            self.confirmed.append(update.update_id)
            await self._tell()

    async def send(self, address: ChatAddress, message: OutgoingMessage) -> str:
        fault = self.faults.pop(0) if self.faults else None
        if fault is not None:
            raise fault
        shown = Shown(
            message_id=f"b{next(self._ids)}",
            address=address,
            text=message.text,
            buttons=message.buttons,
            repeat=message.repeat,
            key=message.key,
            reply_to=message.reply_to,
        )
        self.shown.append(shown)
        await self._tell()
        return shown.message_id

    async def edit(self, address: ChatAddress, message_id: str, message: OutgoingMessage) -> None:
        if self.edit_faults:
            raise self.edit_faults.pop(0)
        [shown] = [one for one in self.shown if one.message_id == message_id]
        assert shown.address == address
        shown.edits.append(shown.text)
        shown.text, shown.buttons = message.text, message.buttons
        await self._tell()

    async def typing(self, address: ChatAddress) -> None:
        self.typed += 1
        await self._tell()

    async def acknowledge(self, update: ChatUpdate) -> None:
        self.acknowledged.append(update)

    async def is_private(self, chat: str) -> bool:
        return chat not in self.groups

    async def close(self) -> None:
        """Nothing is held open."""
