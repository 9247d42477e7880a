"""Failpoints: named places in a turn where a test can kill the process. Without a hook, each costs one comparison."""

from __future__ import annotations

from collections.abc import Callable

NAMES = (
    "input.admitted",
    "lease.claimed",
    "turn.started",
    "model.asked",
    "draft.flushed",
    "reply.received",
    "reply.recorded",
    "approval.requested",
    "approval.answered",
    "call.decided",
    "call.started",
    "process.spawned",
    "effect.done",
    "call.finished",
    "verification.started",
    "verification.done",
    "decision.made",
    "compaction.summarised",
    "compaction.recorded",
    "turn.ended",
)

_hook: Callable[[str], None] | None = None


def install(hook: Callable[[str], None] | None) -> None:
    global _hook
    _hook = hook


def reach(name: str) -> None:
    if _hook is not None:
        _hook(name)
