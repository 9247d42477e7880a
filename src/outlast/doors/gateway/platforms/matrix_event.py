"""Matrix events as JSON: reading them, building the bot's own messages, and pending invitations.

A homeserver reports an invitation once, so one that cannot be accepted yet is kept with the sync position: the
homeserver may be busy, or the inviter may be paired a minute later.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from outlast.core.chat_route import ChatAddress
from outlast.doors.gateway.platforms.markup import matrix_html

Json = Mapping[str, Any]
_QUOTED = re.compile(r"\A(?:> .*\n)+\n?")


def sources(events: Iterable[Any]) -> list[Json]:
    return [cast("Json", source) for event in events if isinstance(source := getattr(event, "source", None), dict)]


def object_in(holder: Json, key: str) -> Json:
    found = holder.get(key)
    return cast("Json", found) if isinstance(found, dict) else {}


def relation_of(content: Json) -> Json:
    return object_in(content, "m.relates_to")


def without_quote(body: str) -> str:
    """A reply without the quoted text that older clients put before it."""
    return _QUOTED.sub("", body)


def inviter_in(event: Json, user: str) -> str | None:
    """The user whose event invites `user`; None if the event is about something else."""
    is_ours = event.get("type") == "m.room.member" and event.get("state_key") == user
    return str(event.get("sender")) if is_ours else None


def entry_of(event: Json, user: str) -> str | None:
    """`invite` or `join` if the event brought the user into that state; None for all others, such as a new name or
    picture.
    """
    content, unsigned = object_in(event, "content"), object_in(event, "unsigned")
    if event.get("type") != "m.room.member" or event.get("state_key") != user:
        return None
    entry, before = content.get("membership"), object_in(unsigned, "prev_content").get("membership")
    return entry if entry in ("invite", "join") and entry != before else None


# --- messages of the bot ---------------------------------------------------------------------------------------------


def content_of(text: str) -> dict[str, Any]:
    return {
        "msgtype": "m.text",
        "body": text,
        "format": "org.matrix.custom.html",
        "formatted_body": matrix_html(text),
    }


def relation_to(address: ChatAddress, reply_to: str | None) -> dict[str, Any]:
    """The relation that puts a message into its thread and under the message it replies to."""
    relation: dict[str, Any] = {}
    if address.thread:
        relation = {"rel_type": "m.thread", "event_id": address.thread, "is_falling_back": reply_to is None}
    if reply_to or address.thread:
        relation["m.in_reply_to"] = {"event_id": reply_to or address.thread}
    return {"m.relates_to": relation} if relation else {}


def replacement_of(message_id: str, new: dict[str, Any]) -> dict[str, Any]:
    """Content that replaces an earlier message of the bot."""
    return {
        **new,
        "body": f"* {new['body']}",
        "m.new_content": new,
        "m.relates_to": {"rel_type": "m.replace", "event_id": message_id},
    }


MOST = 20
MOST_TRIES = 5
"""Only the newest MOST invitations are kept, and each is tried MOST_TRIES times."""


class Invitations:
    """Pending invitations of one account, newest last."""

    def __init__(self) -> None:
        self._inviters: dict[str, str] = {}
        self._tries: dict[str, int] = {}

    def hear(self, room: str, inviter: str) -> None:
        """Add an invitation."""
        self.forget(room)
        self._inviters[room] = inviter
        for oldest in list(self._inviters)[:-MOST]:
            self.forget(oldest)

    def recall(self, inviters: Mapping[str, str]) -> None:
        """Add the stored invitations."""
        for room, inviter in inviters.items():
            self.hear(room, inviter)

    def forget(self, room: str) -> None:
        """Remove an invitation: the bot has joined, or is no longer wanted."""
        self._inviters.pop(room, None)
        self._tries.pop(room, None)

    def try_again(self, room: str) -> bool:
        """Count a failed attempt; return whether to try that room again."""
        self._tries[room] = self._tries.get(room, 0) + 1
        return self._tries[room] < MOST_TRIES

    @property
    def inviters(self) -> dict[str, str]:
        """The inviters, by room."""
        return dict(self._inviters)
