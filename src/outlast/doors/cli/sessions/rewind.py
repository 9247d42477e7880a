"""`outlast sessions rewind ID --to SEQ [--files]`: sets aside what came later; removes nothing, and can be undone."""

from typing import Annotated

import typer

from outlast.app.sessions.boundaries import draw_boundary
from outlast.app.sessions.listing import open_for_change, refuse_ended, resolve_session
from outlast.doors.cli.options import Json, Store
from outlast.doors.cli.output import print_json
from outlast.doors.cli.sessions.arguments import Session, verb

app = verb()


@app.command("rewind")
def rewind(
    session: Session,
    to: Annotated[int | None, typer.Option("--to", metavar="SEQ", help="The message that stays the last one.")] = None,
    files: Annotated[bool, typer.Option("--files", help="Bring files back too, as they were then.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Take the newest rewind back.")] = False,
    store: Store = None,
    json: Json = False,
) -> None:
    """Set aside everything after a message, in the session and with --files in its folder."""
    if (to is None) == (not undo):
        raise typer.BadParameter("say where to: --to SEQ (`outlast sessions show` has the numbers), or --undo")
    with open_for_change(store) as opened:
        name = resolve_session(opened, session)
        refuse_ended(opened.head(name))
        what, given = ("unrewind", {}) if undo else ("rewind", {"seq": to, "files": files})
        done = draw_boundary(store, opened, name, what, given)
    if json:
        print_json({"session_id": name, "to": to, "result": done})
    else:
        told = "requested: whoever drives it does it between two steps" if done == "requested" else "done"
        print(f"{name[:8]} {what} {told}")
