"""Read position of a gateway on a platform whose clients must keep it: `$OUTLAST_HOME/gateway/NAME.position`.

The position is saved after all messages before it are stored, together with earlier invitations that are not accepted
yet. Losing the file loses no stored message: messages delivered again are recognised by their id.
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
        """The saved position of this account; None if there is none."""
        position = self._found(account).get("position")
        return position if isinstance(position, str) else None

    def invitations(self, account: str) -> dict[str, str]:
        """The inviters of this account's pending invitations, by room."""
        found = self._found(account).get("invitations")
        inviters = cast("dict[str, object]", found) if isinstance(found, dict) else {}
        return {room: str(inviter) for room, inviter in inviters.items()}

    def save(self, account: str, position: str, invitations: Mapping[str, str] = NONE) -> None:
        told: Table = {"account": account, "position": position, "invitations": dict(invitations)}
        update_locked(self.path, lambda _: told)

    def _found(self, account: str) -> Table:
        found = read_json(self.path) or {}
        return found if found.get("account") == account else {}
