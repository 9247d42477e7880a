"""`holdfast sessions export ID`: a session as JSON lines, lossless; of a damaged one, everything that is whole."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from holdfast.app.integrity import Finding, exported
from holdfast.core.errors import HoldfastError
from holdfast.doors.cli.options import Store
from holdfast.doors.cli.printing import plain

app = typer.Typer()


class Format(StrEnum):
    JSONL = "jsonl"


@app.command("export")
def export(
    session: Annotated[str, typer.Argument(metavar="ID", help="The session, or its first 6 or more characters.")],
    format: Annotated[Format, typer.Option("--format", help="One JSON line an event.")] = Format.JSONL,
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="Else stdout.")] = None,
    store: Store = None,
) -> None:
    """Write a session out. Damaged events are left out and named on stderr; then the exit code is 1."""
    damaged = False
    lines = exported(store, session)
    first = next(lines, None)  # a session that is not there must not leave an empty file
    with _opened(output) as file:
        for found in chain(() if first is None else (first,), lines):
            if isinstance(found, Finding):
                damaged = True
                print(f"holdfast: {plain(found.line())}", file=sys.stderr)
            else:
                file.write(found + b"\n")
    raise typer.Exit(1 if damaged else 0)


@contextmanager
def _opened(output: Path | None) -> Generator[BinaryIO]:
    if output is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        with output.open("xb") as file:
            yield file
    except FileExistsError as error:
        raise HoldfastError(f"{output} exists already; choose another file or remove it") from error
    except OSError as error:
        raise HoldfastError(f"cannot write {output}: {error.strerror}; choose another place") from error
