"""`ChatPlatform`: what the gateway needs of a chat platform, and nothing more.

An adapter only translates. Who may speak, what a text means, what is delivered when and how often: none of that is
here, and no adapter decides it. Ids are the platform's own immutable ones, as text; names that people choose never
leave an adapter.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

import msgspec

from outlast.core.chat_route import ChatAddress
from outlast.core.errors import OutlastError


class ChatUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """Something that somebody did in a chat.

    `update_id` is unique for this account for ever: it is what makes a repeat a repeat. `text` is None for anything
    that is no text; `media` then says in words what it is. `pressed` is the data of a button of ours, `reply_to` the
    message that was answered. `addressed`: it is meant for us. `forwarded`: somebody else wrote it.
    """

    update_id: str
    address: ChatAddress
    user: str
    private: bool = False
    addressed: bool = True
    forwarded: bool = False
    message_id: str | None = None
    reply_to: str | None = None
    text: str | None = None
    media: str | None = None
    pressed: str | None = None
    press_id: str | None = None


class Button(msgspec.Struct, frozen=True):
    """Something to press; `data` comes back in the update, at most 64 bytes."""

    label: str
    data: str


class OutgoingMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message to send: Markdown, and what can be pressed under it.

    `key` is the same for every attempt at this message, for platforms that know a repeat by it; it is a `repeat` when
    it may have been taken before. `facts` are for programs that read along.
    """

    text: str
    key: str
    buttons: tuple[Button, ...] = ()
    reply_to: str | None = None
    repeat: bool = False
    facts: dict[str, object] = {}


class PlatformError(OutlastError):
    """The chat platform did not do what it was asked."""


class NotSent(PlatformError):
    """Certainly not sent; it may be tried again, after `retry_after` seconds if the platform said so."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class MaybeSent(PlatformError):
    """Nobody knows whether it was sent: the answer was lost."""


class Rejected(PlatformError):
    """The platform will never take this: the chat is gone, or we may not write there."""


class ChatPlatform(Protocol):
    """One account on one platform. Everything but `receive` may be called at any time, from one event loop."""

    name: str
    longest: int
    """How large a message may be, by `size`."""
    typing_seconds: float
    """For how long a chat shows that we are typing."""
    can_edit: bool
    knows_repeats: bool
    """Whether two sends with the same key are one message there; else what is sent again stands there twice, so it is
    marked, and given up after a few attempts."""

    def size(self, text: str) -> int: ...

    async def open(self) -> str:
        """Prove who we are; our own id there. `PlatformTrouble` in one sentence."""
        ...

    def receive(self) -> AsyncIterator[ChatUpdate]:
        """What happens in our chats, in order, from where the last one was done.

        Asking for the next update says that the last one is durable: only then is it confirmed to the platform.
        `NotSent` when the platform cannot be reached; then ask again, and nothing is lost.
        """
        ...

    async def send(self, address: ChatAddress, message: OutgoingMessage) -> str:
        """Send it; the platform's id of the message. `NotSent`, `MaybeSent` or `Rejected`."""
        ...

    async def edit(self, address: ChatAddress, message_id: str, message: OutgoingMessage) -> None:
        """Let the message say this. Doing it twice is doing it once."""
        ...

    async def typing(self, address: ChatAddress) -> None:
        """Show for some seconds that an answer is coming; never fails."""
        ...

    async def acknowledge(self, update: ChatUpdate) -> None:
        """The button that was pressed was taken; never fails."""
        ...

    async def is_private(self, chat: str) -> bool:
        """Whether nobody but one user and we can read there; False where that cannot be found out."""
        ...

    async def close(self) -> None: ...


def size_in_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def size_in_utf16(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
