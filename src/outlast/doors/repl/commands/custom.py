"""Custom commands: Markdown files whose text the user sends by a name.

They are `commands/*.md` in the Outlast home, `.outlast/commands/*.md` in a project, and Claude Code's
`.claude/commands/**/*.md`; a file in a folder is `/folder:name`. The first of a name counts, in this order. A file is a
message and gives no right: a line with `!` and a command in backticks is sent as text and never run, and a project's
command attaches only files of the project. A link that leads out of the folder is not read. A file that cannot be read
is skipped and does not affect the others.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from outlast.doors.repl.commands.port import ReplCommand
from outlast.doors.repl.controller import Doing, ReplController
from outlast.doors.terminal_text import readable

LARGEST = 64 * 1024
MOST = 500
DEEPEST = 5
PLACE = "$ARGUMENTS"
YOURS, PROJECTS = "yours", "project"

_POSITION = re.compile(r"\$(\d)(?!\d)")
_HEAD_LINE = re.compile(r"(description|argument-hint):[ \t]*(.*)")


def custom_commands(project: Path, home: Path) -> dict[str, ReplCommand]:
    found: dict[str, ReplCommand] = {}
    places = (
        (home, "commands", YOURS),
        (project, ".outlast/commands", PROJECTS),
        (project, ".claude/commands", PROJECTS),
    )
    for root, place, whose in places:
        for name, path in _files(root / place, None if whose == YOURS else root):
            if name in found:
                continue
            try:
                head = _head(_text(path))
            except OSError:
                continue
            about = head.get("description") or "a command of your own"
            usage = head.get("argument-hint") or "[ARGUMENTS]"
            found[name] = ReplCommand(name, f"{about} ({whose})", _sent(path, whose), usage)
    return found


def _files(folder: Path, root: Path | None) -> Iterator[tuple[str, Path]]:
    """Yield name and path of each command file, sorted; at most `MOST` of them. A folder outside `root` is absent."""
    try:
        inside = folder.resolve(strict=True)
        if root is not None and not inside.is_relative_to(root.resolve()):
            return
    except (OSError, RuntimeError):  # absent, or a link in a circle
        return
    count = 0
    for place, below, names in os.walk(folder):
        depth = len(Path(place).relative_to(folder).parts)
        below[:] = sorted(below) if depth < DEEPEST else []
        for file in sorted(name for name in names if name.endswith(".md")):
            path = Path(place) / file
            if count < MOST and _is_inside(path, inside):
                count += 1
                yield ":".join(path.relative_to(folder).with_suffix("").parts).replace(" ", "-"), path


def _is_inside(path: Path, folder: Path) -> bool:
    try:
        return path.is_file() and path.resolve().is_relative_to(folder)
    except (OSError, RuntimeError):  # a link in a circle
        return False


def _sent(path: Path, whose: str) -> Doing:
    async def send(controller: ReplController, arguments: str) -> None:
        controller.next_input = message_of(_text(path), arguments)
        controller.next_is_foreign = whose == PROJECTS

    return send


def message_of(text: str, arguments: str) -> str:
    """Return the message: `$ARGUMENTS`, and `$1` to `$9` as single words, are replaced; else the arguments follow."""
    body = _without_head(text).strip()
    words = _words(arguments)
    has_places = PLACE in body or any(place[1] != "0" for place in _POSITION.finditer(body))
    if not has_places:
        return f"{body}\n\n{arguments}" if arguments else body

    def filled(place: re.Match[str]) -> str:
        number = int(place[1])
        return place[0] if number == 0 else words[number - 1] if number <= len(words) else ""

    return arguments.join(_POSITION.sub(filled, piece) for piece in body.split(PLACE))


def _words(arguments: str) -> list[str]:
    """Return the arguments as a shell would split them; an unpaired quote is an ordinary character."""
    try:
        return shlex.split(arguments)
    except ValueError:
        return arguments.split()


def _text(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(LARGEST).decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n")


def _head(text: str) -> dict[str, str]:
    """Return description and argument hint of the front matter, each on one line; other keys are ignored."""
    found: dict[str, str] = {}
    if not text.startswith("---\n"):
        return found
    for line in text.split("\n")[1:]:
        if line.strip() == "---":
            return found
        pair = _HEAD_LINE.fullmatch(line)
        if pair is not None:
            found[pair[1]] = readable(pair[2].strip().strip("\"'"))[:80]
    return {}


def _without_head(text: str) -> str:
    if not text.startswith("---\n"):
        return text
    _, found, body = text[4:].partition("\n---\n")
    return body if found else text
