"""What a turn may use up. A turn that has used it up ends, and says so in the log."""

from __future__ import annotations

import msgspec

from outlast.core.state import OpenTurn

MAX_STEPS = 50


class Budgets(msgspec.Struct, frozen=True, kw_only=True):
    """Replies of the model, tokens in and out, seconds on the wall. None is no limit."""

    max_steps: int | None = MAX_STEPS
    max_tokens: int | None = None
    max_seconds: float | None = None

    def used_up(self, turn: OpenTurn, now_us: int) -> str | None:
        """Why this turn may not go on, if it may not; counts survive a crash, because they fold from the log."""
        if self.max_steps is not None and turn.replies >= self.max_steps:
            return f"the step budget of {self.max_steps} is used up"
        if self.max_tokens is not None and turn.tokens >= self.max_tokens:
            return f"the token budget of {self.max_tokens} is used up ({turn.tokens} tokens)"
        left = self.seconds_left(turn, now_us)
        if left is not None and left <= 0:
            return f"the time budget of {self.max_seconds:g} s is used up"
        return None

    def seconds_left(self, turn: OpenTurn, now_us: int) -> float | None:
        return None if self.max_seconds is None else self.max_seconds - (now_us - turn.at) / 1e6
