"""edit: replaces an exact piece of text in a file. All other bytes of the file stay unchanged."""

from __future__ import annotations

import threading
from typing import Annotated

from msgspec import Meta

from outlast.core.events import EffectClass
from outlast.runtime.tools.builtin.write import content_bytes
from outlast.runtime.tools.builtin_tool import BuiltinTool, ToolArguments
from outlast.runtime.tools.files.atomic_write import ABSENT, LARGEST, CurrentFile, digest_of, now, replace, settled
from outlast.runtime.tools.files.diff import difference
from outlast.runtime.tools.files.sandboxed_path import ResolvedPath, locate
from outlast.runtime.tools.port import Target, ToolContext, ToolFault, ToolOutcome


class EditArguments(ToolArguments, frozen=True, kw_only=True):
    file_path: Annotated[str, Meta(description="The file, relative to the project or absolute.", min_length=1)]
    old_string: Annotated[str, Meta(description="The exact text to replace, white space included.", min_length=1)]
    new_string: Annotated[str, Meta(description="What to put in its place.")]
    replace_all: Annotated[bool, Meta(description="Replace every occurrence instead of the only one.")] = False


async def aim(arguments: EditArguments, context: ToolContext) -> Target:
    def look(_: threading.Event) -> Target:
        place, found, after, _times = _edited(arguments, context)
        return Target(
            path=place.recorded(context.project),
            digest_before=found.digest,
            digest_after=digest_of(after),
            before=found.data,
        )

    return await settled(look)


async def edit(arguments: EditArguments, context: ToolContext) -> ToolOutcome:
    def put(given_up: threading.Event) -> ToolOutcome:
        place, found, after, times = _edited(arguments, context)
        replace(place, after, context.expected or found.digest, context, given_up)
        facts = {**difference(place.recorded(context.project), found.data, after, created=False), "replaced": times}
        what = "one place" if times == 1 else f"{times} places"
        return ToolOutcome(text=f"Changed {what} in {arguments.file_path}.", facts=facts)

    return await settled(put)


def _edited(arguments: EditArguments, context: ToolContext) -> tuple[ResolvedPath, CurrentFile, bytes, int]:
    for name in ("old_string", "new_string"):
        content_bytes(getattr(arguments, name), name)
    if arguments.old_string == arguments.new_string:
        raise ToolFault("old_string and new_string are the same; there is nothing to change")
    place = locate(arguments.file_path, context)
    found = now(place)
    if found.digest == ABSENT:
        raise ToolFault(f"{place.asked} does not exist; write creates it, glob shows what there is")
    if found.data is None:
        raise ToolFault(f"{place.asked} is larger than {LARGEST} bytes; change it with a command")
    if b"\0" in found.data[:8192]:
        raise ToolFault(f"{place.asked} is not text; edit changes only text")
    # Bytes that are not UTF-8 survive unchanged: encoding uses the same error handler.
    text = found.data.decode("utf-8", "surrogateescape")
    changed, times = edited(text, arguments, place.asked)
    return place, found, changed.encode("utf-8", "surrogateescape"), times


def edited(text: str, arguments: EditArguments, asked: str) -> tuple[str, int]:
    """Return the text after the edit and the number of replacements. Raises ToolFault if it does not match exactly."""
    old, new = arguments.old_string, arguments.new_string
    if _has_only_crlf(text) or ("\r\n" in text and old not in text):
        old, new = _with_crlf(old), _with_crlf(new)
    times = text.count(old)
    if times == 0:
        raise ToolFault(_not_found(text, arguments.old_string, asked))
    if times > 1 and not arguments.replace_all:
        lines = ", ".join(map(str, _lines_of(text, old)))
        raise ToolFault(
            f"old_string is {times} times in {asked} (lines {lines}); give more of its surroundings or set replace_all"
        )
    return text.replace(old, new), times


def _has_only_crlf(text: str) -> bool:
    return "\n" in text and text.count("\r\n") == text.count("\n")


def _with_crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _lines_of(text: str, old: str, most: int = 8) -> list[int]:
    found: list[int] = []
    at = text.find(old)
    while at >= 0 and len(found) < most:
        found.append(text.count("\n", 0, at) + 1)
        at = text.find(old, at + len(old))
    return found


def _not_found(text: str, old: str, asked: str) -> str:
    """Report a near match: the same words with other white space, or only the first line."""
    words = old.split()
    if words and " ".join(words) in " ".join(text.split()):
        return f"old_string is not in {asked} as it is: only with other white space; read it and copy it exactly"
    first = next((line.strip() for line in old.splitlines() if line.strip()), "")
    if first and (lines := [n for n, line in enumerate(text.splitlines(), 1) if first in line]):
        return f"old_string is not in {asked}; its first line is (line {lines[0]}), but then it differs: read it again"
    return f"old_string is not in {asked}; read the file and copy the text exactly"


EDIT = BuiltinTool(
    "edit",
    "Replace an exact piece of text in a file. It must occur exactly once unless replace_all is set.",
    EditArguments,
    EffectClass.VERIFIABLE,
    edit,
    aim,
)
