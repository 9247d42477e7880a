"""`outlast sessions archive ID`."""

import asyncio

from outlast.app.sessions.listing import open_for_change, resolve_session
from outlast.doors.cli.options import Json, Store
from outlast.doors.cli.output import print_json
from outlast.doors.cli.sessions.arguments import Session, verb

app = verb()


@app.command("archive")
def archive(session: Session, store: Store = None, json: Json = False) -> None:
    """Take a session out of sight; nothing is lost, and `unarchive` brings it back."""
    from outlast.runtime.service import SessionService

    with open_for_change(store) as opened:
        name = resolve_session(opened, session)
        asyncio.run(SessionService(opened, "cli").archive(name))
        state = opened.head(name).state
    if json:
        print_json({"session_id": name, "state": state})
    else:
        print(f"{name[:8]} is archived")
