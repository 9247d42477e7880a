"""`outlast sessions end | reopen | rename | archive | unarchive | delete ID`.

`end` stops a running turn first. `delete` asks for confirmation, erases everything and leaves a receipt; no other
command and no timer ever deletes a session.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from outlast.app.sessions.session_list import open_for_change, refuse_ended, resolve_session
from outlast.core.errors import ConflictError
from outlast.doors.cli.options import Json, SessionId, Store
from outlast.doors.cli.output import counted, moment, print_json
from outlast.doors.terminal_text import plain

if TYPE_CHECKING:
    from outlast.app.sessions.delete import DeletionReceipt

app = typer.Typer()

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


@app.command("end")
def end(
    session: SessionId,
    reason: Annotated[str | None, typer.Option("--reason", help="Reason, for the log.")] = None,
    store: Store = None,
    json: Json = False,
) -> None:
    """End a session; it accepts no more input until it is reopened."""
    import asyncio

    from outlast.app.sessions.boundaries import context_without_model
    from outlast.runtime.service import SessionService

    with open_for_change(store) as opened:
        name = resolve_session(opened, session)
        header = opened.head(name)
        refuse_ended(header)
        asyncio.run(SessionService(opened, "cli").end(name, context_without_model(store, opened, header), reason))
    if json:
        print_json({"session_id": name, "state": "ended"})
    else:
        print(f"{name[:8]} has ended; `outlast sessions reopen {name[:8]}` reopens it")


@app.command("reopen")
def reopen(session: SessionId, store: Store = None, json: Json = False) -> None:
    """Reopen an ended session."""
    _change_state("reopen", session, store, json=json, told="is open again")


@app.command("rename")
def rename(
    session: SessionId,
    title: Annotated[str, typer.Argument(help="The new title; later messages do not change it.")],
    store: Store = None,
    json: Json = False,
) -> None:
    """Rename a session."""
    from outlast.runtime.service import SessionService

    with open_for_change(store) as opened:
        name = resolve_session(opened, session)
        seq = SessionService(opened, "cli").update(name, title=title)
    if json:
        print_json({"session_id": name, "seq": seq, "title": title})
    else:
        print(f"{name[:8]}  {plain(title)}")


@app.command("archive")
def archive(session: SessionId, store: Store = None, json: Json = False) -> None:
    """Hide a session from lists; nothing is lost, and `unarchive` undoes it."""
    _change_state("archive", session, store, json=json, told="is archived")


@app.command("unarchive")
def unarchive(session: SessionId, store: Store = None, json: Json = False) -> None:
    """Show an archived session in lists again."""
    _change_state("unarchive", session, store, json=json, told="is back")


def _change_state(
    verb: Literal["reopen", "archive", "unarchive"], session: str, store: str | None, *, json: bool, told: str
) -> None:
    import asyncio

    from outlast.runtime.service import SessionService

    with open_for_change(store) as opened:
        name = resolve_session(opened, session)
        service = SessionService(opened, "cli")
        change = {"reopen": service.reopen, "archive": service.archive, "unarchive": service.unarchive}[verb]
        asyncio.run(change(name))
        state = opened.head(name).state
    if json:
        print_json({"session_id": name, "state": state})
    else:
        print(f"{name[:8]} {told}")


# ---- delete ---------------------------------------------------------------------------------------------------------


@app.command("delete")
def delete(
    session: SessionId,
    yes: Yes = False,
    with_forks: Annotated[bool, typer.Option("--with-forks", help="Also delete its forks.")] = False,
    store: Store = None,
    json: Json = False,
) -> None:
    """Delete a session permanently: events, drafts, blobs and its search index entries. `archive` only hides it."""
    from outlast.app.sessions.delete import delete as erase
    from outlast.app.sessions.delete import forks_of

    with open_for_change(store) as opened:
        name = resolve_session(opened, session)
        header = opened.head(name)
        if not yes:
            forks = len(forks_of(opened, name))
            stay = f" {counted(forks, 'fork')} will keep what they share with it." if forks and not with_forks else ""
            _ask(f"Delete {name} '{plain(header.title or '')}', {counted(header.message_count, 'message')}?{stay}")
        receipts = erase(store, opened, name, door="cli", with_forks=with_forks)
    if json:
        print_json({"deleted": receipts})
        return
    for receipt in receipts:
        _print_receipt(receipt)


def _ask(question: str) -> None:
    """Return only if the user says yes, in a terminal or through a pipe."""
    if sys.stdin.isatty():
        sys.stderr.write(f"{question} This cannot be undone. [y/N] ")
        sys.stderr.flush()
    said = sys.stdin.readline()
    if not said:
        raise ConflictError("deleting needs confirmation, and there is no terminal to ask in; add --yes to confirm")
    if said.strip().lower() not in ("y", "yes"):
        raise ConflictError("nothing was deleted")


def _print_receipt(receipt: DeletionReceipt) -> None:
    print(f"deleted {receipt.session_id} at {moment(receipt.deleted_at)} by {plain(receipt.deleted_by)}")
    print(f"  {counted(receipt.last_seq, 'event')}, head {receipt.head_hash}")
    if receipt.kept_for_forks:
        print(f"  {counted(receipt.kept_for_forks, 'fork')} kept what they share with it")
