"""Matrix events as their JSON says them: what they hold, what they are about, what ours look like.

Rooms that we are invited to and have not come into.

A homeserver tells of an invitation once, so one that cannot be accepted yet is kept, with how far we have read: the
homeserver may be busy, the inviter may be paired in a minute.
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
    """A reply without the text that it answers, which older clients put in front of it."""
    return _QUOTED.sub("", body)


def inviter_in(event: Json, user: str) -> str | None:
    """Who invites this user by it; None when nobody does."""
    is_ours = event.get("type") == "m.room.member" and event.get("state_key") == user
    return str(event.get("sender")) if is_ours else None


def entry_of(event: Json, user: str) -> str | None:
    """`invite` or `join` where a user was invited or came in; None for all else, a new name or picture too."""
    content, unsigned = object_in(event, "content"), object_in(event, "unsigned")
    if event.get("type") != "m.room.member" or event.get("state_key") != user:
        return None
    entry, before = content.get("membership"), object_in(unsigned, "prev_content").get("membership")
    return entry if entry in ("invite", "join") and entry != before else None


# --- ours ------------------------------------------------------------------------------------------------------------


def content_of(text: str) -> dict[str, Any]:
    return {
        "msgtype": "m.text",
        "body": text,
        "format": "org.matrix.custom.html",
        "formatted_body": matrix_html(text),
    }


def relation_to(address: ChatAddress, reply_to: str | None) -> dict[str, Any]:
    """What makes it stand in its thread, and under what it answers."""
    relation: dict[str, Any] = {}
    if address.thread:
        relation = {"rel_type": "m.thread", "event_id": address.thread, "is_falling_back": reply_to is None}
    if reply_to or address.thread:
        relation["m.in_reply_to"] = {"event_id": reply_to or address.thread}
    return {"m.relates_to": relation} if relation else {}


def replacement_of(message_id: str, new: dict[str, Any]) -> dict[str, Any]:
    """What lets a message of ours say something new."""
    return {
        **new,
        "body": f"* {new['body']}",
        "m.new_content": new,
        "m.relates_to": {"rel_type": "m.replace", "event_id": message_id},
    }


MOST = 20
MOST_TRIES = 5
"""So many are kept, the newest, and each is tried so often."""


class Invitations:
    """Of one account; the newest last."""

    def __init__(self) -> None:
        self._inviters: dict[str, str] = {}
        self._tries: dict[str, int] = {}

    def hear(self, room: str, inviter: str) -> None:
        """Somebody invites us."""
        self.forget(room)
        self._inviters[room] = inviter
        for oldest in list(self._inviters)[:-MOST]:
            self.forget(oldest)

    def recall(self, inviters: Mapping[str, str]) -> None:
        """What was kept."""
        for room, inviter in inviters.items():
            self.hear(room, inviter)

    def forget(self, room: str) -> None:
        """We are in, or are not wanted any more."""
        self._inviters.pop(room, None)
        self._tries.pop(room, None)

    def try_again(self, room: str) -> bool:
        """Whether to come back to a room that did not let us in."""
        self._tries[room] = self._tries.get(room, 0) + 1
        return self._tries[room] < MOST_TRIES

    @property
    def inviters(self) -> dict[str, str]:
        """Who invited us, by room."""
        return dict(self._inviters)
