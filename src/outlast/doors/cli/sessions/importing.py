"""`outlast sessions import FILE`: a session from another store, hash for hash; gives no rights here."""

from pathlib import Path
from typing import Annotated

import typer

from outlast.app.transfer.import_session import import_file
from outlast.doors.cli.options import Json, Store
from outlast.doors.cli.output import counted, print_json
from outlast.doors.cli.progress import bar
from outlast.doors.cli.sessions.arguments import verb

app = verb()
TOLD = {"new": "imported", "continued": "continued", "here": "was here already"}


@app.command("import")
def import_session(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `sessions export --format jsonl` wrote.")],
    store: Store = None,
    json: Json = False,
) -> None:
    """Take a session over from a file, with the history it stands on. Approvals in it count for nothing here."""
    with bar("importing", wanted=not json) as progress:
        found = import_file(store, file, progress=progress)
    if json:
        print_json({"sessions": found})
        return
    for one in found:
        print(f"{one.session_id}  {TOLD[one.what]}: {counted(one.events, 'event')}, up to {one.last_seq}")
