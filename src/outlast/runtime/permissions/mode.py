"""The five permission modes and their partial order."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class PermissionMode(StrEnum):
    READ_ONLY = "read-only"
    WORKSPACE_WRITE = "workspace-write"
    DANGER_FULL_ACCESS = "danger-full-access"
    PROMPT = "prompt"
    ALLOW = "allow"

    def is_at_most(self, ceiling: PermissionMode) -> bool:
        """True if this mode permits nothing that `ceiling` does not; False for modes that cannot be compared."""
        return self is ceiling or self in _LOWER[ceiling]


_LOWER: Mapping[PermissionMode, frozenset[PermissionMode]] = {
    PermissionMode.READ_ONLY: frozenset(),
    PermissionMode.PROMPT: frozenset({PermissionMode.READ_ONLY}),
    PermissionMode.WORKSPACE_WRITE: frozenset({PermissionMode.READ_ONLY}),
    PermissionMode.DANGER_FULL_ACCESS: frozenset(
        {PermissionMode.READ_ONLY, PermissionMode.PROMPT, PermissionMode.WORKSPACE_WRITE}
    ),
    PermissionMode.ALLOW: frozenset(PermissionMode) - {PermissionMode.ALLOW},
}
