"""`outlast verify [ID]`: prove that nothing stored has changed, or name what has. Exit 0 clean, 1 damaged."""

import sys
import time
from typing import Annotated

import typer

from outlast.app.maintenance import VerifyReport, verify_store
from outlast.doors.cli.options import Json, Store, session_ids
from outlast.doors.cli.output import counted, plain, print_json
from outlast.doors.cli.progress import bar

app = typer.Typer()


@app.command("verify")
def verify(
    session: Annotated[
        str | None,
        typer.Argument(metavar="ID", autocompletion=session_ids, help="One session, or its first characters."),
    ] = None,
    deep: Annotated[bool, typer.Option("--deep", help="Let the database look at every page and index too.")] = False,
    store: Store = None,
    json: Json = False,
) -> None:
    """Recompute hash chains, headers, keys, snapshots and blobs, and say exactly what is damaged."""
    began = time.monotonic()
    with bar("verifying", wanted=not json) as progress:
        report = verify_store(store, session, deep=deep, progress=progress)
    if json:
        print_json(as_json(report))
    else:
        show(report, time.monotonic() - began)
    raise typer.Exit(0 if report.ok else 1)


def as_json(report: VerifyReport) -> dict[str, object]:
    return {
        "ok": report.ok,
        "sessions": report.sessions,
        "events": report.events,
        "keys": report.keys,
        "blobs": report.blobs,
        "snapshots": report.snapshots,
        "findings": report.findings,
    }


def show(report: VerifyReport, seconds: float) -> None:
    for finding in report.findings:
        print(f"{'DAMAGED' if finding.damage else 'note'}  {plain(finding.line())}")
    looked_at = [
        counted(report.sessions, "session"),
        counted(report.events, "event"),
        counted(report.keys, "key"),
        counted(report.blobs, "blob"),
        counted(report.snapshots, "snapshot"),
    ]
    print(f"verified {', '.join(looked_at)} in {seconds:.1f} s: {'no damage' if report.ok else 'DAMAGED'}")
    if not report.ok:
        print(f"outlast: {summary(report)}", file=sys.stderr)


def summary(report: VerifyReport) -> str:
    damaged = report.damaged_sessions
    found = counted(len(report.damage), "finding")
    if not damaged:
        return f"{found} of damage, in no session; restore a backup or copy the sessions into a new store"
    saves = f"`outlast sessions export {damaged[0]}` saves what is whole"
    return f"{found} of damage in {counted(len(damaged), 'session')}; the others can be used as ever; {saves}"
