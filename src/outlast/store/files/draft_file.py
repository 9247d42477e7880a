"""The draft of the open attempt: chunks in `<session>.draft.jsonl`, appended and synced.

A chunk remembers the last event there was when it came. The event that closes an attempt thereby ends every chunk
before it, in the same write; the file itself is removed afterwards, and nobody minds if that is never done.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from outlast.store.files import disk
from outlast.store.files.line import encode, intact
from outlast.store.files.paths import SessionPaths
from outlast.store.port import Chunk


class ChunkLine(Struct):
    attempt: int
    n: int
    after: int
    part: str
    data: bytes


_line = msgspec.json.Decoder(ChunkLine)


def chunk_line(chunk: Chunk, after: int) -> bytes:
    return encode(ChunkLine(chunk.attempt_seq, chunk.n, after, chunk.part, chunk.data))


class DraftFile:
    """The chunks that count, and how long the file is as far as it is good."""

    def __init__(self, chunks: list[Chunk], size: int) -> None:
        self.chunks = chunks
        self.size = size

    @classmethod
    def load(cls, place: SessionPaths, closed: int) -> DraftFile:
        chunks: list[Chunk] = []
        size = 0
        for text in (disk.read(place.draft) or b"").split(b"\n")[:-1]:
            line = _decoded(text)
            if line is None:
                break
            size += len(text) + 1
            if line.after >= closed:
                cls._put(chunks, Chunk(attempt_seq=line.attempt, n=line.n, part=line.part, data=line.data))
        return cls(chunks, size)

    def with_chunks(self, more: list[Chunk], size: int) -> DraftFile:
        chunks = list(self.chunks)
        for chunk in more:
            self._put(chunks, chunk)
        return DraftFile(chunks, size)

    @staticmethod
    def _put(chunks: list[Chunk], chunk: Chunk) -> None:
        if chunk.n == 1:
            chunks.clear()
        chunks.append(chunk)


def _decoded(text: bytes) -> ChunkLine | None:
    if not intact(text):
        return None
    try:
        return _line.decode(text)
    except msgspec.DecodeError:
        return None
