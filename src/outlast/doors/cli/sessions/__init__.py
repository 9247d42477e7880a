"""`outlast sessions ...`: one file per subject, imported only when one of its commands is called."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import typer

from outlast.doors.cli.quick import QuickGroup

VERBS: Mapping[str, str] = {
    "list": "List the sessions of this project, newest activity first.",
    "show": "Show one session with its messages.",
    "resume": "Continue a session.",
    "search": "Search all sessions.",
    "rename": "Rename a session.",
    "end": "End a session; it accepts no more input.",
    "reopen": "Reopen an ended session.",
    "archive": "Hide a session from lists; nothing is lost.",
    "unarchive": "Show an archived session in lists again.",
    "fork": "Start a new session from a point of another one.",
    "rewind": "Set aside what came after a message.",
    "compact": "Replace older messages by a summary.",
    "export": "Export a session: JSON lines, Markdown or HTML.",
    "import": "Import a session from a file.",
    "stats": "Show sessions, turns, tokens and cost.",
    "delete": "Delete a session permanently.",
}
"""The subcommands of `outlast sessions`, with their short help."""

_SUBJECTS: Mapping[str, tuple[str, ...]] = {
    "list_show": ("list", "show"),
    "lifecycle": ("end", "reopen", "rename", "archive", "unarchive", "delete"),
    "history": ("fork", "rewind", "compact", "resume"),
    "transfer": ("export", "import"),
    "search_stats": ("search", "stats"),
}
"""The modules of this package, each with a Typer named `app`, and their commands."""

_MODULES = {verb: subject for subject, verbs in _SUBJECTS.items() for verb in verbs}


class Verbs(QuickGroup):
    """Imports a command when it is called, and builds only that command of its module."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in VERBS:
            return None
        subject: typer.Typer = import_module(f"{__name__}.{_MODULES[cmd_name]}").app
        found = next(one for one in subject.registered_commands if one.name == cmd_name)
        command = typer.main.get_command_from_info(found, pretty_exceptions_short=True, rich_markup_mode=None)
        command.short_help = VERBS[cmd_name]
        return command


app = typer.Typer(name="sessions", cls=Verbs, help="List, show, search, export, change and delete sessions.")


@app.callback()
def sessions() -> None:
    """List, show, search, export, change and delete sessions."""
