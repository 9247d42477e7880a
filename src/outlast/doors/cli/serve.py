"""`outlast serve`: the HTTP API and the web page; `outlast serve url`: a new login link for a running server."""

import logging
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from outlast.core.errors import MissingExtra
from outlast.doors.cli.main_command import AddDir, Allow, BaseUrl, MaxSteps, Model, PermissionMode, WorkflowName
from outlast.doors.cli.options import (
    Concurrency,
    Json,
    LeaseSeconds,
    Log,
    LogFormat,
    NetworkOption,
    Place,
    SandboxOption,
    Store,
    turn_config,
)
from outlast.doors.cli.output import print_json
from outlast.doors.terminal_text import plain

if TYPE_CHECKING:
    from outlast.app.settings import Settings
    from outlast.doors.http.app import SideService

app = typer.Typer(name="serve", help="Serve the HTTP API and the web page.", invoke_without_command=True)

Host = Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Address to listen on.")]
Port = Annotated[int, typer.Option("--port", metavar="N", min=0, max=65535, help="0 picks a free port.")]
Unix = Annotated[
    Path | None, typer.Option("--unix", metavar="PATH", help="A Unix socket, mode 0600, instead of a port.")
]
AllowedHost = Annotated[
    list[str] | None,
    typer.Option("--allowed-host", metavar="HOST[:PORT]", help="Another accepted host name, exact (repeatable)."),
]
PublicUrl = Annotated[str | None, typer.Option("--public-url", metavar="URL", help="URL that browsers use.")]
BehindProxy = Annotated[bool, typer.Option("--behind-proxy", help="A proxy in front ends TLS.")]
TlsCert = Annotated[Path | None, typer.Option("--tls-cert", metavar="FILE", help="Certificate, PEM.")]
TlsKey = Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="Private key, PEM.")]
Expose = Annotated[bool, typer.Option("--expose", help="Allow other machines.")]
NoResume = Annotated[bool, typer.Option("--no-resume", help="Leave interrupted turns until a client continues them.")]
NoWorker = Annotated[bool, typer.Option("--no-worker", help="Run no turns; `outlast worker` does.")]
WithGateway = Annotated[bool, typer.Option("--gateway", help="Also run the chats of config.toml.")]
NewToken = Annotated[bool, typer.Option("--new-token", help="First log out every browser and program.")]


@app.callback()
def serve(
    context: typer.Context,
    host: Host = "127.0.0.1",
    port: Port = 8765,
    unix: Unix = None,
    allowed_host: AllowedHost = None,
    public_url: PublicUrl = None,
    behind_proxy: BehindProxy = False,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    expose: Expose = False,
    no_resume: NoResume = False,
    gateway: WithGateway = False,
    new_token: NewToken = False,
    model: Model = None,
    base_url: BaseUrl = None,
    permission_mode: PermissionMode = None,
    allow: Allow = None,
    add_dir: AddDir = None,
    max_steps: MaxSteps = None,
    workflow: WorkflowName = None,
    sandbox: SandboxOption = None,
    network: NetworkOption = None,
    store: Store = None,
    no_worker: NoWorker = False,
    place: Place = None,
    concurrency: Concurrency = 64,
    lease_seconds: LeaseSeconds = 10.0,
    log_format: Log = LogFormat.TEXT,
    json: Json = False,
) -> None:
    """Serve the HTTP API and the web page on this machine; print a link that logs one browser in.

    Ctrl-C stops it: sessions are kept, and turns continue at the next start."""
    if context.invoked_subcommand is not None:
        return
    _check_extra()
    from outlast.app.logging_setup import log_to
    from outlast.app.settings import load_settings
    from outlast.app.workers.options import WorkerOptions
    from outlast.doors.http.server.listen import ListenAddress
    from outlast.doors.http.server.run import serve_here

    settings = load_settings(
        store=store,
        model=model,
        base_url=base_url,
        permission_mode=permission_mode,
        sandbox=sandbox,
        network=network,
        allowed_hosts=allowed_host,
        resume_on_start=False if no_resume else None,
    )
    where = ListenAddress(host=host, port=port, unix=unix, expose=expose, public_url=public_url)
    where = msgspec.structs.replace(where, behind_proxy=behind_proxy, tls_cert=tls_cert, tls_key=tls_key)
    log_to(sys.stderr, log_format, logging.INFO if log_format is LogFormat.JSON else logging.WARNING)
    places, works = tuple(place or ()), not no_worker
    working = WorkerOptions(works=works, concurrency=concurrency, lease_seconds=lease_seconds, places=places)
    config, beside = turn_config(allow, add_dir, max_steps, workflow), _gateway(settings, works) if gateway else None
    serve_here(settings, where, working, config=config, new_token=new_token, json=json, beside=beside)


def _gateway(settings: "Settings", works: bool) -> "SideService":
    from outlast.doors.gateway.platform_factory import require_gateway

    require_gateway(settings)
    from outlast.doors.gateway.run import EmbeddedGateway

    return EmbeddedGateway(settings, works=works)


def _check_extra() -> None:
    if find_spec("litestar") is None or find_spec("uvicorn") is None:
        raise MissingExtra("http", "`outlast serve`")


@app.command("url")
def url(json: Json = False) -> None:
    """Print a new login link for the server that runs with this home; it works once."""
    from outlast.app.settings import load_settings
    from outlast.doors.http.server.run import fresh_login

    found = fresh_login(load_settings())
    if json:
        print_json({"url": found})
    else:
        print(plain(found))
