"""Custom commands: `commands/*.md` in the Outlast home, `.outlast/commands/*.md` in a project.

A command file is a message that the user sends by its name. The arguments replace `$ARGUMENTS`, or are appended if the
text has no `$ARGUMENTS`. The user's commands take precedence over a project's. A link that leads out of the folder is
not read. A file that cannot be read is skipped and does not affect the others.
"""

from __future__ import annotations

from pathlib import Path

from outlast.doors.repl.commands.port import ReplCommand
from outlast.doors.repl.controller import Doing, ReplController

LARGEST = 64 * 1024
PLACE = "$ARGUMENTS"


def custom_commands(project: Path, home: Path) -> dict[str, ReplCommand]:
    found: dict[str, ReplCommand] = {}
    for folder, whose in ((project / ".outlast" / "commands", "project"), (home / "commands", "yours")):
        for path in _files(folder):
            try:
                about = _about(_text(path)) or "a command of your own"
            except OSError:
                continue
            found[path.stem] = ReplCommand(path.stem, f"{about} ({whose})", _sent(path), "[ARGUMENTS]")
    return found


def _files(folder: Path) -> list[Path]:
    try:
        inside = folder.resolve(strict=True)
        found = [path for path in sorted(folder.glob("*.md")) if path.is_file()]
        return [path for path in found if path.resolve().is_relative_to(inside)]
    except OSError:
        return []


def _sent(path: Path) -> Doing:
    async def send(controller: ReplController, arguments: str) -> None:
        controller.next_input = message_of(_text(path), arguments)

    return send


def message_of(text: str, arguments: str) -> str:
    body = _without_head(text).strip()
    if PLACE in body:
        return body.replace(PLACE, arguments)
    return f"{body}\n\n{arguments}" if arguments else body


def _text(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(LARGEST).decode("utf-8", "replace")


def _about(text: str) -> str:
    if not text.startswith("---\n"):
        return ""
    for line in text.split("\n")[1:]:
        if line.strip() == "---":
            return ""
        if line.startswith("description:"):
            return line.partition(":")[2].strip().strip("\"'")[:80]
    return ""


def _without_head(text: str) -> str:
    if not text.startswith("---\n"):
        return text
    _, found, body = text[4:].partition("\n---\n")
    return body if found else text
