"""The command line: `holdfast`, one file a command.

A command lives in its own module with a `typer.Typer` called `app`: unnamed with one `@app.command("verify")`, or named
(`typer.Typer(name="sessions")`) for a group. It is listed in `COMMANDS` and imported only when it is asked for.

Promise: a user's mistake is one line on stderr and the exit code of its error (1 failed, 2 wrong usage, 3 not found or
ambiguous, 4 conflict), never a traceback. Anything that is not a `HoldfastError` is our mistake and may look like one.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Annotated

import typer

from holdfast._version import __version__
from holdfast.core.errors import HoldfastError

COMMANDS: Mapping[str, str] = {
    "sessions": "holdfast.doors.cli.sessions",
    "verify": "holdfast.doors.cli.verify",
    "backup": "holdfast.doors.cli.backup",
    "doctor": "holdfast.doors.cli.doctor",
    "db": "holdfast.doors.cli.db",
    "bench": "holdfast.doors.cli.bench",
    "demo": "holdfast.doors.cli.demo",
}
"""What can be typed after `holdfast`, and the module that holds it."""

app = typer.Typer(
    name="holdfast",
    help="A coding agent whose sessions cannot be lost.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"holdfast {__version__}")
        raise typer.Exit


@app.callback()
def holdfast(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """A coding agent whose sessions cannot be lost."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; the console script and `python -m holdfast` end here."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        _register(_named_in(arguments))
        app(args=arguments, prog_name="holdfast")
    except HoldfastError as error:
        print(f"holdfast: {_one_line(str(error))}", file=sys.stderr)
        return error.exit_code
    except OSError as error:  # what no layer below could put into better words
        place = f" ({error.filename})" if error.filename else ""
        remedy = "check that it exists, its permissions and the disk"
        print(f"holdfast: {_one_line(f'{error.strerror or error}{place}')}; {remedy}", file=sys.stderr)
        return 1
    return 0


def _named_in(arguments: Sequence[str]) -> list[str]:
    """The commands a command line can mean: those it names, or all of them for help and for typing errors."""
    return [name for name in COMMANDS if name in arguments] or ([] if "--version" in arguments else list(COMMANDS))


_registered: set[str] = set()


def _register(names: Iterable[str]) -> None:
    for name in names:
        module = COMMANDS[name]
        if module not in _registered:
            app.add_typer(import_module(module).app)
            _registered.add(module)


def _one_line(text: str) -> str:
    """Error texts quote ids, paths and file contents; none of them may break the line or steer the terminal."""
    joined = " ".join(text.split())
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode("ascii") for c in joined
    )
