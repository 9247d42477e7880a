"""`outlast sandbox`: what confines shell commands on this machine, and the caches that they fill."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from outlast.app import load_settings
from outlast.app.sandbox import cache_sizes, clear_caches, sandbox_line, sandbox_report
from outlast.doors.cli.options import Json
from outlast.doors.cli.output import print_json
from outlast.doors.terminal_text import plain

app = typer.Typer(
    name="sandbox", help="Show the sandbox of shell commands, and their caches.", invoke_without_command=True
)
cache = typer.Typer(name="cache", help="Downloads of sandboxed commands.", invoke_without_command=True)
app.add_typer(cache)

Project = Annotated[
    Path | None,
    typer.Option("--project", metavar="DIR", exists=True, file_okay=False, help="Only this project; default: all."),
]


@app.callback()
def sandbox(context: typer.Context, json: Json = False) -> None:
    """Show which sandbox works here, the network setting and the limits."""
    if context.invoked_subcommand is not None:
        return
    settings = load_settings()
    report = sandbox_report(settings)
    if json:
        print_json({"sandbox": report, "network": settings.network, "limits": settings.sandbox_limits})
        return
    print(plain(sandbox_line(report)))
    if report.program:
        print(f"program   {plain(report.program)}")
    print(f"network   {settings.network}")
    for name, value in msgspec.structs.asdict(settings.sandbox_limits).items():
        print(f"{name:<9} {value}" if len(name) < 10 else f"{name} {value}")


@cache.callback()
def show_caches(context: typer.Context, json: Json = False) -> None:
    """List the cache of each project with its size."""
    if context.invoked_subcommand is not None:
        return
    sizes = cache_sizes(load_settings())
    if json:
        print_json({"caches": sizes})
        return
    for one in sizes:
        print(f"{plain(one.project_key)}  {one.size / 1e6:.1f} MB")
    if not sizes:
        print("no command has downloaded anything yet")


@cache.command("clear")
def clear(project: Project = None, json: Json = False) -> None:
    """Remove the caches; those that a running session uses stay. Nothing of your own caches is touched."""
    freed = clear_caches(load_settings(), project)
    if json:
        print_json({"freed": freed})
    else:
        print(f"{freed / 1e6:.1f} MB freed")
