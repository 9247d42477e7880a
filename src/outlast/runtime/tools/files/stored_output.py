"""Reads the whole output of an earlier call, which the log keeps, without unpacking it into memory at once."""

from __future__ import annotations

import io
import zlib
from typing import TYPE_CHECKING

from outlast.runtime.tools.files.text_lines import page_of, whole_lines
from outlast.runtime.tools.port import StoredOutput, ToolFault, ToolOutcome

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

PIECE = 64 * 1024
"""How many packed bytes are unpacked at a time."""


class UnpackedStream(io.RawIOBase):
    """Unpacks zlib data while it is read; data that is damaged or ends early raises `zlib.error`."""

    def __init__(self, packed: bytes) -> None:
        self._unpacker = zlib.decompressobj()
        self._packed = packed
        self._at = 0
        self._piece = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        room = memoryview(buffer).cast("B")
        data = b""
        while not data and not self._unpacker.eof:
            if not self._piece:
                self._piece = self._packed[self._at : self._at + PIECE]
                self._at += PIECE
                if not self._piece:
                    raise zlib.error("the stored output ends early")
            data = self._unpacker.decompress(self._piece, len(room))
            self._piece = self._unpacker.unconsumed_tail
        room[: len(data)] = data
        return len(data)


def output_page(asked: str, output: StoredOutput, offset: int | None, limit: int | None) -> ToolOutcome:
    """Return lines of a stored output, and how many lines it has."""
    stream = io.BufferedReader(UnpackedStream(output.data), PIECE) if output.packed else io.BytesIO(output.data)
    numbered = whole_lines(io.TextIOWrapper(stream, "utf-8", "replace", newline="\n"))
    try:
        page = page_of(numbered, offset, limit)
        total = max((number for number, _ in numbered), default=page.last + page.more)
    except zlib.error as error:
        raise ToolFault(f"{asked} cannot be read: {error}") from error
    facts = {"lines": len(page.lines), "more": page.more, "total_lines": total}
    if not page.lines and total:
        raise ToolFault(f"{asked} has only {total} lines; offset {offset} is behind its end")
    notes = [f"[... {total} lines in all; read on with offset {page.last + 1}]"] if page.more else []
    if output.cut_bytes and not page.more:
        notes.append(f"[... {output.cut_bytes} more bytes were not kept]")
    return ToolOutcome(text="\n".join([*page.lines, *notes]) or f"{asked} is empty.", facts=facts)
