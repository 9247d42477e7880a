"""Slash commands: one file a subject, one table of all of them."""

from __future__ import annotations

from difflib import get_close_matches

from holdfast.doors.repl.commands.custom import custom_commands
from holdfast.doors.repl.commands.history import HISTORY
from holdfast.doors.repl.commands.port import Command
from holdfast.doors.repl.commands.report import REPORTS
from holdfast.doors.repl.commands.rights import RIGHTS
from holdfast.doors.repl.commands.session import SESSIONS
from holdfast.doors.repl.commands.turn import TURNS
from holdfast.doors.repl.room import Room

BUILT_IN: dict[str, Command] = {command.name: command for command in (*SESSIONS, *HISTORY, *TURNS, *RIGHTS, *REPORTS)}


def commands_of(room: Room) -> dict[str, Command]:
    """All that can be typed after `/` here: the built-in ones win over files."""
    agent = room.desk.agent
    return {**custom_commands(agent.project_root, agent.settings.home), **BUILT_IN}


def unknown(name: str, known: dict[str, Command]) -> str:
    """One sentence with the nearest names."""
    near = [f"/{one}" for one in get_close_matches(name, list(known), 3, 0.5)]
    near = near or [f"/{one}" for one in known if one.startswith(name[:2])][:3]
    told = f"did you mean {' or '.join(near)}?" if near else "/help shows them all"
    return f"there is no command /{name}; {told}"
