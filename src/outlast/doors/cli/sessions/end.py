"""`outlast sessions end ID`: a running turn is stopped first."""

import asyncio
from typing import Annotated

import typer

from outlast.app.sessions.listing import open_for_change, refuse_ended, resolve_session
from outlast.doors.cli.options import Json, Store
from outlast.doors.cli.output import print_json
from outlast.doors.cli.sessions.arguments import Session, verb

app = verb()


@app.command("end")
def end(
    session: Session,
    reason: Annotated[str | None, typer.Option("--reason", help="Why, for the log.")] = None,
    store: Store = None,
    json: Json = False,
) -> None:
    """Stop a session; it takes no more input until it is reopened."""
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
        print(f"{name[:8]} has ended; `outlast sessions reopen {name[:8]}` takes it up again")
