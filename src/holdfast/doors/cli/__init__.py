"""The command line: `holdfast`, one file a command.

A command lives in its own module with a `typer.Typer` called `app`: unnamed with one `@app.command("verify")`, or named
(`typer.Typer(name="sessions")`) for a group. It is listed in `commands` and imported only when it is asked for. A first
word that is no command is a prompt: `holdfast.doors.cli.prompt`.

Promise: a user's mistake is one line on stderr and the exit code of its error (1 failed, 2 wrong usage, 3 not found or
ambiguous, 4 conflict), never a traceback. Anything that is not a `HoldfastError` is our mistake and may look like one.
"""

import sys
from collections.abc import Sequence
from importlib import import_module

import typer

from holdfast._version import __version__
from holdfast.core.errors import HoldfastError
from holdfast.doors.cli.commands import COMMANDS

SETTING_UP = ("--install-completion", "--show-completion")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; the console script and `python -m holdfast` end here."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments == ["--version"]:
        print(f"holdfast {__version__}")
        return 0
    try:
        return _run(arguments)
    except HoldfastError as error:
        print(f"holdfast: {_one_line(str(error))}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever read our output has seen enough
        sys.stderr.close()
        return 141
    except OSError as error:  # what no layer below could put into better words
        place = f" ({error.filename})" if error.filename else ""
        remedy = "check that it exists, its permissions and the disk"
        print(f"holdfast: {_one_line(f'{error.strerror or error}{place}')}; {remedy}", file=sys.stderr)
        return 1


def _run(arguments: list[str]) -> int:
    from holdfast.doors.cli import prompt

    if prompt.completing() or any(word.split("=")[0] in SETTING_UP for word in arguments):
        prompt.whole(COMMANDS)(args=arguments, prog_name="holdfast")
    elif arguments and arguments[0] in COMMANDS:
        _only(arguments[0])(args=arguments, prog_name="holdfast")
    else:
        prompt.app(args=prompt.spelled_out(arguments), prog_name="holdfast")
    return 0


def _only(name: str) -> typer.Typer:
    """A command line that has this command and no other."""
    from holdfast.doors.cli.quick import QuickGroup

    alone = typer.Typer(cls=QuickGroup, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    alone.callback()(_callback)
    alone.add_typer(import_module(COMMANDS[name]).app)
    return alone


def _callback() -> None:
    """A coding agent whose sessions cannot be lost."""


def _one_line(text: str) -> str:
    """Error texts quote ids, paths and file contents; none of them may break the line or steer the terminal."""
    joined = " ".join(text.split())
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode("ascii") for c in joined
    )
