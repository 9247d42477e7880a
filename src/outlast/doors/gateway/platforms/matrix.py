"""Matrix adapter through matrix-nio, without encryption: a room is a chat, a thread a thread.

The adapter stores the sync position itself, and only after the updates before it are stored. Two sends with the same
transaction id give one message, so a lost response is harmless here.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

import msgspec
from aiohttp import ClientConnectorError, ClientError
from nio import (  # pyright: ignore[reportMissingTypeStubs] it has types of its own, in its source
    AsyncClient,
    AsyncClientConfig,
    ErrorResponse,
    JoinedMembersResponse,
    JoinResponse,
    LocalProtocolError,
    LoginResponse,
    MessageDirection,
    RoomMessagesResponse,
    RoomSendResponse,
    SyncResponse,
    WhoamiResponse,
)

from outlast.app.chat.sync_position import SyncPosition
from outlast.core.chat_route import ChatAddress
from outlast.doors.gateway.log import warned
from outlast.doors.gateway.platform import ChatUpdate, MaybeSent, NotSent, OutgoingMessage, Rejected, size_in_bytes
from outlast.doors.gateway.platforms.matrix_event import (
    Invitations,
    Json,
    content_of,
    entry_of,
    inviter_in,
    object_in,
    relation_of,
    relation_to,
    replacement_of,
    sources,
    without_quote,
)

POLL_MS = 25_000
TIMEOUT = 30.0
REMEMBER_SECONDS = 30.0
GAP_PAGE = 100
MOST_PAGES = 20
"""How many pages to search back for the invitation in a room that was just joined."""
REACTION = "react:"
AT_ONCE = 50
"""Messages per room in one sync response; those that the homeserver leaves out are fetched."""
_FOREVER = frozenset({"M_FORBIDDEN", "M_NOT_FOUND", "M_TOO_LARGE", "M_BAD_JSON"})
_NOT_LET_IN = frozenset({"M_UNKNOWN_TOKEN", "M_MISSING_TOKEN"})
_NOT_CONNECTED = (ClientConnectorError, LocalProtocolError)
"""Errors raised before a request was sent: no connection, or not logged in yet."""
_FAULTS = (ClientError, TimeoutError, OSError, LocalProtocolError)


class Matrix:
    """One account. `welcomes` decides whose invitations are accepted."""

    name = "matrix"
    longest = 12_000  # bytes: an edit contains the text four times, and an event has at most 64 KiB
    typing_seconds = 20.0
    can_edit = True
    knows_repeats = True

    def __init__(
        self,
        homeserver: str,
        user: str,
        *,
        token: str | None = None,
        password: str | None = None,
        position: SyncPosition,
        welcomes: Callable[[str], bool],
        poll_ms: int = POLL_MS,
        at_once: int = AT_ONCE,
    ) -> None:
        config = AsyncClientConfig(max_limit_exceeded=0, max_timeouts=0, request_timeout=TIMEOUT)
        device = f"OUTLAST{hashlib.sha256(str(position.path).encode()).hexdigest()[:8].upper()}"
        self._client = AsyncClient(homeserver, user, device_id=device, config=config)
        self._user = user
        self._token, self._password = token, password
        self._position, self._welcomes = position, welcomes
        self._poll_ms = poll_ms
        self._filter = _filter(at_once)
        self._since: str | None = None
        self._is_in = False
        self._saved_at = 0.0
        self._members: dict[str, tuple[float, bool]] = {}
        self._invitations = Invitations()

    def size(self, text: str) -> int:
        return size_in_bytes(text)

    async def open(self) -> str:
        client = self._client
        if self._is_in and isinstance(await self._asked(client.whoami()), WhoamiResponse):
            return self._user
        if self._token is not None:
            client.access_token, client.user_id = self._token, self._user
            answer = await self._asked(client.whoami())
            if isinstance(answer, WhoamiResponse) and answer.user_id != self._user:
                raise Rejected(f"the access token is that of {answer.user_id}, not of {self._user}")
            wanted = WhoamiResponse
        else:
            answer = await self._asked(client.login(self._password, device_name="Outlast"))
            wanted = LoginResponse
        if not isinstance(answer, wanted):
            raise Rejected(
                f"the homeserver rejects the login of {self._user} ({_said(answer)}); check token and password"
            )
        if self._since is None:
            self._since = await asyncio.to_thread(self._position.load, self._user)
            self._invitations.recall(await asyncio.to_thread(self._position.invitations, self._user))
        self._is_in = True
        return self._user

    async def close(self) -> None:
        await self._client.close()

    # --- receiving

    async def receive(self) -> AsyncIterator[ChatUpdate]:
        while True:
            answer = await self._asked(
                self._client.sync(
                    timeout=self._poll_ms if self._since else 0, since=self._since, sync_filter=self._filter
                )
            )
            if not isinstance(answer, SyncResponse):
                self._is_in = _code(answer) != "M_UNKNOWN_TOKEN"
                raise NotSent(f"the homeserver does not answer ({_said(answer)})", retry_after=_retry_after(answer))
            await self._accept(answer)
            heard = False
            if self._since is not None:  # messages from before the first sync are not answered
                for room, joined in answer.rooms.join.items():
                    for event in await self._timeline(room, joined.timeline):
                        update = await self._read(room, event)
                        if update is not None:
                            heard = True
                            yield update
            await self._remember(answer.next_batch, heard)

    async def _remember(self, position: str, heard: bool) -> None:
        fresh = self._since is None
        self._since = position
        if heard or fresh or time.monotonic() - self._saved_at > REMEMBER_SECONDS:
            await asyncio.to_thread(self._position.save, self._user, position, self._invitations.inviters)
            self._saved_at = time.monotonic()

    async def _accept(self, answer: SyncResponse) -> None:
        """Join the rooms to which a welcome user invited the bot."""
        for room, invited in answer.rooms.invite.items():
            for event in sources(cast("Any", invited).invite_state):
                if (inviter := inviter_in(event, self._user)) is not None:
                    self._invitations.hear(room, inviter)
        for room in answer.rooms.leave:
            self._invitations.forget(room)
        for room, inviter in self._invitations.inviters.items():
            welcome = await asyncio.to_thread(self._welcomes, inviter)
            if welcome and (await self._join(room) or not self._invitations.try_again(room)):
                self._invitations.forget(room)

    async def _join(self, room: str) -> bool:
        """Whether no further attempt is needed. A room that cannot be joined does not block the others."""
        try:
            answer = await self._asked(self._client.join(room))
        except NotSent as trouble:
            warned("room.not_entered", trouble)
            return False
        if isinstance(answer, JoinResponse):
            return True
        warned("room.not_entered", NotSent(f"a room cannot be joined ({_said(answer)})"))
        return _code(answer) in _FOREVER

    async def _timeline(self, room: str, timeline: Any) -> list[Json]:
        """Events of a room since the last sync, in order; events that the server left out are fetched. In a room that
        was just joined, events from the invitation on.
        """
        events = sources(timeline.events)
        if timeline.limited and timeline.prev_batch:
            events = [*[event async for event in self._before(room, timeline.prev_batch, self._since)][::-1], *events]
        entries = [(n, entry) for n, event in enumerate(events) if (entry := entry_of(event, self._user))]
        if not entries:
            return events
        first, entry = entries[0]
        invited = await self._since_invited(room, timeline.prev_batch) if entry == "join" else []
        return [*invited, *sources(timeline.events)] if invited else events[first:]

    async def _since_invited(self, room: str, start: str | None) -> list[Json]:
        """Events from the invitation to the time the bot joined; empty if it was not invited."""
        found: list[Json] = []
        if not start:
            return found
        async for event in self._before(room, start, None):
            found.append(event)
            if entry_of(event, self._user) == "invite":
                return found[::-1]
        return []

    async def _before(self, room: str, start: str, end: str | None) -> AsyncIterator[Json]:
        """Events before a position in a room, newest first: back to `end`, or for MOST_PAGES pages."""
        for _ in itertools.repeat(None) if end else range(MOST_PAGES):
            answer = await self._asked(
                self._client.room_messages(room, start=start, end=end, direction=MessageDirection.back, limit=GAP_PAGE)
            )
            if not isinstance(answer, RoomMessagesResponse):
                raise NotSent(f"the homeserver does not return the missed messages ({_said(answer)})")
            for source in sources(answer.chunk):
                yield source
            if not answer.chunk or not answer.end or answer.end == start:
                return
            start = answer.end

    async def _read(self, room: str, event: Json) -> ChatUpdate | None:
        sender, event_id, content = event.get("sender"), event.get("event_id"), event.get("content")
        if event.get("type") == "m.room.member":
            self._members.pop(room, None)
        if not isinstance(sender, str) or not isinstance(event_id, str) or sender == self._user:
            return None
        if not isinstance(content, dict):
            return None
        told = cast("Json", content)
        match event.get("type"):
            case "m.room.message":
                return await self._message(room, event_id, sender, told)
            case "m.reaction":
                return await self._reaction(room, event_id, sender, told)
            case "m.room.encrypted":
                return await self._update(room, event_id, sender, told, media="an encrypted message")
            case _:
                return None

    async def _message(self, room: str, event_id: str, sender: str, content: Json) -> ChatUpdate | None:
        kind, body = content.get("msgtype"), content.get("body")
        if kind == "m.notice" or relation_of(content).get("rel_type") == "m.replace":
            return None  # messages of other bots, and edits of messages already processed
        if kind not in ("m.text", "m.emote") or not isinstance(body, str):
            return await self._update(room, event_id, sender, content, media=f"a message of the kind {kind}")
        if "m.in_reply_to" in relation_of(content):
            body = without_quote(body)
        return await self._update(room, event_id, sender, content, text=body)

    async def _reaction(self, room: str, event_id: str, sender: str, content: Json) -> ChatUpdate | None:
        relation = relation_of(content)
        target, key = relation.get("event_id"), relation.get("key")
        if not isinstance(target, str) or not isinstance(key, str):
            return None
        return ChatUpdate(
            update_id=event_id,
            address=ChatAddress(room),
            user=sender,
            private=await self._has_two(room),
            message_id=target,
            pressed=f"{REACTION}{key[:16]}",
        )

    async def _update(
        self, room: str, event_id: str, sender: str, content: Json, *, text: str | None = None, media: str | None = None
    ) -> ChatUpdate:
        relation, private = relation_of(content), await self._has_two(room)
        thread = relation.get("event_id") if relation.get("rel_type") == "m.thread" else None
        reply = object_in(relation, "m.in_reply_to").get("event_id")
        falls_back = bool(relation.get("is_falling_back"))
        return ChatUpdate(
            update_id=event_id,
            address=ChatAddress(room, thread if isinstance(thread, str) else ""),
            user=sender,
            private=private,
            addressed=private or self._is_addressed(content, text or ""),
            message_id=event_id,
            reply_to=reply if isinstance(reply, str) and not falls_back else None,
            text=self._without_mention(text) if text is not None else None,
            media=media,
        )

    def _is_addressed(self, content: Json, text: str) -> bool:
        mentions = object_in(content, "m.mentions").get("user_ids")
        if isinstance(mentions, list) and self._user in mentions:
            return True
        return text.startswith(self._names) or self._user in text

    @property
    def _names(self) -> tuple[str, ...]:
        local = self._user[1:].partition(":")[0]
        return (self._user, f"@{local}", f"{local}:", f"{local},")

    def _without_mention(self, text: str) -> str:
        for name in self._names:
            if text.startswith(name):
                return text[len(name) :].lstrip(" ,:")
        return text

    # --- sending

    async def send(self, address: ChatAddress, message: OutgoingMessage) -> str:
        content = {**content_of(message.text), **relation_to(address, message.reply_to)}
        return await self._sent(address, content, message.key)

    async def edit(self, address: ChatAddress, message_id: str, message: OutgoingMessage) -> None:
        new = content_of(message.text)
        digest = hashlib.sha256(msgspec.json.encode(new)).hexdigest()[:16]
        await self._sent(address, replacement_of(message_id, new), f"{message.key}.{digest}")

    async def _sent(self, address: ChatAddress, content: dict[str, Any], key: str) -> str:
        try:
            answer = await self._client.room_send(address.chat, "m.room.message", content, tx_id=key)
        except _NOT_CONNECTED as error:
            raise NotSent(f"the homeserver cannot be reached: {_words(error)}") from error
        except _FAULTS as error:
            raise MaybeSent(f"the homeserver did not confirm it: {_words(error)}") from error
        if isinstance(answer, RoomSendResponse):
            return answer.event_id
        if _code(answer) == "M_LIMIT_EXCEEDED":
            raise NotSent("the homeserver asks to wait", retry_after=_retry_after(answer))
        if _code(answer) in _NOT_LET_IN:
            raise NotSent(f"the homeserver rejects the login ({_said(answer)})")
        if _code(answer) in _FOREVER:
            raise Rejected(f"the homeserver refuses this ({_said(answer)})")
        raise MaybeSent(f"the homeserver did not confirm it ({_said(answer)})")

    async def typing(self, address: ChatAddress) -> None:
        try:
            await self._client.room_typing(address.chat, True, 30_000)
        except _FAULTS:
            return

    async def acknowledge(self, update: ChatUpdate) -> None:
        """Reactions need no acknowledgement."""

    async def is_private(self, chat: str) -> bool:
        try:
            return await self._has_two(chat)
        except NotSent:
            return False

    async def _has_two(self, room: str) -> bool:
        """Whether the room has exactly one user other than the bot. Raises NotSent if the homeserver does not answer: a
        guess could take a private message for a group message and ignore it.
        """
        at, private = self._members.get(room, (0.0, False))
        if time.monotonic() - at < REMEMBER_SECONDS and room in self._members:
            return private
        answer = await self._asked(self._client.joined_members(room))
        if _code(answer) in _FOREVER:
            return False  # the bot is no longer in the room
        if not isinstance(answer, JoinedMembersResponse):
            raise NotSent(
                f"the homeserver does not list the members of a room ({_said(answer)})",
                retry_after=_retry_after(answer),
            )
        private = len(answer.members) == 2
        self._members[room] = (time.monotonic(), private)
        return private

    async def _asked(self, call: Awaitable[Any]) -> Any:
        try:
            return await call
        except _FAULTS as error:
            raise NotSent(f"the homeserver cannot be reached: {_words(error)}") from error


def _filter(at_once: int) -> dict[str, Any]:
    """Sync filter: messages and memberships only."""
    nothing: dict[str, Any] = {"types": []}
    members = {"types": ["m.room.member"], "lazy_load_members": True}
    room = {"ephemeral": nothing, "account_data": nothing, "state": members, "timeline": {"limit": at_once}}
    return {"presence": nothing, "account_data": nothing, "room": room}


def _code(answer: object) -> str | None:
    return answer.status_code if isinstance(answer, ErrorResponse) else None


def _retry_after(answer: object) -> float | None:
    after = answer.retry_after_ms if isinstance(answer, ErrorResponse) else None
    return after / 1000 if after else None


def _said(answer: object) -> str:
    if isinstance(answer, ErrorResponse):
        return f"{answer.status_code or ''} {answer.message or ''}".strip() or "an unknown error"
    return type(answer).__name__


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__
