"""Whether and when a model is asked again. The only place that does: the SDKs underneath never retry."""

from __future__ import annotations

from outlast.core.errors import ModelUnavailable

MAX_ATTEMPTS = 5
LONGEST_WAIT = 60.0
FIRST_WAIT = 0.5


def wait_before(attempt: int, error: ModelUnavailable, chance: float) -> float | None:
    """Seconds to wait after this failed attempt (counted from 1); None when it was the last one.

    What the provider asks for is honoured up to a minute: one that wants longer is not asked again in this turn.
    Otherwise the wait doubles, with full jitter, so that many agents do not come back at the same moment.
    """
    if attempt >= MAX_ATTEMPTS:
        return None
    if error.retry_after is not None:
        return None if error.retry_after > LONGEST_WAIT else max(0.0, error.retry_after)
    most = min(LONGEST_WAIT, FIRST_WAIT * 2 ** (attempt - 1))
    return most * (0.5 + chance / 2)
