"""What a log comes to besides its messages: usage.

Transcript and window have modules of their own; `outlast.store.recount` recounts headers.
"""

from __future__ import annotations

import msgspec

from outlast.core.state import SessionState
from outlast.core.usage import UsageTotals


def usage(state: SessionState) -> UsageTotals:
    """What this session has spent; a copy, to be kept."""
    return msgspec.convert(msgspec.to_builtins(state.usage), UsageTotals)
