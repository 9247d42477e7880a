"""`outlast backup PATH`: an online copy of the store, verified before it is called one."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from outlast.app.maintenance import back_up
from outlast.doors.cli.options import Json, Store
from outlast.doors.cli.output import counted, plain, print_json
from outlast.doors.cli.progress import bars
from outlast.doors.cli.verify import as_json

app = typer.Typer()


@app.command("backup")
def backup(
    path: Annotated[Path, typer.Argument(help="Where the copy goes; nothing may be there yet.")],
    store: Store = None,
    json: Json = False,
) -> None:
    """Copy the store while others go on writing, then verify the copy."""
    with bars("copying", "verifying", wanted=not json) as (copying, verifying):
        copy, report = back_up(store, path, copying=copying, verifying=verifying)
    if json:
        print_json({"copy": copy, **as_json(report)})
    elif report.ok:
        size = f"{counted(report.sessions, 'session')}, {counted(report.events, 'event')}"
        print(f"copied to {plain(str(path))} and verified: {size}, no damage")
    else:
        for finding in report.damage:
            print(f"DAMAGED  {plain(finding.line())}")
    if not report.ok:
        found = counted(len(report.damage), "finding")
        told = f"{path} holds the same damage as the store (see `outlast verify`): {found}"
        print(f"outlast: {plain(told)}", file=sys.stderr)
    raise typer.Exit(0 if report.ok else 1)
