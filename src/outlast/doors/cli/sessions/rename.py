"""`outlast sessions rename ID TITLE`."""

import asyncio
from typing import Annotated

import typer

from outlast.app.sessions.listing import open_for_change, resolve_session
from outlast.core.errors import InvalidInput
from outlast.doors.cli.options import Json, Store
from outlast.doors.cli.output import plain, print_json
from outlast.doors.cli.sessions.arguments import Session, verb

app = verb()


@app.command("rename")
def rename(
    session: Session,
    title: Annotated[str, typer.Argument(help="The new title; it stays, whatever is said first.")],
    store: Store = None,
    json: Json = False,
) -> None:
    """Give a session another title."""
    from outlast.runtime.service import SessionService

    if not title.strip():
        raise InvalidInput("a title must not be empty; say what the session is about")
    with open_for_change(store) as opened:
        name = resolve_session(opened, session)
        seq = asyncio.run(SessionService(opened, "cli").rename(name, title))
    if json:
        print_json({"session_id": name, "seq": seq, "title": title})
    else:
        print(f"{name[:8]}  {plain(title)}")
