"""`outlast sessions ...`: one file per subject, imported only when one of its commands is called."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import typer

from outlast.doors.cli.quick import QuickGroup

VERBS: Mapping[str, str] = {
    "list": "Sessions of this project, newest activity first.",
    "show": "One session with its messages.",
    "resume": "Go on with a session.",
    "search": "Find words in all sessions.",
    "rename": "Give a session another title.",
    "end": "Stop a session; it takes no more input.",
    "reopen": "Take up a session that had ended.",
    "archive": "Take a session out of sight; nothing is lost.",
    "unarchive": "Bring an archived session back.",
    "fork": "Go on from a point of a session in a new one.",
    "rewind": "Set aside what came after a message.",
    "compact": "Put a summary in the place of older messages.",
    "export": "Write a session out: JSON lines, Markdown or HTML.",
    "import": "Take a session over from a file.",
    "stats": "Sessions, turns, tokens and cost.",
    "delete": "Erase a session for good.",
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


app = typer.Typer(name="sessions", cls=Verbs, help="What is stored: list, show, search, export, change, delete.")


@app.callback()
def sessions() -> None:
    """What is stored: list, show, search, export, change, delete."""
