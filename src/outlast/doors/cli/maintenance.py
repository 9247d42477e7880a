"""`outlast verify`, `backup`, `doctor` and `db version | upgrade`: commands that check and maintain a store.

`verify` proves that nothing stored has changed, or names what has: exit 0 clean, 1 damaged. `backup` makes an online
copy and verifies it. `doctor` checks everything that the promises rest on; exit 1 if a check failed.
"""

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from outlast.app.maintenance import (
    Check,
    CheckStatus,
    UpgradeResult,
    VerifyReport,
    back_up,
    examine_store,
    schema,
    verify_store,
)
from outlast.app.maintenance import upgrade as upgrade_schema
from outlast.doors.cli.options import Json, Store, session_ids
from outlast.doors.cli.output import bar, bars, counted, print_json
from outlast.doors.terminal_text import plain

app = typer.Typer()
db = typer.Typer(name="db", help="Show or upgrade the schema of a store.")
app.add_typer(db)

DUMP = "PostgreSQL stores are not copied before an upgrade; run `pg_dump` first to be able to go back"


@app.command("verify")
def verify(
    session: Annotated[
        str | None,
        typer.Argument(metavar="ID", autocompletion=session_ids, help="One session, or its first characters."),
    ] = None,
    deep: Annotated[bool, typer.Option("--deep", help="Also check every page and index of the database.")] = False,
    store: Store = None,
    json: Json = False,
) -> None:
    """Recompute hash chains, headers, keys, snapshots and blobs, and say exactly what is damaged."""
    began = time.monotonic()
    with bar("verifying", wanted=not json) as progress:
        report = verify_store(store, session, deep=deep, progress=progress)
    if json:
        print_json(_report_as_json(report))
    else:
        _print_report(report, time.monotonic() - began)
    raise typer.Exit(0 if report.ok else 1)


def _report_as_json(report: VerifyReport) -> dict[str, object]:
    return {
        "ok": report.ok,
        "sessions": report.sessions,
        "events": report.events,
        "keys": report.keys,
        "blobs": report.blobs,
        "snapshots": report.snapshots,
        "findings": report.findings,
    }


def _print_report(report: VerifyReport, seconds: float) -> None:
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
        print(f"outlast: {_summary(report)}", file=sys.stderr)


def _summary(report: VerifyReport) -> str:
    damaged = report.damaged_sessions
    found = counted(len(report.damage), "finding")
    if not damaged:
        return f"{found} of damage, in no session; restore a backup or copy the sessions into a new store"
    saves = f"`outlast sessions export {damaged[0]}` saves the undamaged part"
    return f"{found} of damage in {counted(len(damaged), 'session')}; the other sessions are usable; {saves}"


@app.command("backup")
def backup(
    path: Annotated[Path, typer.Argument(help="Path of the copy; it must not exist yet.")],
    store: Store = None,
    json: Json = False,
) -> None:
    """Copy the store while other processes write to it, then verify the copy."""
    with bars("copying", "verifying", wanted=not json) as (copying, verifying):
        copy, report = back_up(store, path, copying=copying, verifying=verifying)
    if json:
        print_json({"copy": copy, **_report_as_json(report)})
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


@app.command("doctor")
def doctor(store: Store = None, json: Json = False) -> None:
    """Check versions, permissions, disk, sync settings and the write-ahead log; each with a remedy."""
    checks: list[Check] = []
    for check in examine_store(store):
        checks.append(check)
        if not json:
            _print_check(check)
    failed = [check for check in checks if check.status is CheckStatus.FAIL]
    if json:
        print_json({"ok": not failed, "checks": checks})
    if failed:
        names = ", ".join(dict.fromkeys(check.name for check in failed))
        told = f"{counted(len(failed), 'check')} failed: {names}; see the remedies above"
        print(f"outlast: {plain(told)}", file=sys.stderr)
    raise typer.Exit(1 if failed else 0)


def _print_check(check: Check) -> None:
    remedy = f"  -> {plain(check.remedy)}" if check.remedy else ""
    print(f"{check.status.value:<5} {check.name:<13} {plain(check.text)}{remedy}")


# ---- db --------------------------------------------------------------------------------------------------------------


@db.command("version")
def version(store: Store = None, json: Json = False) -> None:
    """Show the schema version, the applied and the outstanding migrations; changes nothing."""
    found = schema(store)
    if json:
        print_json(found)
        return
    if found.store == "files":
        todo = "it is upgraded when it is opened for writing"
        told = todo if found.outstanding else "a files store has no schema to upgrade"
        print(f"format {found.version}, this Outlast knows {found.known}; {told}")
        return
    print(f"schema {found.version}, this Outlast knows {found.known}")
    print(f"applied: {', '.join(found.applied) or 'none'}")
    print(f"outstanding: {', '.join(found.outstanding) or 'none'}")
    if found.outstanding and found.store == "postgresql":
        print(DUMP)


@db.command("upgrade")
def upgrade(store: Store = None, json: Json = False) -> None:
    """Apply the outstanding migrations, all of them or none.

    A SQLite store is copied first, and the copy is named: to go back, stop what uses the store and put the copy in its
    place, without the -wal and -shm files of the newer one. On PostgreSQL, dump the database before. Stop older
    versions of Outlast that have the store open first: they know nothing of what is new.
    """
    with bars("copying", "upgrading", wanted=not json) as (copying, filling):
        done = upgrade_schema(store, copying=copying, filling=filling)
    if json:
        copy = None if done.copy is None else str(done.copy)
        print_json({"before": done.before, "after": done.after, "copy": copy})
    else:
        print(_upgrade_told(done))


def _upgrade_told(done: UpgradeResult) -> str:
    before, after = done.before, done.after
    if after.store == "files":
        if before.outstanding:
            return f"format {before.version} -> {after.version}; an older Outlast refuses the store from now on"
        return f"format {after.version}: a files store has no schema to upgrade"
    if not before.outstanding:
        return f"schema {after.version}: nothing to do"
    told = f"schema {before.version} -> {after.version}: applied {', '.join(before.outstanding)}"
    if done.copy is not None:
        told += f"\ncopy from before the upgrade: {plain(str(done.copy))}"
    return told
