"""`outlast sessions fork ID [--at SEQ]`: a new session on the same past; one commit, whatever its length."""

from typing import Annotated

import typer

from outlast.app.sessions.boundaries import forked
from outlast.app.sessions.listing import open_for_change, resolve_session
from outlast.doors.cli.options import Json, Store
from outlast.doors.cli.output import print_json
from outlast.doors.cli.sessions.arguments import Session, verb

app = verb()


@app.command("fork")
def fork(
    session: Session,
    at: Annotated[int | None, typer.Option("--at", metavar="SEQ", help="The last event that both share.")] = None,
    title: Annotated[str | None, typer.Option("--title", help="The title of the fork.")] = None,
    store: Store = None,
    json: Json = False,
) -> None:
    """Go on from a point of a session (the newest, if none is given) in a new one; the old one stays as it is."""
    with open_for_change(store) as opened:
        name = resolve_session(opened, session)
        made = forked(opened, name, at=at, title=title)
        header = opened.head(made)
    if json:
        print_json({"session_id": made, "base_session_id": header.base_id, "base_seq": header.base_seq})
    else:
        print(f"{made}")
