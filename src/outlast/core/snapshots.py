"""A folded state as bytes, and back. A cache: what cannot be used is None, and the log is folded again."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from outlast.core.codec import from_json, to_json
from outlast.core.state import FOLD_VERSION, SessionState


def state_to_bytes(state: SessionState) -> bytes:
    return to_json({"fold_version": FOLD_VERSION, "state": state})


def state_from_bytes(data: bytes) -> SessionState | None:
    """The state, or None when another fold version wrote it or the bytes are no state at all."""
    try:
        found = from_json(data)
        if not isinstance(found, dict) or cast("dict[str, Any]", found).get("fold_version") != FOLD_VERSION:
            return None
        return msgspec.convert(found["state"], SessionState, builtin_types=(bytes,))
    except (ValueError, KeyError, msgspec.ValidationError):
        return None
