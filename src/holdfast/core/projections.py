"""What a log comes to besides its messages: usage, and the header recounted.

`verify` recounts a header from the whole log and compares it with the one that was kept commit by commit. Transcript
and window have modules of their own.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from holdfast.core import events as e
from holdfast.core.fold import Row
from holdfast.core.header import REDACTED, Delta, Header, apply, delta_of
from holdfast.core.log import StoredEvent
from holdfast.core.state import SessionState
from holdfast.core.usage import UsageTotals

NOT_IN_THE_LOG = frozenset({"epoch", "updated_at", "deleted_at", "deleted_by"})
LOST_BY_REDACTION = frozenset({"title", "titled", "pending_text", "model", "persona", "turn", "state", "rotated_to"})


def usage(state: SessionState) -> UsageTotals:
    """What this session has spent; a copy, to be kept."""
    return msgspec.convert(msgspec.to_builtins(state.usage), UsageTotals)


def created_header(stored: Header) -> Header:
    """The header a session that began its own log must have had before its first event."""
    return Header(
        session_id=stored.session_id,
        owner_id=stored.owner_id,
        root_id=stored.root_id,
        base_id=stored.base_id,
        base_seq=stored.base_seq,
        parent_session_id=stored.parent_session_id,
        depth=stored.depth,
        project_key=stored.project_key,
        project_root=stored.project_root,
        project_fingerprint=stored.project_fingerprint,
        last_seq=stored.base_seq,
        created_at=stored.created_at,
    )


def header_of(created: Header, rows: Iterable[Row]) -> Header:
    """The header that these rows make of the one the session was created with.

    Inherited rows are passed over: what a fork inherits is in `created`. Bodies in blobs must have been read.
    """
    rows = [row for row in rows if row[0].session_id == created.session_id]
    counted = {event.seq: event.counted for _, event in rows if isinstance(event, e.EventRedacted)}
    header = msgspec.structs.replace(created)
    for stored, event in rows:
        if stored.redacted:
            delta = _redacted_delta(stored, counted.get(stored.seq, {}))
        else:
            delta = delta_of(event, stored.turn)
        apply(header, delta, seq=stored.seq, at=stored.at, now=stored.at, touch=False)
        header.head_hash = stored.hash
    return header


def _redacted_delta(stored: StoredEvent, counted: dict[str, int]) -> Delta:
    """The sums that were kept beside the redaction, and what the kind alone says."""
    return Delta(
        messages=counted.get("messages", 0),
        input_tokens=counted.get("input_tokens", 0),
        output_tokens=counted.get("output_tokens", 0),
        pending=counted.get("pending", 0),
        pending_text=REDACTED if stored.kind == "InputAdmitted" else None,
        turn_over=stored.kind == "TurnEnded",
        boundary=stored.kind in {"Compacted", "CompactionUndone", "HistoryCleared", "Rewound", "RewindUndone"},
    )


def header_differences(stored: Header, recounted: Header, *, redacted: bool = False) -> list[str]:
    """The fields in which a stored header is not what its log says. With `redacted`, those that a redacted event may
    have set are passed over: nobody can know them any more."""
    unknown = NOT_IN_THE_LOG | (LOST_BY_REDACTION if redacted else frozenset[str]())
    return [
        name
        for name in Header.__struct_fields__
        if name not in unknown and getattr(stored, name) != getattr(recounted, name)
    ]
