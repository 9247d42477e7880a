"""edit: replaces a piece of text in a file. All other bytes of the file stay unchanged.

The exact text is looked for first. Only if it is not there, the one place whose lines differ in trailing spaces or
indentation alone is taken, and the result shows the changed lines.
"""

from __future__ import annotations

import threading
from typing import Annotated

import msgspec
from msgspec import Meta

from outlast.core.events import EffectClass
from outlast.runtime.tools.builtin.write import content_bytes
from outlast.runtime.tools.builtin_tool import BuiltinTool, ToolArguments
from outlast.runtime.tools.files.atomic_write import ABSENT, LARGEST, CurrentFile, digest_of, now, replace, settled
from outlast.runtime.tools.files.diff import difference
from outlast.runtime.tools.files.lenient_match import INDENTATION, TRAILING, LenientMatch, lenient_matches
from outlast.runtime.tools.files.sandboxed_path import ResolvedPath, locate
from outlast.runtime.tools.output_limit import cut
from outlast.runtime.tools.port import Target, ToolContext, ToolFault, ToolOutcome

LINES_SHOWN = 40
LINE_SHOWN = 300
"""How much of the changed lines is shown after a lenient match."""


class EditArguments(ToolArguments, frozen=True, kw_only=True):
    file_path: Annotated[str, Meta(description="The file, relative to the project or absolute.", min_length=1)]
    old_string: Annotated[str, Meta(description="The exact text to replace, with its white space.", min_length=1)]
    new_string: Annotated[str, Meta(description="The text to put in its place.")]
    replace_all: Annotated[bool, Meta(description="Replace every occurrence instead of the only one.")] = False


class EditedText(msgspec.Struct, frozen=True, kw_only=True):
    """The text after an edit. `note` is what the model must know if the match was not exact."""

    text: str
    times: int = 1
    note: str = ""


async def aim(arguments: EditArguments, context: ToolContext) -> Target:
    def look(_: threading.Event) -> Target:
        place, found, edit = _edited(arguments, context)
        return Target(
            path=place.recorded(context.project),
            digest_before=found.digest,
            digest_after=digest_of(_bytes(edit.text)),
            before=found.data,
        )

    return await settled(look)


async def edit(arguments: EditArguments, context: ToolContext) -> ToolOutcome:
    def put(given_up: threading.Event) -> ToolOutcome:
        place, found, edit = _edited(arguments, context)
        after = _bytes(edit.text)
        replace(place, after, context.expected or found.digest, context, given_up)
        facts = {
            **difference(place.recorded(context.project), found.data, after, created=False),
            "replaced": edit.times,
        }
        what = "one place" if edit.times == 1 else f"{edit.times} places"
        if edit.note:
            facts["lenient"] = True
        return ToolOutcome(text=f"Changed {what} in {arguments.file_path}{edit.note or '.'}", facts=facts)

    return await settled(put)


def _bytes(text: str) -> bytes:
    """Bytes that are not UTF-8 survive unchanged: decoding used the same error handler."""
    return text.encode("utf-8", "surrogateescape")


def _edited(arguments: EditArguments, context: ToolContext) -> tuple[ResolvedPath, CurrentFile, EditedText]:
    for name in ("old_string", "new_string"):
        content_bytes(getattr(arguments, name), name)
    if arguments.old_string == arguments.new_string:
        raise ToolFault("old_string and new_string are the same; there is nothing to change")
    place = locate(arguments.file_path, context)
    found = now(place)
    text = text_of(place, found, "edit")
    return place, found, edited(text, arguments, place.asked)


def text_of(place: ResolvedPath, found: CurrentFile, tool: str) -> str:
    """Return the text of a file that is to be changed. Raises ToolFault if there is none."""
    if found.digest == ABSENT:
        raise ToolFault(f"{place.asked} does not exist; look for it with glob, or create it with write")
    if found.data is None:
        raise ToolFault(f"{place.asked} is larger than {LARGEST} bytes; change it with a command")
    if b"\0" in found.data[:8192]:
        raise ToolFault(f"{place.asked} is not text; {tool} changes only text")
    return found.data.decode("utf-8", "surrogateescape")


def edited(text: str, arguments: EditArguments, asked: str) -> EditedText:
    """Return the text after the edit. Raises ToolFault if old_string is not there, or at several places."""
    old, new = arguments.old_string, arguments.new_string
    if _has_only_crlf(text) or ("\r\n" in text and old not in text):
        old, new = _with_crlf(old), _with_crlf(new)
    times = text.count(old)
    if times == 0:
        return _leniently_edited(text, arguments, asked)
    if times > 1 and not arguments.replace_all:
        lines = ", ".join(map(str, _lines_of(text, old)))
        raise ToolFault(
            f"old_string is {times} times in {asked} (lines {lines}); give more of its surroundings or set replace_all"
        )
    return EditedText(text=text.replace(old, new), times=times)


def _leniently_edited(text: str, arguments: EditArguments, asked: str) -> EditedText:
    """Replace the only lines that differ from old_string in trailing spaces or indentation alone."""
    old, new = (value.replace("\r\n", "\n") for value in (arguments.old_string, arguments.new_string))
    lines = text.split("\n")
    ends_line = old.endswith("\n")
    matches = lenient_matches(lines, old.removesuffix("\n").split("\n"))
    if len(matches) > 1:
        places = ", ".join(str(match.first + 1) for match in matches[:8])
        raise ToolFault(
            f"old_string is not in {asked} exactly, and {len(matches)} places differ only in white space (lines "
            f"{places}); copy the exact text with more of its surroundings"
        )
    match = matches[0] if matches else None
    if ends_line and new and not new.endswith("\n"):
        match = None  # the last line would be joined with the one after it, whose place is not known
    put = match.reindented(new.removesuffix("\n").split("\n")) if match is not None else None
    if match is None or put is None:
        raise ToolFault(_not_found(text, arguments.old_string, asked))
    if not new and ends_line:
        put = []
    ends = "\r" if lines[match.first].endswith("\r") else ""
    put = [line + ends for line in put]
    if new.endswith("\n") and not ends_line:
        put.append(ends)
    changed = "\n".join([*lines[: match.first], *put, *lines[match.first + match.count :]])
    if changed == text:
        raise ToolFault(f"{asked} has these lines already, with other white space; there is nothing to change")
    return EditedText(text=changed, note=_lenient_note(match, put))


def _lenient_note(match: LenientMatch, put: list[str]) -> str:
    what = TRAILING if match.ignored == TRAILING else f"{TRAILING} and {INDENTATION}"
    head = f"; old_string matched at line {match.first + 1} only because {what} were ignored. "
    if not put:
        return f"{head}The lines were removed."
    shown = [f"{n:6d}\t{cut(line.rstrip(), LINE_SHOWN)}" for n, line in enumerate(put[:LINES_SHOWN], match.first + 1)]
    more = [f"[... {len(put) - LINES_SHOWN} more lines]"] if len(put) > LINES_SHOWN else []
    return "\n".join([f"{head}The lines are now:", *shown, *more])


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
    "Replace an exact piece of text in a file. It must occur exactly once, unless replace_all is set. Leave out the "
    "line numbers that read shows.",
    EditArguments,
    EffectClass.VERIFIABLE,
    edit,
    aim,
)
