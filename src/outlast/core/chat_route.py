"""The key of a chat's route: `platform:gateway:chat:thread:user`.

Byte-stable: the same chat gives the same text in every version, process and locale, and the text gives the chat. Each
field has everything but a few characters percent-encoded from its UTF-8, so no id can reach into another's field; names
that people can change (titles, user names, handles) are never part of it.

A chat that goes to another session may still be owed something by the one that it left. Such a debt is a route of its
own, `<key>|<session>`, so it follows rotations like any other.
"""

from __future__ import annotations

import hashlib
import string
from typing import NamedTuple

from outlast.core.errors import InvalidInput

LONGEST = 380
LONGEST_NAME = 100
DEBT = "|"
_KEPT = frozenset(string.ascii_letters + string.digits + "-._~@!$#")


class ChatAddress(NamedTuple):
    """Where in a platform something is said."""

    chat: str
    thread: str = ""


def route_key(platform: str, gateway: str, address: ChatAddress, user: str = "") -> str:
    """The route of a chat; thread and user are empty where the policy does not tell them apart."""
    place = route_prefix(platform, gateway) + ":".join(map(escaped, address))
    key = f"{place}:{named(user)}"
    if len(key) > LONGEST:
        raise InvalidInput(f"the ids of this chat have {len(key)} characters, more than a route can hold")
    return key


def route_prefix(platform: str, gateway: str) -> str:
    """How all routes of one gateway begin, and no others."""
    return f"{escaped(platform)}:{escaped(gateway)}:"


def address_of(route: str) -> ChatAddress:
    """Where a route's chat is."""
    _, _, chat, thread, _ = route.split(":")
    return ChatAddress(_plain(chat), _plain(thread))


def debt_key(route: str, session_id: str) -> str:
    """The route by which a session that the chat has left can still be found."""
    return f"{route}{DEBT}{session_id}"


def route_of_debt(key: str) -> str | None:
    """The chat's own route, if this is a debt; else None."""
    route, mark, _ = key.rpartition(DEBT)
    return route if mark else None


def named(user: str) -> str:
    """A user's id as a name that is never too long: nobody has to find the user by it."""
    name = escaped(user)
    return name if len(name) <= LONGEST_NAME else f"%{hashlib.sha256(name.encode()).hexdigest()}"


def escaped(text: str) -> str:
    return "".join(c if c in _KEPT else "".join(f"%{byte:02X}" for byte in _bytes(c)) for c in text)


def _bytes(character: str) -> bytes:
    return character.encode("utf-8", "surrogatepass")


def _plain(field: str) -> str:
    first, *others = field.split("%")
    data = first.encode() + b"".join(bytes.fromhex(one[:2]) + one[2:].encode() for one in others)
    return data.decode("utf-8", "surrogatepass")
