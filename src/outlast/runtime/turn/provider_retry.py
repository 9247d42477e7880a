"""Retries of model requests: how long to wait, and when to give up.

A request is retried for up to ten minutes after its first failure. The waits double up to a minute, with jitter; a
provider's retry-after is honoured. A stream that sends nothing is a failure, too: `StallLimits` says after how long. It
is retried at most twice, because the provider bills each request. Nothing here waits or writes: `model_call` does.
"""

from __future__ import annotations

import msgspec

from outlast.core.errors import ModelUnavailable
from outlast.core.text import duration_text
from outlast.models.port import Model
from outlast.runtime.agent_config import AgentConfig

GIVE_UP_SECONDS = 600.0
LONGEST_WAIT = 60.0
FIRST_WAIT = 0.5

QUIET_SECONDS = 15.0
"""An observer is told about a silent stream after this many seconds."""
FIRST_TOKEN_TIMEOUT = 600.0
STREAM_IDLE_TIMEOUT = 120.0
SILENT_RETRIES = 2


class RetryDeadline:
    """The retries of one request. The clock starts with its first failure."""

    def __init__(self) -> None:
        self._failures = 0
        self._silences = 0
        self._first: float | None = None

    def wait_after_silence(self, error: ModelUnavailable, chance: float) -> float:
        """Return the seconds to wait before the next attempt, after an attempt whose stream went silent. Raises
        `ModelUnavailable` after the second retry."""
        self._silences += 1
        if self._silences > SILENT_RETRIES:
            raise _given_up(error, f"{self._silences} requests in a row went silent; try again later")
        return FIRST_WAIT * (0.5 + chance / 2)

    def wait_after(self, error: ModelUnavailable, now: float, chance: float) -> float:
        """Return the seconds to wait before the next attempt. `now` is monotonic, `chance` a random number in [0, 1).

        Raises `ModelUnavailable` if there is no further attempt; its message says why.
        """
        self._failures += 1
        self._first = now if self._first is None else self._first
        left = self.seconds_left(now)
        if error.retry_after is not None and error.retry_after > left:
            raise _given_up(
                error,
                f"the provider asks to wait {duration_text(error.retry_after)}, longer than Outlast retries "
                f"({duration_text(GIVE_UP_SECONDS)}); try again then",
            )
        if left <= 0:
            raise _given_up(
                error, f"{self._failures} attempts in {duration_text(GIVE_UP_SECONDS)} failed; try again later"
            )
        if error.retry_after is not None:
            return max(0.0, error.retry_after)
        longest = min(LONGEST_WAIT, FIRST_WAIT * 2 ** min(self._failures - 1, 20))
        return min(left, longest * (0.5 + chance / 2))

    def seconds_left(self, now: float) -> float:
        return GIVE_UP_SECONDS if self._first is None else self._first + GIVE_UP_SECONDS - now


def _given_up(error: ModelUnavailable, why: str) -> ModelUnavailable:
    return ModelUnavailable(f"{error}; {why}", status=error.status, retry_after=error.retry_after)


class StallLimits(msgspec.Struct, frozen=True):
    """The longest silence of a stream, in seconds: before its first token (None: no limit), and between two tokens.
    Reasoning is data; what only keeps the connection open is none."""

    first: float | None
    between: float

    @classmethod
    def of(cls, config: AgentConfig, model: Model) -> StallLimits:
        """A model on this machine may read a long prompt for any time, unless the user sets a limit."""
        usual = None if model.abilities.on_this_machine else FIRST_TOKEN_TIMEOUT
        return cls(config.first_token_timeout or usual, config.stream_idle_timeout or STREAM_IDLE_TIMEOUT)
