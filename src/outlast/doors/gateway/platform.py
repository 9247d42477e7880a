"""`ChatPlatform`: the interface between the gateway and a chat platform.

An adapter only translates. Who may talk, what a text means, what is delivered when and how often: adapters decide none
of that. Ids are the platform's own immutable ones, as text; names that users choose never leave an adapter.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

import msgspec

from outlast.core.chat_route import ChatAddress
from outlast.core.errors import OutlastError


class ChatUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """One action of a user in a chat.

    `update_id` is unique for this account for ever: repeats are recognised by it. `text` is None for anything but text;
    `media` then describes it in words. `pressed` is the data of a gateway button, `reply_to` the message that was
    replied to. `addressed`: it is meant for the bot. `forwarded`: another user wrote it.
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
    """A button; `data` comes back in the update, at most 64 bytes."""

    label: str
    data: str


class OutgoingMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message to send: Markdown, with buttons under it.

    `key` is the same for every attempt at this message, for platforms that recognise a repeat by it; `repeat` is set if
    the platform may have accepted it before. `facts` are for programs that read the messages.
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
    """It is unknown whether it was sent: the response was lost."""


class Rejected(PlatformError):
    """The platform will never take this: the chat is gone, or we may not write there."""


class ChatPlatform(Protocol):
    """One account on one platform. All methods except `receive` may be called at any time, from one event loop."""

    name: str
    longest: int
    """Largest size of a message, measured by `size`."""
    typing_seconds: float
    """For how many seconds a chat shows that the bot is typing."""
    can_edit: bool
    knows_repeats: bool
    """Whether two sends with the same key give one message. If not, a retry may appear twice, so it is marked as a
    repeat and given up after a few attempts.
    """

    def size(self, text: str) -> int: ...

    async def open(self) -> str:
        """Authenticate; returns the bot's own id on the platform. Raises PlatformError with one sentence."""
        ...

    def receive(self) -> AsyncIterator[ChatUpdate]:
        """Yield the updates of all chats, in order, from the last processed one on.

        Requesting the next update means that the last one is durable: only then is it confirmed to the platform. Raises
        NotSent if the platform cannot be reached; calling it again then loses nothing.
        """
        ...

    async def send(self, address: ChatAddress, message: OutgoingMessage) -> str:
        """Send a message; returns the platform's message id. Raises NotSent, MaybeSent or Rejected."""
        ...

    async def edit(self, address: ChatAddress, message_id: str, message: OutgoingMessage) -> None:
        """Replace the text of a message. Idempotent."""
        ...

    async def typing(self, address: ChatAddress) -> None:
        """Show for some seconds that an answer is coming; never raises."""
        ...

    async def acknowledge(self, update: ChatUpdate) -> None:
        """Confirm a pressed button to the platform; never raises."""
        ...

    async def is_private(self, chat: str) -> bool:
        """Whether only one user and the bot can read the chat; False if that cannot be determined."""
        ...

    async def close(self) -> None: ...


def size_in_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def size_in_utf16(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
