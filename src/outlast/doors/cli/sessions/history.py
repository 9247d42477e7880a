"""`outlast sessions fork | rewind | compact | resume ID`: where a session continues, and what its window holds.

A fork is a new session on the same history: one commit, whatever its length. A rewind sets aside later messages, a
compaction replaces older messages with a summary; both delete nothing and can be undone. `sessions resume ID` is
`outlast --resume ID`.
"""

from typing import Annotated, Any

import typer

from outlast.app.sessions.session_list import open_for_change, open_readonly, refuse_ended, resolve_session
from outlast.doors.cli.options import Json, SessionId, Store
from outlast.doors.cli.output import print_json

app = typer.Typer()

Model = Annotated[
    str | None,
    typer.Option("--model", metavar="P:M", help="provider:model, local, or scripted:FILE; default: your settings."),
]


@app.command("fork")
def fork(
    session: SessionId,
    at: Annotated[int | None, typer.Option("--at", metavar="SEQ", help="Last event that both sessions share.")] = None,
    title: Annotated[str | None, typer.Option("--title", help="The title of the fork.")] = None,
    store: Store = None,
    json: Json = False,
) -> None:
    """Start a new session from a point of this one (by default its newest event); this one does not change."""
    from outlast.runtime.service import SessionService

    with open_for_change(store) as opened:
        name = resolve_session(opened, session)
        made = SessionService(opened, "cli").fork(name, at=at, title=title)
        header = opened.head(made)
    if json:
        print_json({"session_id": made, "base_session_id": header.base_id, "base_seq": header.base_seq})
    else:
        print(f"{made}")


@app.command("rewind")
def rewind(
    session: SessionId,
    to: Annotated[int | None, typer.Option("--to", metavar="SEQ", help="Last message to keep.")] = None,
    files: Annotated[bool, typer.Option("--files", help="Also restore the files of that moment.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Undo the newest rewind.")] = False,
    store: Store = None,
    json: Json = False,
) -> None:
    """Set aside everything after a message, in the session and with --files in its folder."""
    if (to is None) == (not undo):
        raise typer.BadParameter(
            "a position is missing; give --to SEQ (`outlast sessions show` has the numbers) or --undo"
        )
    what, given = ("unrewind", {}) if undo else ("rewind", {"seq": to, "files": files})
    name, done = _draw_boundary(session, store, what, given)
    if json:
        print_json({"session_id": name, "to": to, "result": done})
    else:
        print(_told(name, what, done))


@app.command("compact")
def compact(
    session: SessionId,
    instructions: Annotated[
        str | None, typer.Option("--instructions", metavar="TEXT", help="What the summary must keep.")
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Undo the newest compaction.")] = False,
    model: Model = None,
    store: Store = None,
    json: Json = False,
) -> None:
    """Make the window smaller now. While a turn runs it is requested, and done between two steps."""
    what, given = ("uncompact", {}) if undo else ("compact", {"instructions": instructions})
    name, done = _draw_boundary(session, store, what, given, model=model)
    if json:
        print_json({"session_id": name, "result": done})
    else:
        print(_told(name, what, done))


def _draw_boundary(
    session: str, store: str | None, what: str, given: dict[str, Any], *, model: str | None = None
) -> tuple[str, str]:
    """Request a boundary; return the session's id and the result of the request."""
    from outlast.app.sessions.boundaries import draw_boundary

    with open_for_change(store) as opened:
        name = resolve_session(opened, session)
        refuse_ended(opened.head(name))
        return name, draw_boundary(store, opened, name, what, given, model=model)


def _told(name: str, what: str, done: str) -> str:
    told = "requested: the process that drives it does it between two steps" if done == "requested" else "done"
    return f"{name[:8]} {what} {told}"


@app.command("resume")
def resume(session: SessionId, model: Model = None, store: Store = None) -> None:
    """Continue a session in the terminal; Outlast offers to continue an interrupted turn."""
    from outlast.doors.cli import main

    with open_readonly(store) as opened:
        name = opened.tip(resolve_session(opened, session))
        refuse_ended(opened.head(name))
    words = ["--resume", name]
    words += ["--model", model] if model else []
    words += ["--store", store] if store else []
    raise typer.Exit(main(words))
