"""`outlast sessions compact ID`: a summary takes the place of older messages; the originals stay readable."""

from typing import Annotated

import typer

from outlast.app.sessions.boundaries import draw_boundary
from outlast.app.sessions.listing import open_for_change, refuse_ended, resolve_session
from outlast.doors.cli.options import Json, Store
from outlast.doors.cli.output import print_json
from outlast.doors.cli.sessions.arguments import Model, Session, verb

app = verb()


@app.command("compact")
def compact(
    session: Session,
    instructions: Annotated[
        str | None, typer.Option("--instructions", metavar="TEXT", help="What the summary must keep.")
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Take the newest compaction back.")] = False,
    model: Model = None,
    store: Store = None,
    json: Json = False,
) -> None:
    """Make the window smaller now. While a turn runs it is requested, and done between two steps."""
    with open_for_change(store) as opened:
        name = resolve_session(opened, session)
        refuse_ended(opened.head(name))
        what, given = ("uncompact", {}) if undo else ("compact", {"instructions": instructions})
        done = draw_boundary(store, opened, name, what, given, model=model)
    if json:
        print_json({"session_id": name, "result": done})
    else:
        told = "requested: whoever drives it does it between two steps" if done == "requested" else "done"
        print(f"{name[:8]} {what} {told}")
