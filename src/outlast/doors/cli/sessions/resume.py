"""`outlast sessions resume ID`: the same as `outlast --resume ID`."""

import typer

from outlast.app.sessions.listing import open_readonly, refuse_ended, resolve_session
from outlast.doors.cli.options import Store
from outlast.doors.cli.sessions.arguments import Model, Session, verb

app = verb()


@app.command("resume")
def resume(session: Session, model: Model = None, store: Store = None) -> None:
    """Go on with a session, in the terminal; an interrupted turn is told and offered to be continued."""
    from outlast.doors.cli import main

    with open_readonly(store) as opened:
        name = opened.tip(resolve_session(opened, session))
        refuse_ended(opened.head(name))
    words = ["--resume", name]
    words += ["--model", model] if model else []
    words += ["--store", store] if store else []
    raise typer.Exit(main(words))
