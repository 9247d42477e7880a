"""`outlast models`: what can answer here, which one would, and why."""

import typer

from outlast.app import load_settings
from outlast.app.models import ModelOverview, overview
from outlast.doors.cli.options import Json
from outlast.doors.cli.output import plain, print_json

app = typer.Typer()


@app.command("models")
def models(json: Json = False) -> None:
    """Show providers, Ollama and the local model, and which one is used when none is named."""
    found = overview(load_settings())
    if json:
        print_json(found)
    else:
        _show(found)


def _show(found: ModelOverview) -> None:
    for row in found.rows:
        mark = "*" if found.used is not None and found.used.partition(":")[0] == row.name else " "
        default = f"  ({plain(row.default)})" if row.default else ""
        print(f"{mark} {'ready' if row.ready else '-':<6} {row.name:<12} {plain(row.note)}{default}")
        for name in row.models:
            print(f"                      {plain(name)}")
    print(f"\n{plain(found.used) if found.used else 'none'}: {plain(found.reason)}")
