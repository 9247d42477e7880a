"""Rooms that we are invited to and have not come into.

A homeserver tells of an invitation once, so one that cannot be accepted yet is kept, with how far we have read: the
homeserver may be busy, the inviter may be paired in a minute.
"""

from __future__ import annotations

from collections.abc import Mapping

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
