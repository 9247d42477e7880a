"""`holdfast sessions ...`: one file a command."""

import typer

from holdfast.doors.cli.sessions.export import app as export

app = typer.Typer(name="sessions", help="What is stored: export (more commands come with the terminal).")
app.add_typer(export)


@app.callback()
def sessions() -> None:
    """Sessions in the store."""
