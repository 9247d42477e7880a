"""`outlast worker`: runs the turns that wait in a store, together with any number of other workers."""

import sys
from typing import Annotated

import typer

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

app = typer.Typer()

DrainSeconds = Annotated[
    float,
    typer.Option("--drain-seconds", metavar="S", min=0, help="Time that running turns get after SIGTERM."),
]
MetricsPort = Annotated[
    int | None,
    typer.Option(
        "--metrics-port", metavar="N", min=0, max=65535, help="For Prometheus, on 127.0.0.1; 0 picks a free port."
    ),
]


@app.command("worker")
def worker(
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
    place: Place = None,
    concurrency: Concurrency = 16,
    lease_seconds: LeaseSeconds = 10.0,
    drain_seconds: DrainSeconds = 60.0,
    metrics_port: MetricsPort = None,
    log_format: Log = LogFormat.TEXT,
    json: Json = False,
) -> None:
    """Run pending turns of servers, chats and terminals that share the store, oldest first.

    Any number of workers, on any number of machines with postgresql://, share the work; one that dies is replaced.
    """
    import asyncio

    from outlast.app.logging_setup import log_to
    from outlast.app.settings import load_settings
    from outlast.app.workers.options import WorkerOptions
    from outlast.doors.worker.run import WorkerFlags, work

    settings = load_settings(
        store=store, model=model, base_url=base_url, permission_mode=permission_mode, sandbox=sandbox, network=network
    )
    log_to(sys.stderr, log_format)
    working = WorkerOptions(concurrency=concurrency, lease_seconds=lease_seconds, places=tuple(place or ()))
    flags = WorkerFlags(drain_seconds=drain_seconds, metrics_port=metrics_port, json=json)
    config = turn_config(allow, add_dir, max_steps, workflow)
    asyncio.run(work(settings, working, config, flags))
