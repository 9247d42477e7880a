"""Options that many commands take, spelled once."""

from typing import Annotated

import typer

Store = Annotated[
    str | None,
    typer.Option(
        "--store", metavar="URL", help="sqlite:///PATH, files:///DIR or postgresql://...; else your settings'."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
