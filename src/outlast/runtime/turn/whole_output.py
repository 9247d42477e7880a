"""Storage of a command's whole output in the facts of its `ToolCallFinished`, when the result shows only an excerpt.

The output is compressed piece by piece, so that it is never in memory uncompressed as a whole. `whole_output` returns
what is stored; `stored_facts` stores it.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

PIECE = 1024 * 1024
STORED_LIMIT = 24 * 1024 * 1024
"""Maximum compressed size of a stored output. The rest is only counted; the result's excerpt shows the end anyway."""


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
    """Return the output stored in these facts, or None."""
    whole = facts.get("whole")
    if not isinstance(whole, bytes):
        return None
    return zlib.decompress(whole) if facts.get("whole_encoding") == "zlib" else whole
