"""How far a gateway has read on a platform that leaves that to its readers: `$HOLDFAST_HOME/gateway/NAME.position`.

Kept after the messages before it are stored. Losing it costs nothing that was stored: what comes again is known by its
id.
"""

from __future__ import annotations

from pathlib import Path

from holdfast.app.settings import Settings
from holdfast.runtime.permissions.documents import change, parsed, read_bytes


class Position:
    """The position of one account."""

    def __init__(self, settings: Settings, name: str) -> None:
        self.path: Path = settings.home / "gateway" / f"{name}.position"

    def load(self, account: str) -> str | None:
        """Where this account goes on; None when it never was anywhere."""
        content = read_bytes(self.path)
        found = parsed(self.path, content) if content is not None else {}
        position = found.get("position")
        return position if found.get("account") == account and isinstance(position, str) else None

    def save(self, account: str, position: str) -> None:
        change(self.path, lambda _: {"account": account, "position": position})
