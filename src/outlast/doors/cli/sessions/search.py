"""`outlast sessions search TEXT`: the newest matches in all sessions, each with the event that leads there."""

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from outlast.app.sessions.listing import is_there, open_readonly
from outlast.app.sessions.search import SearchHit, SearchPage, rebuild
from outlast.app.sessions.search import search as find
from outlast.doors.cli.options import Json, Store
from outlast.doors.cli.output import plain, print_json
from outlast.doors.cli.progress import bar
from outlast.doors.cli.sessions.age import age
from outlast.doors.cli.sessions.arguments import verb

app = verb()


@app.command("search")
def search(
    text: Annotated[
        str | None, typer.Argument(help="A word or a part of one, in any script; case does not matter.")
    ] = None,
    this_project: Annotated[bool, typer.Option("--this-project", help="Only this project's sessions.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many sessions.")] = 20,
    again: Annotated[bool, typer.Option("--rebuild", help="Throw the index away and make it again first.")] = False,
    store: Store = None,
    json: Json = False,
) -> None:
    """Find text in all sessions, newest first: messages, tool calls and their output, archived ones too."""
    if not text and not again:
        raise typer.BadParameter("say what to search for: a word, or a part of one")
    found = SearchPage(query=text or "", hits=[])
    if is_there(store):
        with bar("reading sessions", wanted=not json) as progress, open_readonly(store) as opened:
            if again:
                rebuild(opened, progress)
            if text:
                project = Path.cwd() if this_project else None
                found = find(opened, text, limit=limit, project=project, progress=progress)
    if json:
        print_json(found)
        return
    now = time.time_ns() // 1000
    for hit in found.hits:
        _show(hit, now)
    if text and not found.hits:
        print("nothing found")
    if found.more:
        print(f"... more sessions; --limit {2 * limit} shows them")
    for session_id in found.damaged:
        print(f"outlast: session {session_id} is damaged, so it was searched only in part", file=sys.stderr)


def _show(hit: SearchHit, now: int) -> None:
    mark, end = ("\033[1;7m", "\033[0m") if sys.stdout.isatty() else ("[", "]")
    on = f"  goes on as {hit.resume_id[:8]}" if hit.resume_id != hit.session_id else ""
    print(f"{hit.session_id[:8]}  {age(hit.at, now):>11}  {plain(hit.title or '(no title)')}{on}")
    snippet = hit.snippet
    parts = [_plain(part) for part in (snippet.before, snippet.match, snippet.after)]
    print(f"    event {hit.seq}, {hit.role}: {parts[0]}{mark}{parts[1]}{end}{parts[2]}")


def _plain(text: str) -> str:
    """As `plain`, with the spaces at its ends."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode("ascii") for c in text)
