"""`outlast doctor`: is everything in place that the promises rest on? Exit 1 when something failed."""

import sys

import typer

from outlast.app.maintenance import Check, CheckStatus, examine_store
from outlast.doors.cli.options import Json, Store
from outlast.doors.cli.output import counted, plain, print_json

app = typer.Typer()


@app.command("doctor")
def doctor(store: Store = None, json: Json = False) -> None:
    """Check versions, permissions, disk, sync settings and the write-ahead log; each with a remedy."""
    checks: list[Check] = []
    for check in examine_store(store):
        checks.append(check)
        if not json:
            _show(check)
    failed = [check for check in checks if check.status is CheckStatus.FAIL]
    if json:
        print_json({"ok": not failed, "checks": checks})
    if failed:
        names = ", ".join(dict.fromkeys(check.name for check in failed))
        told = f"{counted(len(failed), 'check')} failed: {names}; see the remedies above"
        print(f"outlast: {plain(told)}", file=sys.stderr)
    raise typer.Exit(1 if failed else 0)


def _show(check: Check) -> None:
    remedy = f"  -> {plain(check.remedy)}" if check.remedy else ""
    print(f"{check.status.value:<5} {check.name:<13} {plain(check.text)}{remedy}")
