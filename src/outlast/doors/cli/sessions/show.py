"""`outlast sessions show ID`: one session with its messages; with `--all` those that were cleared or rewound too."""

from typing import Annotated, Any

import typer

from outlast.app.sessions.detail import SessionDetailView, call_label, detail
from outlast.app.sessions.listing import open_readonly, resolve_session
from outlast.core.messages import Message
from outlast.core.redaction import mapped
from outlast.doors.cli.options import Json, Store
from outlast.doors.cli.output import counted, plain, print_json
from outlast.doors.cli.sessions.age import moment
from outlast.doors.cli.sessions.arguments import Session, verb

app = verb()
LINES = 40


@app.command("show")
def show(
    session: Session,
    everything: Annotated[bool, typer.Option("--all", help="Archived messages too, and tool output in full.")] = False,
    store: Store = None,
    json: Json = False,
) -> None:
    """Show what was said, by whom and when. Every message has its seq: `fork --at` and `rewind --to` take it."""
    with open_readonly(store) as opened:
        found = detail(opened, resolve_session(opened, session), include_archived=everything)
    if json:
        print_json({**_plain(found), "messages": [_row(message) for message in found.messages]})
        return
    _head(found)
    for message in found.messages:
        _print(message, everything)
    _foot(found)


def _plain(found: SessionDetailView) -> dict[str, Any]:
    return {
        "session": found.session,
        "interrupted": found.interrupted,
        "running": found.running,
        "waiting": found.waiting,
        "hidden": found.hidden,
        "last_seq": found.session.last_seq,
    }


def _row(message: Message) -> dict[str, Any]:
    """As the HTTP API shows a message."""
    return {
        "seq": message.seq,
        "role": message.role,
        "content": _valid(message.content),
        "tool_calls": [
            mapped({"id": call.id, "name": call.name, "arguments": call.arguments}, _valid)
            for call in message.tool_calls
        ],
        "is_summary": message.is_summary,
        "archived": message.archived,
        "interrupted": message.interrupted,
        "ts": message.at,
    }


def _valid(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def _head(found: SessionDetailView) -> None:
    row = found.session
    print(f"{row.id}  {plain(row.title or '(no title)')}")
    facts = [row.state, row.model, row.persona, row.project_root, "imported" if row.imported else None]
    print("  " + " · ".join(plain(fact) for fact in facts if fact))
    if row.rotated_to:
        print(f"  goes on as {row.rotated_to}")
    if row.parent_session_id:
        print(f"  came from {plain(row.parent_session_id)}")
    print()


def _print(message: Message, everything: bool) -> None:
    marks = {"archived": message.archived, "summary": message.is_summary, "interrupted": message.interrupted}
    said = "".join(f" [{name}]" for name, is_so in marks.items() if is_so)
    print(f"── {message.seq} {message.role.value}{said} · {moment(message.at or 0)}")
    lines = message.content.splitlines()
    kept = lines if everything or message.role.value != "tool" else lines[:LINES]
    for line in kept:
        print(_spelled(line))
    if len(kept) < len(lines):
        print(f"... {counted(len(lines) - len(kept), 'more line')}; --all shows them")
    for call in message.tool_calls:
        print(f"→ {plain(call_label(call.name, call.arguments))}")
    print()


def _foot(found: SessionDetailView) -> None:
    name = found.session.id[:8]
    if found.interrupted:
        print(f"The last turn was {plain(found.interrupted)}. `outlast sessions resume {name}` goes on with it.")
    elif found.running:
        print(f"A turn is running ({plain(found.running)}).")
    elif found.waiting:
        print(f"{counted(found.waiting, 'message')} not answered yet; `outlast sessions resume {name}` goes on.")
    if found.hidden:
        print(f"{counted(found.hidden, 'message')} archived; --all shows them")


def _spelled(line: str) -> str:
    """One line of stored text: tabs stay, nothing in it steers the terminal."""
    if line.isprintable():
        return line
    return "".join(
        c if c.isprintable() or c == "\t" else c.encode("unicode_escape", "surrogatepass").decode("ascii") for c in line
    )
