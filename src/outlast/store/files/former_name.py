"""Files stores that were written when the project was called Holdfast.

They name it in two places: in the file that says whose directory it is, and at the beginning of every segment. The
first is replaced when the store is opened for writing. The second stays as it is, for segments are never rewritten.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

NAME = "holdfast-store.json"
PARTIAL = ".holdfast-"
"""How the names of files begin that a crash in the middle of a first opening may have left."""
_HEAD = b'{"holdfast":'


class _Format(Struct):
    """What stands in that file."""

    holdfast: str
    format: int
    min_reader: int


def marker(data: bytes) -> tuple[str, int, int]:
    """The fields of `opening.Format`."""
    found = msgspec.json.decode(data, type=_Format)
    return found.holdfast, found.format, found.min_reader


def head(text: bytes) -> bytes:
    """A segment's first line as it would be written today; its checksum is of what was written then."""
    return b'{"outlast":' + text[len(_HEAD) :] if text.startswith(_HEAD) else text
