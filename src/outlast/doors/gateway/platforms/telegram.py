"""Telegram adapter: the Bot API by long polling, through python-telegram-bot.

Requesting the next updates confirms the previous ones, so an update that was not stored is delivered again. Telegram
does not recognise a repeated send: a message that was not confirmed may appear twice, and the delivery worker marks it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import httpx
from telegram import (
    Bot,
    CallbackQuery,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    LinkPreviewOptions,
    Message,
    MessageEntity,
    ReplyParameters,
)
from telegram import Update as BotUpdate
from telegram.error import BadRequest, ChatMigrated, Conflict, Forbidden, InvalidToken, RetryAfter, TelegramError
from telegram.request import HTTPXRequest

from outlast.core.chat_route import ChatAddress
from outlast.doors.gateway.platform import ChatUpdate, MaybeSent, NotSent, OutgoingMessage, Rejected, size_in_utf16
from outlast.doors.gateway.platforms.markup import telegram_html

API = "https://api.telegram.org"
WANTED = ["message", "callback_query"]
POLL_SECONDS = 25
TIMEOUT = 20.0
NO_PREVIEW = LinkPreviewOptions(is_disabled=True)
_NOT_CONNECTED = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_UNREADABLE = ("can't parse entities", "can't find end", "message is too long", "unsupported start tag")


class Telegram:
    """One bot."""

    name = "telegram"
    longest = 3_900  # 4096 in the API; lists and tables grow a little when they are converted
    typing_seconds = 4.5
    can_edit = True
    knows_repeats = False

    def __init__(self, token: str, api_url: str | None = None, *, poll_seconds: int = POLL_SECONDS) -> None:
        self._token = token
        self._poll_seconds = poll_seconds
        url = api_url or API
        plain: dict[str, Any] = {"verify": False} if url.startswith("http://") else {}  # no TLS, no certificates
        request, polling = (
            HTTPXRequest(read_timeout=TIMEOUT, connect_timeout=TIMEOUT, httpx_kwargs=plain) for _ in range(2)
        )
        self._bot = Bot(
            token,
            base_url=f"{url}/bot",
            base_file_url=f"{url}/file/bot",
            request=request,
            get_updates_request=polling,
        )
        self._offset: int | None = None
        self._is_known = False

    def size(self, text: str) -> int:
        return size_in_utf16(text)

    async def open(self) -> str:
        try:
            await self._bot.initialize()
            if self._is_known:
                await self._bot.get_me()  # initialize() does not ask a second time
        except InvalidToken as error:
            raise Rejected("Telegram does not know this token; get one from @BotFather and set it") from error
        except TelegramError as error:
            raise NotSent(self._told("Telegram cannot be reached", error)) from error
        self._is_known = True
        return str(self._bot.id)

    async def close(self) -> None:
        with suppress(TelegramError, RuntimeError):
            await self._bot.shutdown()

    # --- receiving

    async def receive(self) -> AsyncIterator[ChatUpdate]:
        while True:
            for update in await self._updates():
                read = self._read(update)
                if read is not None:
                    yield read
                self._offset = update.update_id + 1

    async def _updates(self) -> tuple[BotUpdate, ...]:
        try:
            return await self._bot.get_updates(
                offset=self._offset, timeout=timedelta(seconds=self._poll_seconds), allowed_updates=WANTED
            )
        except Conflict as error:
            raise NotSent(
                "another program receives this bot's messages (a second gateway, or a webhook is set); stop one of them"
            ) from error
        except RetryAfter as error:
            raise NotSent("Telegram asks to wait", retry_after=_seconds(error)) from error
        except TelegramError as error:
            raise NotSent(self._told("Telegram cannot be reached", error)) from error

    def _read(self, update: BotUpdate) -> ChatUpdate | None:
        key = f"{self._bot.id}:{update.update_id}"
        if update.callback_query is not None:
            return self._pressed(key, update.callback_query)
        message = update.message
        if message is None or message.from_user is None or message.from_user.is_bot or message.sender_chat is not None:
            return None  # a channel, an anonymous admin or another bot: not a user identified by an id
        media = None if message.text is not None else _media(message)
        if message.text is None and media is None:
            return None  # service messages: a user joined, a title changed
        answered = message.reply_to_message
        return ChatUpdate(
            update_id=key,
            address=_address(message),
            user=str(message.from_user.id),
            private=message.chat.type == "private",
            addressed=self._is_addressed(message),
            forwarded=message.forward_origin is not None,
            message_id=str(message.message_id),
            reply_to=str(answered.message_id) if answered is not None else None,
            text=self._without_mention(message.text) if message.text is not None else None,
            media=media,
        )

    def _pressed(self, key: str, query: CallbackQuery) -> ChatUpdate | None:
        message = query.message
        if not isinstance(message, Message) or query.data is None:
            return None
        return ChatUpdate(
            update_id=key,
            address=_address(message),
            user=str(query.from_user.id),
            private=message.chat.type == "private",
            message_id=str(message.message_id),
            pressed=query.data,
            press_id=query.id,
        )

    def _is_addressed(self, message: Message) -> bool:
        if message.chat.type == "private":
            return True
        answered = message.reply_to_message
        if answered is not None and answered.from_user is not None and answered.from_user.id == self._bot.id:
            return True
        ours = f"@{self._bot.username}".lower()
        for entity, text in message.parse_entities().items():
            if entity.type == MessageEntity.MENTION and text.lower() == ours:
                return True
            if entity.type == MessageEntity.TEXT_MENTION and entity.user and entity.user.id == self._bot.id:
                return True
            if entity.type == MessageEntity.BOT_COMMAND and entity.offset == 0:
                return "@" not in text or text.lower().endswith(ours)
        return False

    def _without_mention(self, text: str) -> str:
        ours = f"@{self._bot.username}"
        return text[len(ours) :].lstrip(" ,:") if text.lower().startswith(ours.lower()) else text

    # --- sending

    async def send(self, address: ChatAddress, message: OutgoingMessage) -> str:
        options: dict[str, Any] = {
            "chat_id": int(address.chat),
            "message_thread_id": int(address.thread) if address.thread else None,
            "reply_markup": _keyboard(message),
            "reply_parameters": _replying(message),
            "link_preview_options": NO_PREVIEW,
        }
        sent: Message = await self._said(
            lambda text, mode: self._bot.send_message(text=text, parse_mode=mode, **options), message
        )
        return str(sent.message_id)

    async def edit(self, address: ChatAddress, message_id: str, message: OutgoingMessage) -> None:
        options: dict[str, Any] = {
            "chat_id": int(address.chat),
            "message_id": int(message_id),
            "reply_markup": _keyboard(message),
            "link_preview_options": NO_PREVIEW,
        }
        await self._said(lambda text, mode: self._bot.edit_message_text(text=text, parse_mode=mode, **options), message)

    async def _said(self, call: Callable[[str, str | None], Awaitable[Any]], message: OutgoingMessage) -> Any:
        """Send with formatting, or as plain text if Telegram rejects the formatting."""
        try:
            return await self._called(call(telegram_html(message.text), "HTML"))
        except _Unreadable:
            return await self._called(call(message.text, None))

    async def _called(self, call: Awaitable[Any]) -> Any:
        """Await an API call and map its errors to NotSent, MaybeSent or Rejected."""
        try:
            return await call
        except RetryAfter as error:
            raise NotSent("Telegram asks to wait", retry_after=_seconds(error)) from error
        except BadRequest as error:
            text = error.message.lower()
            if "not modified" in text:
                return None
            if any(words in text for words in _UNREADABLE):
                raise _Unreadable from error
            raise Rejected(self._told("Telegram refuses this", error)) from error
        except InvalidToken as error:  # this is about the bot; the chat still exists once the token is corrected
            raise NotSent("Telegram does not know this token; get one from @BotFather and set it") from error
        except (Forbidden, ChatMigrated) as error:
            raise Rejected(self._told("Telegram refuses this", error)) from error
        except TelegramError as error:
            if isinstance(error.__cause__, _NOT_CONNECTED):
                raise NotSent(self._told("Telegram cannot be reached", error)) from error
            raise MaybeSent(self._told("Telegram did not confirm it", error)) from error

    async def typing(self, address: ChatAddress) -> None:
        thread = int(address.thread) if address.thread else None
        with suppress(TelegramError):
            await self._bot.send_chat_action(int(address.chat), "typing", message_thread_id=thread)

    async def acknowledge(self, update: ChatUpdate) -> None:
        with suppress(TelegramError):
            await self._bot.answer_callback_query(update.press_id or "")

    async def is_private(self, chat: str) -> bool:
        return not chat.startswith("-")  # user ids are positive, those of groups and channels negative

    def _told(self, what: str, error: TelegramError) -> str:
        return f"{what}: {error}".replace(self._token, "(token)")


class _Unreadable(Exception):
    """Telegram cannot parse the formatting; certainly not sent."""


def _address(message: Message) -> ChatAddress:
    thread = message.message_thread_id if message.is_topic_message else None
    return ChatAddress(str(message.chat.id), str(thread) if thread is not None else "")


def _media(message: Message) -> str | None:
    if message.photo:
        return "a photo"
    found = message.effective_attachment
    return None if found is None or isinstance(found, tuple) else f"a {type(found).__name__.lower()}"


def _keyboard(message: OutgoingMessage) -> InlineKeyboardMarkup | None:
    if not message.buttons:
        return None
    return InlineKeyboardMarkup([[InlineKeyboardButton(one.label, callback_data=one.data)] for one in message.buttons])


def _replying(message: OutgoingMessage) -> ReplyParameters | None:
    if message.reply_to is None:
        return None
    return ReplyParameters(message_id=int(message.reply_to), allow_sending_without_reply=True)


def _seconds(error: RetryAfter) -> float:
    after = error.retry_after
    return after.total_seconds() if isinstance(after, timedelta) else float(after)
