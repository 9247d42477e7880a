"""What several of these commands take or say, spelled once."""

from typing import Annotated

import typer

from outlast.doors.cli.options import session_ids

Session = Annotated[
    str,
    typer.Argument(metavar="ID", autocompletion=session_ids, help="The session, or its first 6 or more characters."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Model = Annotated[
    str | None,
    typer.Option("--model", metavar="P:M", help="provider:model, local, or scripted:FILE; else your settings'."),
]


def verb() -> typer.Typer:
    """The place for one command of this group."""
    return typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
