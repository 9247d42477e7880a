"""Options shared by several commands."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from outlast.core.errors import ConfigError

if TYPE_CHECKING:
    from outlast.runtime.agent_config import AgentConfig

Store = Annotated[
    str | None,
    typer.Option(
        "--store", metavar="URL", help="sqlite:///PATH, files:///DIR or postgresql://...; default: your settings."
    ),
]


def session_ids(incomplete: str) -> list[str]:
    """Shell completion: ids of the newest sessions that start with `incomplete`."""
    from outlast.app.sessions.session_list import listed
    from outlast.core.errors import OutlastError

    try:
        rows = listed(None, limit=200).sessions
    except OutlastError:
        return []
    return [row.id for row in rows if row.id.startswith(incomplete)][:20]


SessionId = Annotated[
    str,
    typer.Argument(metavar="ID", autocompletion=session_ids, help="The session, or its first 6 or more characters."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


class SandboxChoice(StrEnum):
    AUTO = "auto"
    EXTERNAL = "external"
    NONE = "none"


class NetworkChoice(StrEnum):
    OFF = "off"
    ASK = "ask"
    ON = "on"


SandboxOption = Annotated[
    SandboxChoice | None,
    typer.Option("--sandbox", metavar="S", help="auto, external (this machine is the sandbox), or none: ask first."),
]
NetworkOption = Annotated[
    NetworkChoice | None,
    typer.Option("--network", metavar="N", help="Hosts that commands reach: off, ask (about each), or on (all)."),
]


# ---- options of `serve` and `worker`, which run turns ---------------------------------------------------------------


def turn_config(
    allow: list[str] | None, add_dir: list[str] | None, max_steps: int | None, workflow: str | None
) -> "AgentConfig":
    """How the turns of a server or a worker run: a user of any door can be asked."""
    from outlast.runtime.agent_config import AgentConfig

    return AgentConfig(
        prompting=True,
        allow=tuple(allow or ()),
        add_dirs=tuple(add_dir or ()),
        max_steps=max_steps,
        workflow=workflow,
    )


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


def _spelled(words: list[str] | None) -> list[str] | None:
    """Report a malformed place as wrong usage; whether its folder exists is checked when it is needed."""
    from outlast.app.placement import spelled

    try:
        spelled(words or ())
    except ConfigError as error:
        raise typer.BadParameter(str(error)) from error
    return words


Place = Annotated[
    list[str] | None,
    typer.Option(
        "--place",
        metavar="LABEL=PATH",
        callback=_spelled,
        help="Offer the place LABEL with the folder PATH (repeatable).",
    ),
]
Concurrency = Annotated[int, typer.Option("--concurrency", metavar="N", min=1, help="Most turns at once.")]
LeaseSeconds = Annotated[
    float,
    typer.Option(
        "--lease-seconds", metavar="S", min=1, max=600, help="Time without renewal until another worker takes over."
    ),
]
Log = Annotated[LogFormat, typer.Option("--log-format", help="Format of the log on stderr.")]
