"""The whole output of a command as it is kept beside its result: compressed piece by piece, so that it never lies in
memory as a whole."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

PIECE = 1024 * 1024
MOST = 24 * 1024 * 1024
"""Compressed bytes that are kept; what is beyond is counted, and the result's excerpt shows its end anyway."""


def kept(path: Path) -> dict[str, Any]:
    """What a result's facts say of the output in this file, which is gone afterwards."""
    packer = zlib.compressobj(level=1)
    packed = bytearray()
    size = 0
    try:
        with path.open("rb") as stream:
            while (piece := stream.read(PIECE)) and len(packed) < MOST:
                packed += packer.compress(piece)
                size += len(piece)
            total = path.stat().st_size
    except OSError as error:  # the command may have deleted its own log; the excerpt is still there
        return {"whole_missing": str(error)}
    finally:
        path.unlink(missing_ok=True)
    packed += packer.flush()
    facts: dict[str, Any] = {"whole": bytes(packed), "whole_encoding": "zlib", "whole_bytes": size}
    return {**facts, "whole_cut_bytes": total - size} if total > size else facts


def unpacked(facts: dict[str, Any]) -> bytes | None:
    """The output that these facts keep; None when they keep none."""
    whole = facts.get("whole")
    if not isinstance(whole, bytes):
        return None
    return zlib.decompress(whole) if facts.get("whole_encoding") == "zlib" else whole
