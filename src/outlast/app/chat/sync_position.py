"""How far a gateway has read on a platform that leaves that to its readers: `$OUTLAST_HOME/gateway/NAME.position`.

Kept after the messages before it are stored, together with the invitations before it that nobody has accepted yet.
Losing it costs nothing that was stored: what comes again is known by its id.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import cast

from outlast.app.settings import Settings
from outlast.runtime.private_file import Table, read_json, update_locked

NONE: Mapping[str, str] = MappingProxyType({})


class SyncPosition:
    """The position of one account."""

    def __init__(self, settings: Settings, name: str) -> None:
        self.path: Path = settings.home / "gateway" / f"{name}.position"

    def load(self, account: str) -> str | None:
        """Where this account goes on; None when it never was anywhere."""
        position = self._found(account).get("position")
        return position if isinstance(position, str) else None

    def invitations(self, account: str) -> dict[str, str]:
        """Who invited this account, by room, and waits for it there."""
        found = self._found(account).get("invitations")
        inviters = cast("dict[str, object]", found) if isinstance(found, dict) else {}
        return {room: str(inviter) for room, inviter in inviters.items()}

    def save(self, account: str, position: str, invitations: Mapping[str, str] = NONE) -> None:
        told: Table = {"account": account, "position": position, "invitations": dict(invitations)}
        update_locked(self.path, lambda _: told)

    def _found(self, account: str) -> Table:
        found = read_json(self.path) or {}
        return found if found.get("account") == account else {}
