"""Slash commands: one file per subject, and the table of all commands."""

from __future__ import annotations

from difflib import get_close_matches

from rich.console import Group, RenderableType

from outlast.doors.repl.commands.custom import custom_commands
from outlast.doors.repl.commands.history import HISTORY
from outlast.doors.repl.commands.inspect import REPORTS
from outlast.doors.repl.commands.model_and_permissions import RIGHTS
from outlast.doors.repl.commands.port import ReplCommand
from outlast.doors.repl.commands.session import SESSIONS
from outlast.doors.repl.commands.turn_control import TURNS
from outlast.doors.repl.controller import ReplController
from outlast.doors.repl.render.renderables import rows

BUILT_IN: dict[str, ReplCommand] = {
    command.name: command for command in (*SESSIONS, *HISTORY, *TURNS, *RIGHTS, *REPORTS)
}


def commands_of(controller: ReplController) -> dict[str, ReplCommand]:
    """All commands available in this session; built-in commands take precedence over command files."""
    agent = controller.repl_session.agent
    return {**custom_commands(agent.project_root, agent.settings.home), **BUILT_IN}


def unknown(name: str, known: dict[str, ReplCommand]) -> str:
    """Error sentence for an unknown command, with the nearest names."""
    near = [f"/{one}" for one in get_close_matches(name, list(known), 3, 0.5)]
    near = near or [f"/{one}" for one in known if one.startswith(name[:2])][:3]
    told = f"did you mean {' or '.join(near)}?" if near else "/help shows them all"
    return f"unknown command /{name}; {told}"


KEYS = (
    ("@file", "attaches a file or a picture; Ctrl-V the picture in the clipboard"),
    ("!command", "runs it yourself; the model sees what came out"),
    ("Alt-Enter", "begins a new line, as a \\ at the end does; Ctrl-X Ctrl-E opens your editor"),
    (
        "Shift-Tab",
        "changes the permission mode, last is plan mode; Tab completes; Ctrl-R searches what you typed before",
    ),
    ("Esc Esc", "goes back to before one of your messages; Ctrl-O shows all of the last tool call"),
    ("Ctrl-C", "stops the turn, twice leaves; Ctrl-D leaves; Ctrl-Z suspends"),
)


def help_page(known: dict[str, ReplCommand]) -> RenderableType:
    """The `/help` page: all commands and keys."""
    commands = [(f"/{name} {command.usage}".rstrip(), command.about) for name, command in sorted(known.items())]
    return Group(rows(commands, "cyan", ""), rows(KEYS, "cyan", "dim"))
