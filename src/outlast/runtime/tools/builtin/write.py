"""write: writes a whole file, replacing it atomically."""

from __future__ import annotations

import threading
from typing import Annotated

from msgspec import Meta

from outlast.core.events import EffectClass
from outlast.runtime.tools.builtin_tool import BuiltinTool, ToolArguments
from outlast.runtime.tools.files.atomic_write import ABSENT, LARGEST, digest_of, now, replace, settled
from outlast.runtime.tools.files.diff import difference
from outlast.runtime.tools.files.sandboxed_path import locate
from outlast.runtime.tools.port import Target, ToolContext, ToolFault, ToolOutcome


class WriteArguments(ToolArguments, frozen=True, kw_only=True):
    file_path: Annotated[str, Meta(description="The file, relative to the project or absolute.", min_length=1)]
    content: Annotated[str, Meta(description="The whole new content.")]


def content_bytes(text: str, argument: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise ToolFault(f"argument '{argument}' holds half of a character at {error.start}; send it whole") from error
    if len(data) > LARGEST:
        raise ToolFault(f"argument '{argument}' is larger than {LARGEST} bytes; write it in parts with a command")
    return data


async def aim(arguments: WriteArguments, context: ToolContext) -> Target:
    data = content_bytes(arguments.content, "content")

    def look(_: threading.Event) -> Target:
        place = locate(arguments.file_path, context)
        found = now(place)
        return Target(
            path=place.recorded(context.project),
            digest_before=found.digest,
            digest_after=digest_of(data),
            before=found.data,
        )

    return await settled(look)


async def write(arguments: WriteArguments, context: ToolContext) -> ToolOutcome:
    data = content_bytes(arguments.content, "content")

    def put(given_up: threading.Event) -> ToolOutcome:
        place = locate(arguments.file_path, context)
        found = now(place)
        replace(place, data, context.expected or found.digest, context, given_up)
        facts = difference(place.recorded(context.project), found.data, data, created=found.digest == ABSENT)
        verb = "Created" if facts["created"] else "Replaced"
        return ToolOutcome(text=f"{verb} {arguments.file_path} ({len(data)} bytes).", facts=facts)

    return await settled(put)


WRITE = BuiltinTool(
    "write",
    "Write a whole file: creates it and its folders, or replaces what is there. To change a part of a file, use edit.",
    WriteArguments,
    EffectClass.VERIFIABLE,
    write,
    aim,
)
