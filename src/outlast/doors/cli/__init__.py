"""The command line: `outlast`, one file per subject.

A module holds the commands of one subject in a `typer.Typer` called `app`: unnamed with an `@app.command("verify")` for
each, or named (`typer.Typer(name="sessions")`) for a group. `COMMANDS` lists every command with its module, which is
imported only when one of its commands is called. A first word that is not a command is a prompt:
`outlast.doors.cli.main_command`.

Promise: a user error is one line on stderr and the exit code of its error (1 failed, 2 wrong usage, 3 not found or
ambiguous, 4 conflict), never a traceback. Any exception that is not an `OutlastError` or an `OSError` is a bug and may
show a traceback.
"""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, TextIO

import typer

from outlast._version import __version__
from outlast.core.errors import OutlastError
from outlast.doors.cli.command_table import COMMANDS

ENOUGH = 141
SETTING_UP = ("--install-completion", "--show-completion")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; entry point of the console script and of `python -m outlast`."""
    _open_what_was_closed()
    return _flushed(_answered(list(sys.argv[1:] if argv is None else argv)))


def _open_what_was_closed() -> None:
    """Reopen standard streams that the parent process closed. Otherwise the next opened file, perhaps a store, would
    get the stream's number and receive the output of programs that are started here.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(nowhere, True)
            setattr(sys, name, os.fdopen(nowhere, mode, encoding="utf-8", errors="backslashreplace"))


def _answered(arguments: list[str]) -> int:
    if arguments == ["--version"]:
        print(f"outlast {__version__}")
        return 0
    try:
        return _run(arguments)
    except typer.TyperException as error:
        _tell(_misused(error))
        return error.exit_code
    except OutlastError as error:
        _tell(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of the output has closed it
        return ENOUGH
    except OSError as error:  # an error that no lower layer could describe better
        _tell(_failed(error))
        return 1


def _flushed(code: int) -> int:
    """Flush the output and return the exit code. A write error is reported here; at interpreter exit it would be a
    traceback.
    """
    failed = _let_go(sys.stdout)
    if failed is not None and not code:
        code = ENOUGH if isinstance(failed, BrokenPipeError) else 1
        if code != ENOUGH:
            _tell(f"the output could not be written completely: {failed.strerror}")
    _let_go(sys.stderr)
    return code


def _tell(sentence: str) -> None:
    """Print an error. Quoted ids, paths and contents must not break the line or control the terminal."""
    from outlast.doors.terminal_text import plain

    with suppress(OSError):  # the terminal is gone: no user reads it
        print(f"outlast: {plain(sentence)}", file=sys.stderr)


def _let_go(stream: TextIO) -> OSError | None:
    """Flush the stream; if that fails, discard what is left in its buffer and return the error."""
    try:
        stream.flush()
    except OSError as error:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        return error
    return None


def _run(arguments: list[str]) -> int:
    from outlast.doors.cli import main_command

    if arguments[:1] == ["help"] and all(word in COMMANDS for word in arguments[1:]):
        arguments = [*arguments[1:2], "--help"]
    if main_command.completing() or any(word.split("=")[0] in SETTING_UP for word in arguments):
        command = main_command.whole(COMMANDS)
    elif arguments and arguments[0] in COMMANDS:
        command = _only(arguments[0])
    else:
        command, arguments = main_command.app, main_command.spelled_out(arguments)
    code = command(args=arguments, prog_name="outlast", standalone_mode=False)
    return code if isinstance(code, int) else 0


def _misused(error: typer.TyperException) -> str:
    """Describe a wrong command line, with a pointer to the help if Typer wrote the message."""
    told = error.format_message().replace("Value error, ", "").rstrip(".")
    ours = told.removeprefix("Invalid value: ")
    if ours != told:
        return ours
    context: Any = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "outlast"
    return f"{told[:1].lower()}{told[1:]}; see `{path} --help`"


def _failed(error: OSError) -> str:
    """Describe an error of the operating system and what to do about it."""
    if isinstance(error, FileNotFoundError) and error.filename is None and not _is_somewhere():
        return "the current folder no longer exists; change to another one"
    place = f" ({error.filename})" if error.filename else ""
    return f"{error.strerror or error}{place}; check that it exists, its permissions and the disk"


def _is_somewhere() -> bool:
    try:
        os.getcwd()
    except OSError:
        return False
    return True


def _only(name: str) -> typer.Typer:
    """A command line with only the commands of this command's module."""
    from outlast.doors.cli.quick import QuickGroup

    alone = typer.Typer(cls=QuickGroup, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    alone.callback()(_callback)
    alone.add_typer(import_module(COMMANDS[name]).app)
    return alone


def _callback() -> None:
    """A coding agent whose sessions cannot be lost."""
