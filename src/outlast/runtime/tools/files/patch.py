"""Patches in the form that OpenAI's GPT models are trained to write: parsed into file sections, applied to texts.

    *** Begin Patch
    *** Update File: a.py           (or Add File, Delete File; after Update File perhaps: *** Move to: b.py)
    @@ def f():                     (optional: the hunk is below this line)
     context
    -removed
    +added
    *** End Patch

A hunk must match one place, or the first place below its `@@` line. Lines that are kept stay as they are in the file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from outlast.runtime.permissions.call_paths import PATCH_HEADER, patch_paths
from outlast.runtime.tools.files.lenient_match import LenientMatch, lenient_matches

BEGIN, END, END_OF_FILE = "*** Begin Patch", "*** End Patch", "*** End of File"
_NUMBERS = re.compile(r"-\d+(,\d+)? \+\d+(,\d+)? @@.*")


class MalformedPatch(ValueError):
    """The patch cannot be understood or does not fit the file. The message is for the model."""


class PatchHunk(msgspec.Struct, kw_only=True):
    """Lines with their operation (space, - or +). `headers` are lines above it; `at_end`: it ends with the file."""

    headers: list[str]
    lines: list[tuple[str, str]] = []
    at_end: bool = False

    @property
    def old(self) -> list[str]:
        return [text for operation, text in self.lines if operation != "+"]


class PatchSection(msgspec.Struct, kw_only=True):
    """What the patch does to one file. `kind` is Add File, Update File or Delete File."""

    kind: str
    path: str
    move_to: str | None = None
    content: list[str] = []
    hunks: list[PatchHunk] = []


def parsed_patch(patch: str) -> list[PatchSection]:
    """Return the sections of a patch. Raises MalformedPatch with the number of the line that is wrong."""
    lines = [line.removesuffix("\r") for line in patch.strip("\r\n\t ").split("\n")]
    if lines[0].strip() != BEGIN or lines[-1].strip() != END or len(lines) < 2:
        raise MalformedPatch(f"a patch begins with the line '{BEGIN}' and ends with the line '{END}'")
    sections: list[PatchSection] = []
    for number, line in enumerate(lines[1:-1], 2):
        try:
            _take(sections, line)
        except MalformedPatch as error:
            raise MalformedPatch(f"line {number} of the patch: {error}") from error
    if not sections:
        raise MalformedPatch("the patch names no file")
    named = {path for section in sections for path in (section.path, section.move_to) if path is not None}
    if named != set(patch_paths(patch)):
        raise MalformedPatch("the patch holds a file header that is not at the beginning of a section; correct it")
    for section in sections:
        _check(section)
    return sections


def _take(sections: list[PatchSection], line: str) -> None:
    header = PATCH_HEADER.fullmatch(line)
    current = sections[-1] if sections else None
    if header is not None and header[1] != "Move to":
        if not header[2]:
            raise MalformedPatch("the header names no file")
        sections.append(PatchSection(kind=header[1], path=header[2]))
    elif current is None:
        raise MalformedPatch("a line outside a section; begin with '*** Update File: PATH', Add File or Delete File")
    elif header is not None:
        if current.kind != "Update File" or current.hunks or current.move_to or not header[2]:
            raise MalformedPatch("'*** Move to: PATH' belongs right after '*** Update File: PATH'")
        current.move_to = header[2]
    elif current.kind == "Add File":
        if not line.startswith("+"):
            raise MalformedPatch("every line of a new file begins with +")
        current.content.append(line[1:])
    elif current.kind == "Delete File":
        if line.strip():
            raise MalformedPatch("nothing follows a Delete File header")
    else:
        _take_hunk_line(current.hunks, line)


def _take_hunk_line(hunks: list[PatchHunk], line: str) -> None:
    if line.startswith("@@"):
        header = line[2:].strip()
        headers = [] if not header or _NUMBERS.fullmatch(header) else [header]
        if hunks and not hunks[-1].lines and hunks[-1].headers:
            hunks[-1].headers += headers  # several @@ lines lead to one place: class, then method
        else:
            hunks.append(PatchHunk(headers=headers, lines=[]))
        return
    if not hunks:
        hunks.append(PatchHunk(headers=[], lines=[]))
    hunk = hunks[-1]
    if line.rstrip() == END_OF_FILE:
        hunk.at_end = True
    elif hunk.at_end:
        raise MalformedPatch(f"nothing of a hunk follows '{END_OF_FILE}'")
    elif line[:1] in ("+", "-", " "):
        hunk.lines.append((line[0], line[1:]))
    elif not line.strip():
        hunk.lines.append((" ", ""))
    else:
        raise MalformedPatch("every line of a hunk begins with a space, - or +")


def _check(section: PatchSection) -> None:
    if section.kind == "Update File" and not section.hunks and section.move_to is None:
        raise MalformedPatch(f"the section of {section.path} changes nothing; give a hunk")
    if any(not hunk.lines for hunk in section.hunks):
        raise MalformedPatch(f"a hunk of {section.path} has no lines")


# --- applying ------------------------------------------------------------------------------------------------------


class AppliedHunks(msgspec.Struct, frozen=True, kw_only=True):
    """A text after its hunks. `notes` say which hunks matched only leniently."""

    text: str
    notes: list[str]


def applied(text: str, section: PatchSection) -> AppliedHunks:
    """Return the text of a file after the hunks of its section. Raises MalformedPatch if one does not match."""
    lines = text.split("\n")
    tail = [lines.pop()] if lines[-1] == "" else []
    changes: list[tuple[int, int, list[str]]] = []
    notes: list[str] = []
    at = 0
    for number, hunk in enumerate(section.hunks, 1):
        try:
            first, count, put, note = _placed(lines, hunk, at)
        except MalformedPatch as error:
            raise MalformedPatch(f"{section.path}: hunk {number} {error}") from error
        changes.append((first, count, put))
        notes += [f"{section.path}: hunk {number} {note}"] if note else []
        at = first + count
    for first, count, put in reversed(changes):
        lines[first : first + count] = put
    return AppliedHunks(text="\n".join([*lines, *(tail or ([""] if not text else []))]), notes=notes)


def _placed(lines: Sequence[str], hunk: PatchHunk, at: int) -> tuple[int, int, list[str], str]:
    """Return where a hunk belongs: index and number of the lines it replaces, the new lines, and a note."""
    begin = at
    for header in hunk.headers:
        begin = _below(lines, header, begin)
    old = hunk.old
    if not old:
        first = begin if hunk.headers and not hunk.at_end else len(lines)
        return first, 0, _new_lines(lines, hunk, first, hunk.lines), ""
    match = _match(lines, hunk, old, begin)
    if match is None and hunk.lines[-1] == (" ", "") and any(old[:-1]):  # a blank line before the next section
        hunk = PatchHunk(headers=hunk.headers, lines=hunk.lines[:-1], at_end=hunk.at_end)
        match = _match(lines, hunk, hunk.old, begin)
    if match is None:
        raise MalformedPatch(_not_found(lines, old, begin))
    operations = hunk.lines
    if match.wanted_indent != match.found_indent:
        added = match.reindented([text for operation, text in hunk.lines if operation == "+"])
        if added is None:
            raise MalformedPatch(_not_found(lines, old, begin))
        new = iter(added)
        operations = [(operation, next(new) if operation == "+" else text) for operation, text in hunk.lines]
    note = f"matched at line {match.first + 1} only because {match.ignored} were ignored" if match.ignored else ""
    return match.first, match.count, _new_lines(lines, hunk, match.first, operations), note


def _below(lines: Sequence[str], header: str, at: int) -> int:
    """Return the index after the first line from `at` on that is this header, or else begins with it."""
    wanted = header.strip()
    for fits in (str.__eq__, str.startswith):
        for n in range(at, len(lines)):
            if fits(lines[n].strip(), wanted):
                return n + 1
    raise MalformedPatch(f"has the line '@@ {header[:80]}', which is not in the file after line {at}")


def _match(lines: Sequence[str], hunk: PatchHunk, old: list[str], begin: int) -> LenientMatch | None:
    last = len(lines) - len(old)
    starts = [last] if hunk.at_end and last >= begin else range(begin, last + 1)
    exact = [n for n in starts if all(lines[n + m].removesuffix("\r") == line for m, line in enumerate(old))]
    if len(exact) == 1 or (exact and hunk.headers):
        return LenientMatch(first=exact[0], count=len(old), ignored="")
    if exact:
        raise MalformedPatch(
            f"matches {len(exact)} places (lines {', '.join(str(n + 1) for n in exact[:8])}); "
            "give more context lines, or the line of its function or class after @@"
        )
    found = [one for one in lenient_matches(lines, old, begin) if not hunk.at_end or one.first == last]
    if len(found) > 1:
        raise MalformedPatch(
            f"does not match exactly, and {len(found)} places differ only in white space; copy the lines exactly"
        )
    return found[0] if found else None


def _not_found(lines: Sequence[str], old: list[str], begin: int) -> str:
    first = next((line for line in old if line.strip()), "")
    near = next((n for n, line in enumerate(lines, 1) if first and line.strip() == first.strip()), None)
    if near is None:
        return f"does not match: '{first.strip()[:80]}' is not in the file; read it and copy the lines exactly"
    if near <= begin:
        return f"does not match after line {begin}: its first line is line {near}; put the hunks in the file's order"
    return f"does not match: its first line is line {near}, but then it differs; read it and copy the lines exactly"


def _new_lines(lines: Sequence[str], hunk: PatchHunk, first: int, operations: Sequence[tuple[str, str]]) -> list[str]:
    """Return the lines that replace those from `first` on: kept lines as they are, added lines with the same ending."""
    neighbour = lines[first] if first < len(lines) else lines[-1] if lines else ""
    ends = "\r" if neighbour.endswith("\r") else ""
    result: list[str] = []
    at = first
    for operation, text in operations:
        if operation == "+":
            result.append(text + ends)
            continue
        if operation == " ":
            result.append(lines[at])
        at += 1
    return result
