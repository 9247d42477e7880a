"""Which users may talk to the gateway: only those named by the settings or by a pairing, by ids that the platform never
reuses.
"""

from __future__ import annotations

from enum import StrEnum

from outlast.app.chat.pairing_code import Pairing
from outlast.app.gateway_settings import GatewaySettings


class SenderRole(StrEnum):
    """Owners may do everything their chat allows. Members may talk, stop a turn and ask for its status."""

    OWNER = "owner"
    MEMBER = "member"


class Identity:
    """The users of one gateway account."""

    def __init__(self, table: GatewaySettings, pairing: Pairing) -> None:
        self._table = table
        self.pairing = pairing

    def role(self, user: str) -> SenderRole | None:
        """The role of this user; None for all other users."""
        if user in self._table.owners or user in self.pairing.owners():
            return SenderRole.OWNER
        return SenderRole.MEMBER if user in self._table.members else None
