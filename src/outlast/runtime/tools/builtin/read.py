"""read: shows a text file with line numbers, a folder, an image, a PDF, a notebook, or the stored output of a call.

What it shows never exceeds a fixed limit; the text then says how to read on.
"""

from __future__ import annotations

import asyncio
import io
import os
import stat
from typing import Annotated

from msgspec import Meta

from outlast.core.events import EffectClass
from outlast.core.messages import ImagePart
from outlast.runtime.permissions.call_paths import OUTPUT_REFERENCE
from outlast.runtime.tools.builtin_tool import BuiltinTool, ToolArguments
from outlast.runtime.tools.files.folder_scan import folder_listing
from outlast.runtime.tools.files.notebook import LARGEST as LARGEST_NOTEBOOK
from outlast.runtime.tools.files.notebook import notebook_text
from outlast.runtime.tools.files.pdf_text import AT_ONCE, pdf_text
from outlast.runtime.tools.files.sandboxed_path import ResolvedPath, locate, opened
from outlast.runtime.tools.files.stored_output import output_page
from outlast.runtime.tools.files.text_lines import LINES, SCANNED, cut_lines, page_of
from outlast.runtime.tools.port import ToolContext, ToolFault, ToolOutcome

IMAGE_LIMIT = 5 * 1024 * 1024
_IMAGES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


class ReadArguments(ToolArguments, frozen=True, kw_only=True):
    file_path: Annotated[
        str,
        Meta(
            description="A file or folder, relative to the project or absolute, or output:CALL_ID.",
            min_length=1,
        ),
    ]
    offset: Annotated[int, Meta(description="Number of the first line to read, from 1 on.", ge=1)] | None = None
    limit: Annotated[int, Meta(description=f"How many lines; {LINES} by default.", ge=1)] | None = None
    pages: Annotated[str, Meta(description=f"Pages of a PDF, such as 3 or 1-5; at most {AT_ONCE}.")] | None = None


async def read(arguments: ReadArguments, context: ToolContext) -> ToolOutcome:
    if arguments.file_path.startswith(OUTPUT_REFERENCE):
        return await _output(arguments, context)
    place = locate(arguments.file_path, context)
    if await asyncio.to_thread(_is_folder, place):
        _want_no(arguments, "a folder", "offset", "limit", "pages")
        return await folder_listing(place, context)
    if await asyncio.to_thread(_first_bytes, place, 5) == b"%PDF-":
        _want_no(arguments, "a PDF", "offset", "limit")
        return await pdf_text(place, arguments.pages, context)
    _want_no(arguments, "no PDF", "pages")
    return await asyncio.to_thread(_read_file, arguments, place)


def _want_no(arguments: ReadArguments, what: str, *names: str) -> None:
    given = [name for name in names if getattr(arguments, name) is not None]
    if given:
        raise ToolFault(f"{arguments.file_path} is {what}; {' and '.join(given)} cannot be used with it, leave it out")


async def _output(arguments: ReadArguments, context: ToolContext) -> ToolOutcome:
    _want_no(arguments, "an output", "pages")
    asked = arguments.file_path
    output = await context.stored_output(asked.removeprefix(OUTPUT_REFERENCE).strip())
    if output is None:
        raise ToolFault(f"there is no {asked}: no call with this id has a result in this session")
    return await asyncio.to_thread(output_page, asked, output, arguments.offset, arguments.limit)


def _is_folder(place: ResolvedPath) -> bool:
    try:
        return stat.S_ISDIR(place.path.stat(follow_symlinks=False).st_mode)
    except OSError:
        return False  # opening it says what is wrong


def _first_bytes(place: ResolvedPath, count: int) -> bytes:
    with opened(place) as file:
        return os.read(file, count)


def _read_file(arguments: ReadArguments, place: ResolvedPath) -> ToolOutcome:
    with opened(place) as file:
        size = os.fstat(file).st_size
        with os.fdopen(os.dup(file), "rb") as stream:
            start = stream.read(8192)
            if media_type := _image_type(start):
                return _image(place.asked, media_type, size, start + stream.read(IMAGE_LIMIT))
            if b"\0" in start:
                raise ToolFault(f"{place.asked} is not text ({size} bytes); inspect it with a command")
            stream.seek(0)
            if place.path.suffix == ".ipynb" and size <= LARGEST_NOTEBOOK:
                text = notebook_text(stream.read())
                if text is not None:
                    data = text.encode("utf-8", "replace")
                    return _text(arguments, io.BytesIO(data), len(data))
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
    return next((media_type for magic, media_type in _IMAGES.items() if start.startswith(magic)), None)


def _text(arguments: ReadArguments, stream: io.BufferedIOBase, size: int) -> ToolOutcome:
    if not size:
        return ToolOutcome(text=f"{arguments.file_path} is empty.", facts={"bytes": 0, "lines": 0})
    page = page_of(cut_lines(stream), arguments.offset, arguments.limit)
    facts = {"bytes": size, "lines": len(page.lines), "more": page.more}
    if page.more:
        note = f"[... the file goes on after line {page.last}; read on with offset {page.last + 1}]"
        return ToolOutcome(text="\n".join([*page.lines, note]), facts=facts)
    if not page.lines:
        raise ToolFault(
            f"{arguments.file_path} has only {page.last} lines; offset {arguments.offset} is behind its end"
        )
    if size > SCANNED:
        note = f"[... of {size} bytes only the first {SCANNED} are read; look at the rest with a command]"
        return ToolOutcome(text="\n".join([*page.lines, note]), facts=facts)
    return ToolOutcome(text="\n".join(page.lines), facts=facts)


READ = BuiltinTool(
    "read",
    f"Read a text file as numbered lines, {LINES} at a time; offset continues. Also lists a folder (two levels) and "
    "shows images, the text of PDF pages, and the cells and outputs of notebooks. output:CALL_ID reads the whole "
    "output of an earlier call whose result was cut.",
    ReadArguments,
    EffectClass.READ,
    read,
)
