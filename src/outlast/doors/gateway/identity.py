"""Who may speak. Nobody, unless the settings or a pairing say so; by ids that the platform never gives to another."""

from __future__ import annotations

from enum import StrEnum

from outlast.app.chat.pairing_code import Pairing
from outlast.app.gateway_settings import GatewaySettings


class SenderRole(StrEnum):
    """Owners may do whatever their chat may. Members may talk, stop a turn and look where it stands."""

    OWNER = "owner"
    MEMBER = "member"


class Identity:
    """The people of one gateway."""

    def __init__(self, table: GatewaySettings, pairing: Pairing) -> None:
        self._table = table
        self.pairing = pairing

    def role(self, user: str) -> SenderRole | None:
        """What this user is here; None for everybody else in the world."""
        if user in self._table.owners or user in self.pairing.owners():
            return SenderRole.OWNER
        return SenderRole.MEMBER if user in self._table.members else None
