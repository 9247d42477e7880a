"""read: returns a text file with line numbers, or an image, never more than a fixed limit."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta

from outlast.core.events import EffectClass
from outlast.core.messages import ImagePart
from outlast.runtime.tools.builtin_tool import BuiltinTool, ToolArguments
from outlast.runtime.tools.files.sandboxed_path import locate, opened
from outlast.runtime.tools.output_limit import cut
from outlast.runtime.tools.port import ToolContext, ToolFault, ToolOutcome

LINES = 2000
LINE_LIMIT = 2000
TEXT_LIMIT = 60_000
IMAGE_LIMIT = 5 * 1024 * 1024
SCANNED = 64 * 1024 * 1024
"""How many bytes of a file are read to count lines."""


class ReadArguments(ToolArguments, frozen=True, kw_only=True):
    file_path: Annotated[str, Meta(description="The file, relative to the project or absolute.", min_length=1)]
    offset: Annotated[int, Meta(description="The first line to read, counted from 1.", ge=1)] | None = None
    limit: Annotated[int, Meta(description=f"How many lines; {LINES} unless told.", ge=1)] | None = None


async def read(arguments: ReadArguments, context: ToolContext) -> ToolOutcome:
    return await asyncio.to_thread(_read, arguments, context)


def _read(arguments: ReadArguments, context: ToolContext) -> ToolOutcome:
    with opened(locate(arguments.file_path, context)) as file:
        size = os.fstat(file).st_size
        with os.fdopen(os.dup(file), "rb") as stream:
            start = stream.read(8192)
            if media_type := _image_type(start):
                return _image(arguments.file_path, media_type, size, start + stream.read(IMAGE_LIMIT))
            if b"\0" in start:
                raise ToolFault(
                    f"{arguments.file_path} is not text ({size} bytes); look at it with a command, if at all"
                )
            stream.seek(0)
            return _text(arguments, stream, size)


def _image(asked: str, media_type: str, size: int, data: bytes) -> ToolOutcome:
    if size > IMAGE_LIMIT:
        raise ToolFault(f"{asked} is an image of {size} bytes; at most {IMAGE_LIMIT} can be looked at, make it smaller")
    return ToolOutcome(
        text=f"{asked}: {media_type}, {len(data)} bytes.",
        attachments=(ImagePart(media_type=media_type, data=data, alt=asked),),
        facts={"media_type": media_type, "bytes": len(data)},
    )


def _image_type(start: bytes) -> str | None:
    if start.startswith(b"RIFF") and start[8:12] == b"WEBP":
        return "image/webp"
    known = {
        b"\x89PNG\r\n\x1a\n": "image/png",
        b"\xff\xd8\xff": "image/jpeg",
        b"GIF87a": "image/gif",
        b"GIF89a": "image/gif",
    }
    return next((media_type for magic, media_type in known.items() if start.startswith(magic)), None)


def _text(arguments: ReadArguments, stream: io.BufferedReader, size: int) -> ToolOutcome:
    first, most = arguments.offset or 1, arguments.limit or LINES
    shown: list[str] = []
    used = number = 0
    for number, line in _lines(stream):
        if number < first:
            continue
        if len(shown) >= most or used > TEXT_LIMIT:
            number -= 1
            break
        shown.append(f"{number:6d}\t{line}")
        used += len(shown[-1]) + 1
    else:
        return _whole(arguments, shown, number, size)
    shown.append(f"[... the file goes on after line {number}; read on with offset {number + 1}]")
    return ToolOutcome(text="\n".join(shown), facts={"bytes": size, "lines": len(shown) - 1, "more": True})


def _whole(arguments: ReadArguments, shown: list[str], last: int, size: int) -> ToolOutcome:
    if not size:
        return ToolOutcome(text=f"{arguments.file_path} is empty.", facts={"bytes": 0, "lines": 0})
    if not shown:
        raise ToolFault(f"{arguments.file_path} has only {last} lines; offset {arguments.offset} is behind its end")
    if size > SCANNED:
        shown.append(f"[... of {size} bytes only the first {SCANNED} are read; look at the rest with a command]")
    return ToolOutcome(text="\n".join(shown), facts={"bytes": size, "lines": len(shown), "more": False})


def _lines(stream: io.BufferedReader) -> Iterator[tuple[int, str]]:
    """Yield numbered lines, each cut. Only the beginning of a very long line is held in memory."""
    number = scanned = 0
    while scanned < SCANNED and (line := stream.readline(LINE_LIMIT * 4)):
        number += 1
        length = len(line)
        while not line.endswith(b"\n") and length < SCANNED and (more := stream.readline(1 << 16)):
            length += len(more)
            if more.endswith(b"\n"):
                break
        scanned += length
        text = cut(line.rstrip(b"\r\n").decode("utf-8", "replace"), LINE_LIMIT)
        yield number, text if length <= len(line) else f"{text[:LINE_LIMIT]}[... a line of {length} bytes]"


READ = BuiltinTool(
    "read",
    f"Read a text file with line numbers ({LINES} lines at a time; go on with offset), or look at an image.",
    ReadArguments,
    EffectClass.READ,
    read,
)
