"""`outlast sessions reopen ID`."""

import asyncio

from outlast.app.sessions.listing import open_for_change, resolve_session
from outlast.doors.cli.options import Json, Store
from outlast.doors.cli.output import print_json
from outlast.doors.cli.sessions.arguments import Session, verb

app = verb()


@app.command("reopen")
def reopen(session: Session, store: Store = None, json: Json = False) -> None:
    """Take up a session that had ended."""
    from outlast.runtime.service import SessionService

    with open_for_change(store) as opened:
        name = resolve_session(opened, session)
        asyncio.run(SessionService(opened, "cli").reopen(name))
        state = opened.head(name).state
    if json:
        print_json({"session_id": name, "state": state})
    else:
        print(f"{name[:8]} is open again")
