"""`outlast gateway`: runs the chat platforms of the settings; with the subcommands `pair`, `unpair` and `status`."""

import asyncio
import json as json_lines
import logging
import stat
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from outlast.app.logging_setup import log_to
from outlast.app.settings import Settings, load_settings
from outlast.core.errors import SessionNotFound
from outlast.doors.cli.main_command import BaseUrl, Model, WorkflowName
from outlast.doors.cli.options import Json, Log, LogFormat, NetworkOption, SandboxOption, Store
from outlast.doors.cli.output import print_json
from outlast.doors.cli.serve import BehindProxy, Expose
from outlast.doors.terminal_text import plain

app = typer.Typer(
    name="gateway", help="Connect chat platforms: Telegram, Matrix, webhooks.", invoke_without_command=True
)

Host = Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Address for webhooks.")]
Port = Annotated[int, typer.Option("--port", metavar="N", min=0, max=65535, help="0 picks a free port.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The NAME in [gateway.NAME].")]

Patience = Annotated[
    float, typer.Option("--patience", metavar="SECONDS", min=0, help="Time that running turns get at the stop.")
]

WEBHOOK_PORT = 8766


@app.callback()
def gateway(
    context: typer.Context,
    host: Host = "127.0.0.1",
    port: Port = WEBHOOK_PORT,
    behind_proxy: BehindProxy = False,
    expose: Expose = False,
    patience: Patience = 5.0,
    model: Model = None,
    base_url: BaseUrl = None,
    workflow: WorkflowName = None,
    sandbox: SandboxOption = None,
    network: NetworkOption = None,
    store: Store = None,
    log_format: Log = LogFormat.TEXT,
    json: Json = False,
) -> None:
    """Run the chats of your config.toml. Ctrl-C stops it: sessions are kept, and turns continue at the next start."""
    if context.invoked_subcommand is not None:
        return
    settings = load_settings(
        store=store, model=model, base_url=base_url, workflow=workflow, sandbox=sandbox, network=network
    )
    from outlast.doors.gateway.platform_factory import require_gateway

    require_gateway(settings)
    from outlast.doors.gateway.gateway import Gateway
    from outlast.doors.gateway.run import run
    from outlast.doors.http.server.listen import ListenAddress, check, listening

    _log_to_stderr(log_format)
    _warn_of_readers(settings)
    has_webhooks = any(table.platform == "webhook" for table in settings.gateway)
    wanted = ListenAddress(host=host, port=port, behind_proxy=behind_proxy, expose=expose)
    for warning in check(wanted) if has_webhooks else ():
        print(f"outlast: warning: {warning}", file=sys.stderr, flush=True)
    listener = listening(wanted) if has_webhooks else None

    def ready(running: Gateway) -> None:
        where = listener.getsockname()[1] if listener is not None else None
        _tell(settings, wanted.url(where) if where is not None else None, json)

    asyncio.run(run(settings, listener, ready, patience))


@app.command("pair")
def pair(name: Name, json: Json = False) -> None:
    """Print a code. The user who sends it to the bot in a private chat within ten minutes becomes an owner."""
    from outlast.app.chat.pairing_code import CODE_SECONDS, Pairing
    from outlast.app.chat.status import named_gateway

    settings = load_settings()
    table = named_gateway(settings, name)
    code = Pairing(settings, table.name).issue(time.time())
    if json:
        print_json({"gateway": table.name, "code": code, "seconds": CODE_SECONDS})
        return
    print(f"Send this to the bot in a private chat, within {CODE_SECONDS // 60} minutes:\n\n  /pair {code}\n")
    print("It works once. Its sender becomes an owner of this gateway.")


@app.command("unpair")
def unpair(name: Name, user: Annotated[str, typer.Argument(metavar="USER", help="The user's id.")]) -> None:
    """Remove an owner that was paired; to remove an owner of config.toml, edit that file."""
    from outlast.app.chat.pairing_code import Pairing
    from outlast.app.chat.status import named_gateway

    settings = load_settings()
    if not Pairing(settings, named_gateway(settings, name).name).unpair(user):
        raise SessionNotFound(f"user {user} was not paired with gateway {name}")
    print(f"user {plain(user)} is no longer an owner of {plain(name)}")


@app.command("status")
def status(store: Store = None, json: Json = False) -> None:
    """Show every gateway of your settings: its state, its owners and its pending deliveries."""
    from outlast.app.chat.status import gateway_report

    rows = gateway_report(load_settings(store=store))
    if json:
        print_json(rows)
        return
    if not rows:
        print("no chats are configured")
    for row in rows:
        people = f"{row.owners} owner{'' if row.owners == 1 else 's'}"
        chats = f"{row.chats} chat{'' if row.chats == 1 else 's'}{f', {row.owed} to deliver to' if row.owed else ''}"
        told = f": {plain(row.detail)}" if row.detail else ""
        print(f"{row.name:<16} {row.platform:<9} {row.permission_mode:<16} {people}, {chats}, {row.state}{told}")


# --- helpers ---------------------------------------------------------------------------------------------------------


def _log_to_stderr(form: LogFormat) -> None:
    log_to(sys.stderr, form)
    for name in ("httpx", "httpcore", "telegram", "nio", "uvicorn", "aiohttp"):
        logging.getLogger(name).setLevel(logging.ERROR)  # they log URLs, and a bot's URL contains its token


def _warn_of_readers(settings: Settings) -> None:
    """Warn if other users may read a settings file that holds a secret."""
    path: Path = settings.home / "config.toml"
    if any(table.credential.value for table in settings.gateway) and path.stat().st_mode & (
        stat.S_IRGRP | stat.S_IROTH
    ):
        print(
            f"outlast: warning: other users can read {plain(str(path))}, which contains a secret; run chmod 600 on it",
            file=sys.stderr,
        )


def _tell(settings: Settings, webhooks: str | None, json: bool) -> None:
    from outlast.app.chat.status import gateway_report
    from outlast.app.stores import shown_url

    rows = gateway_report(settings)
    if json:
        told = {"gateways": [row.name for row in rows], "webhooks": webhooks, "store": shown_url(settings.store)}
        print(json_lines.dumps(told), flush=True)
        return
    for row in rows:
        nobody = "" if row.owners else f"; no user is allowed yet: `outlast gateway pair {row.name}`"
        print(f"{row.name}: {row.platform}, {row.permission_mode} in {plain(row.project)}{nobody}", flush=True)
    if webhooks is not None:
        print(f"webhooks are received at {webhooks}/gateway/webhook/NAME", flush=True)
    print("Ctrl-C stops it: sessions are kept, and turns continue at the next start.", flush=True)
