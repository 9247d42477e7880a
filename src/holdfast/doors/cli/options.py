"""Options that many commands take, spelled once."""

from enum import StrEnum
from typing import Annotated

import typer

Store = Annotated[
    str | None,
    typer.Option(
        "--store", metavar="URL", help="sqlite:///PATH, files:///DIR or postgresql://...; else your settings'."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


# ---- of those that run turns: `serve` and `worker` -------------------------------------------------------------------


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


Place = Annotated[
    list[str] | None,
    typer.Option("--place", metavar="LABEL=PATH", help="Offer the place LABEL, which is PATH here (repeatable)."),
]
Concurrency = Annotated[int, typer.Option("--concurrency", metavar="N", min=1, help="Turns that may run at once.")]
LeaseSeconds = Annotated[
    float, typer.Option("--lease-seconds", metavar="S", help="After how long a worker that says nothing is replaced.")
]
Log = Annotated[LogFormat, typer.Option("--log-format", help="How the log on stderr looks.")]
