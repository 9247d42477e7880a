"""Storage of a command's whole output in the facts of its `ToolCallFinished`, when the result shows only an excerpt.

The output is compressed piece by piece, so that it is never in memory uncompressed as a whole. `whole_output` returns
what is stored; `stored_facts` stores it; `find_output` finds it by the id of its call.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

from outlast.core.boundaries import BoundaryView
from outlast.core.events import ToolCallFinished
from outlast.core.messages import text_of
from outlast.runtime.tools.port import StoredOutput
from outlast.store.port import Store
from outlast.store.read.decode import decode_events, decode_without_blobs

FINISHED = frozenset({"ToolCallFinished"})
PAGE = 200
PIECE = 1024 * 1024
STORED_LIMIT = 24 * 1024 * 1024
"""Maximum compressed size of a stored output. The rest is only counted; the result's excerpt shows the end anyway."""
UNPACKED_LIMIT = 256 * 1024 * 1024
"""How many bytes of a stored output are unpacked into memory."""


def stored_facts(path: Path) -> dict[str, Any]:
    """Return the facts that store the output in this file, and delete the file."""
    packer = zlib.compressobj(level=1)
    packed = bytearray()
    size = 0
    try:
        with path.open("rb") as stream:
            while (piece := stream.read(PIECE)) and len(packed) < STORED_LIMIT:
                packed += packer.compress(piece)
                size += len(piece)
            total = path.stat().st_size
    except OSError as error:  # the command may have deleted its own log; the result still has the excerpt
        return {"whole_missing": str(error)}
    finally:
        path.unlink(missing_ok=True)
    packed += packer.flush()
    facts: dict[str, Any] = {"whole": bytes(packed), "whole_encoding": "zlib", "whole_bytes": size}
    return {**facts, "whole_cut_bytes": total - size} if total > size else facts


def whole_output(facts: dict[str, Any]) -> bytes | None:
    """Return the output stored in these facts, or None. It ends at `UNPACKED_LIMIT`: the facts of an imported session
    may unpack to any size."""
    whole = facts.get("whole")
    if not isinstance(whole, bytes):
        return None
    if facts.get("whole_encoding") != "zlib":
        return whole[:UNPACKED_LIMIT]
    return zlib.decompressobj().decompress(whole, UNPACKED_LIMIT)


def find_output(store: Store, session_id: str, view: BoundaryView, call_id: str) -> StoredOutput | None:
    """Return the output of the newest call with this id, also behind a compaction and in inherited history. Calls that
    a rewind or a clear took away are not found."""
    before: int | None = None
    while rows := store.read(session_id, before=before, limit=PAGE, kinds=FINISHED, newest_first=True):
        for stored, event in decode_without_blobs(rows):
            if isinstance(event, ToolCallFinished) and event.call_id == call_id and not view.archives(stored.seq):
                [(_, whole)] = decode_events(store, [stored])
                return _output_of(whole) if isinstance(whole, ToolCallFinished) else None
        before = rows[-1].seq
    return None


def _output_of(event: ToolCallFinished) -> StoredOutput:
    whole = event.facts.get("whole")
    if not isinstance(whole, bytes):
        return StoredOutput(data=text_of(event.parts).encode("utf-8", "replace"))
    cut_bytes = event.facts.get("whole_cut_bytes", 0)
    return StoredOutput(data=whole, packed=event.facts.get("whole_encoding") == "zlib", cut_bytes=cut_bytes)
