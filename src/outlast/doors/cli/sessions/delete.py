"""`outlast sessions delete ID`: asks, erases everything, and leaves a receipt. Nothing else ever deletes a session."""

import sys
from typing import Annotated

import typer

from outlast.app.sessions.delete import DeletionReceipt, forks_of
from outlast.app.sessions.delete import delete as erase
from outlast.app.sessions.listing import open_for_change, resolve_session
from outlast.core.errors import ConflictError
from outlast.doors.cli.options import Json, Store
from outlast.doors.cli.output import counted, plain, print_json
from outlast.doors.cli.sessions.age import moment
from outlast.doors.cli.sessions.arguments import Session, Yes, verb

app = verb()


@app.command("delete")
def delete(
    session: Session,
    yes: Yes = False,
    with_forks: Annotated[bool, typer.Option("--with-forks", help="Also every session that stands on it.")] = False,
    store: Store = None,
    json: Json = False,
) -> None:
    """Erase a session for good: events, drafts, blobs, its words in the search index. `archive` only hides it."""
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
        _show(receipt)


def _ask(question: str) -> None:
    """Go on only if somebody says yes, in a terminal or through a pipe."""
    if sys.stdin.isatty():
        sys.stderr.write(f"{question} It cannot be undone. [y/N] ")
        sys.stderr.flush()
    said = sys.stdin.readline()
    if not said:
        raise ConflictError("deleting is for good, so it asks first, and nobody is here to answer; add --yes to go on")
    if said.strip().lower() not in ("y", "yes"):
        raise ConflictError("nothing was deleted")


def _show(receipt: DeletionReceipt) -> None:
    print(f"deleted {receipt.session_id} at {moment(receipt.deleted_at)} by {plain(receipt.deleted_by)}")
    print(f"  {counted(receipt.last_seq, 'event')}, head {receipt.head_hash}")
    if receipt.kept_for_forks:
        print(f"  {counted(receipt.kept_for_forks, 'fork')} kept what they share with it")
