"""`outlast sessions export` and `outlast sessions import`: move a session from one store to another.

JSON lines are lossless, and an import has the same hashes; for a damaged session they hold everything that is intact.
Markdown and HTML are for people, with secrets redacted. An import grants no permissions here.
"""

import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from outlast.core.errors import OutlastError
from outlast.doors.cli.options import Json, SessionId, Store
from outlast.doors.cli.output import Told, bar, counted, print_json
from outlast.doors.terminal_text import plain

app = typer.Typer()
IMPORTED = {"new": "imported", "continued": "continued", "here": "already existed"}


class ExportFormat(StrEnum):
    JSONL = "jsonl"
    MARKDOWN = "md"
    HTML = "html"


@app.command("export")
def export(
    session: SessionId,
    format: Annotated[
        ExportFormat, typer.Option("--format", help="One JSON line per event, or a document.")
    ] = ExportFormat.JSONL,
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="Else stdout.")] = None,
    redact: Annotated[
        bool, typer.Option("--redact/--no-redact", help="Remove known secrets from Markdown and HTML.")
    ] = True,
    store: Store = None,
) -> None:
    """Export a session, archived messages included. `sessions import` restores the JSON lines with the same hashes."""
    with bar("exporting", wanted=output is not None) as progress:
        if format is not ExportFormat.JSONL:
            _write(output, _document(session, format, redact, store, progress))
            return
        damaged = _lines(session, output, store)
    raise typer.Exit(1 if damaged else 0)


def _lines(session: str, output: Path | None, store: str | None) -> bool:
    """Write the lines; return whether something is damaged. Damage is reported and left out."""
    from outlast.app.maintenance import Finding, exported
    from outlast.app.sessions.session_list import refuse_no_store

    refuse_no_store(store)
    damaged = False

    def whole() -> Iterator[bytes]:
        nonlocal damaged
        for found in exported(store, session):
            if isinstance(found, Finding):
                damaged = True
                print(f"outlast: {plain(found.line())}", file=sys.stderr)
            else:
                yield found + b"\n"

    _write(output, whole())
    return damaged


def _document(
    session: str, format: ExportFormat, redact: bool, store: str | None, progress: Told | None
) -> Iterator[bytes]:
    from outlast.app.sessions.detail import detail
    from outlast.app.sessions.session_list import open_readonly, resolve_session
    from outlast.app.transfer.html import html
    from outlast.app.transfer.markdown import markdown

    with open_readonly(store) as opened:
        found = detail(opened, resolve_session(opened, session), include_archived=True)
    make = markdown if format is ExportFormat.MARKDOWN else html
    for piece in make(found, redact=redact, progress=progress):
        yield piece.encode("utf-8")


def _write(output: Path | None, pieces: Iterator[bytes]) -> None:
    first = next(pieces, None)  # a session that does not exist must not leave an empty file
    with _opened(output) as file:
        for piece in chain(() if first is None else (first,), pieces):
            file.write(piece)


@contextmanager
def _opened(output: Path | None) -> Generator[BinaryIO]:
    if output is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        with output.open("xb") as file:
            try:
                yield file
            except BaseException:
                output.unlink(missing_ok=True)  # a partial file would look complete
                raise
    except FileExistsError as error:
        raise OutlastError(f"{output} exists already; choose another file or remove it") from error
    except OSError as error:
        raise OutlastError(f"cannot write {output}: {error.strerror}; choose another place") from error


# ---- import ---------------------------------------------------------------------------------------------------------


@app.command("import")
def import_session(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of `sessions export --format jsonl`.")],
    store: Store = None,
    json: Json = False,
) -> None:
    """Import a session from a file, with the history it is based on. Its approvals have no effect here."""
    from outlast.app.transfer.import_session import import_file

    with bar("importing", wanted=not json) as progress:
        found = import_file(store, file, progress=progress)
    if json:
        print_json({"sessions": found})
        return
    for one in found:
        print(f"{one.session_id}  {IMPORTED[one.what]}: {counted(one.events, 'event')}, up to {one.last_seq}")
