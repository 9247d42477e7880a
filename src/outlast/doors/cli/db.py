"""`outlast db version` and `outlast db upgrade`: the schema of a store."""

import typer

from outlast.app.maintenance import UpgradeResult, schema, upgrade
from outlast.doors.cli.options import Json, Store
from outlast.doors.cli.output import plain, print_json
from outlast.doors.cli.progress import bars

app = typer.Typer(name="db", help="The schema of a store: which one it has, and bringing it up to date.")

DUMP = "PostgreSQL makes no copy by itself; `pg_dump` of the database before the upgrade is the way back"


@app.command("version")
def version(store: Store = None, json: Json = False) -> None:
    """Show the schema, the migrations that made it and those still to come; changes nothing."""
    found = schema(store)
    if json:
        print_json(found)
        return
    if found.store == "files":
        print(f"format {found.version}, this Outlast knows {found.known}; a files store has no schema to upgrade")
        return
    print(f"schema {found.version}, this Outlast knows {found.known}")
    print(f"applied: {', '.join(found.applied) or 'none'}")
    print(f"outstanding: {', '.join(found.outstanding) or 'none'}")
    if found.outstanding and found.store == "postgresql":
        print(DUMP)


@app.command("upgrade")
def apply(store: Store = None, json: Json = False) -> None:
    """Apply the migrations that are still to come, all of them or none.

    A SQLite store is copied first, and the copy is named: to go back, stop what uses the store and put the copy in its
    place, without the -wal and -shm files of the newer one. On PostgreSQL, dump the database before. Stop older
    versions of Outlast that have the store open first: they know nothing of what is new.
    """
    with bars("copying", "upgrading", wanted=not json) as (copying, filling):
        done = upgrade(store, copying=copying, filling=filling)
    if json:
        copy = None if done.copy is None else str(done.copy)
        print_json({"before": done.before, "after": done.after, "copy": copy})
    else:
        print(_told(done))


def _told(done: UpgradeResult) -> str:
    before, after = done.before, done.after
    if after.store == "files":
        return f"format {after.version}: a files store has no schema to upgrade"
    if not before.outstanding:
        return f"schema {after.version}: nothing to do"
    told = f"schema {before.version} -> {after.version}: applied {', '.join(before.outstanding)}"
    if done.copy is not None:
        told += f"\nas it was before: {plain(str(done.copy))}"
    return told
