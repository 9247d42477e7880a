"""The key of a chat's route: `platform:gateway:chat:thread:user`.

Byte-stable: the same chat has the same key in every version, process and locale, and the key can be decoded to the
chat. In each field all but a few characters are percent-encoded as UTF-8, so no id can spill into another field. Names
that users can change (titles, user names, handles) are never part of a key.

After a chat switches to another session, the previous one may still have messages to deliver. This debt is a separate
route, `<key>|<session>`, so it follows rotations like any other route.
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
    """A chat, or a thread in it, on one platform."""

    chat: str
    thread: str = ""


def route_key(platform: str, gateway: str, address: ChatAddress, user: str = "") -> str:
    """Return the route key of a chat; thread and user are empty if the policy does not separate by them."""
    place = route_prefix(platform, gateway) + ":".join(map(escaped, address))
    key = f"{place}:{named(user)}"
    if len(key) > LONGEST:
        raise InvalidInput(f"the ids of this chat have {len(key)} characters, more than a route can hold")
    return key


def route_prefix(platform: str, gateway: str) -> str:
    """Return the prefix that all routes of this gateway share, and no other route has."""
    return f"{escaped(platform)}:{escaped(gateway)}:"


def address_of(route: str) -> ChatAddress:
    """Decode the chat and thread from a route key."""
    _, _, chat, thread, _ = route.split(":")
    return ChatAddress(_plain(chat), _plain(thread))


def debt_key(route: str, session_id: str) -> str:
    """Return the route that still leads to a session the chat has left."""
    return f"{route}{DEBT}{session_id}"


def route_of_debt(key: str) -> str | None:
    """Return the chat's own route if this key is a debt, else None."""
    route, mark, _ = key.rpartition(DEBT)
    return route if mark else None


def named(user: str) -> str:
    """Encode a user id; a long one is hashed, because no caller has to decode it."""
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
