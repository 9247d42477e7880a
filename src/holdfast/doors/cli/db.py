"""`holdfast db version` and `holdfast db upgrade`: the schema of a store."""

import typer

from holdfast.app.integrity import Schema, schema, upgrade
from holdfast.doors.cli.options import Json, Store
from holdfast.doors.cli.printing import print_json

app = typer.Typer(name="db", help="The schema of a store: which one it has, and bringing it up to date.")


@app.command("version")
def version(store: Store = None, json: Json = False) -> None:
    """Show the schema, the migrations that made it and those still to come; changes nothing."""
    found = schema(store)
    if json:
        print_json(found)
        return
    if found.store == "files":
        print(f"format {found.version}, this Holdfast knows {found.known}; a files store has no schema to upgrade")
        return
    print(f"schema {found.version}, this Holdfast knows {found.known}")
    print(f"applied: {', '.join(found.applied) or 'none'}")
    print(f"outstanding: {', '.join(found.outstanding) or 'none'}")


@app.command("upgrade")
def apply(store: Store = None, json: Json = False) -> None:
    """Apply the migrations that are still to come; a SQLite store is copied first."""
    before, after = upgrade(store)
    if json:
        print_json({"before": before, "after": after})
    else:
        print(_told(before, after))


def _told(before: Schema, after: Schema) -> str:
    if after.store == "files":
        return f"format {after.version}: a files store has no schema to upgrade"
    if not before.outstanding:
        return f"schema {after.version}: nothing to do"
    return f"schema {before.version} -> {after.version}: applied {', '.join(before.outstanding)}"
