"""`outlast sessions search` and `outlast sessions stats`: both read across all sessions.

A search finds the newest matches, each with its event; the statistics show usage per model, project and day as bars.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outlast.app.sessions.session_list import is_there, open_readonly
from outlast.doors.cli.options import Json, Store
from outlast.doors.cli.output import age, bar, counted, print_json
from outlast.doors.terminal_text import cells, cut, padded, plain, spelled

if TYPE_CHECKING:
    from outlast.app.sessions.search import SearchHit, SearchPage
    from outlast.app.sessions.statistics import UsageStatistics, UsageSum

app = typer.Typer()
DAYS = 14
BARS = 12


@app.command("search")
def search(
    text: Annotated[
        str | None, typer.Argument(help="A word or a part of one, in any script; case does not matter.")
    ] = None,
    this_project: Annotated[bool, typer.Option("--this-project", help="Only this project's sessions.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of sessions.")] = 20,
    again: Annotated[bool, typer.Option("--rebuild", help="First rebuild the index.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until everything is indexed, then search.")] = False,
    store: Store = None,
    json: Json = False,
) -> None:
    """Find text in all sessions, newest first: messages, tool calls and their output, archived ones too.

    An index that is not ready after 0.3 seconds is searched as far as it goes, with the newest 1,000 events."""
    from outlast.app.sessions.search import WAIT_SECONDS, IndexedEvents, SearchPage, rebuild
    from outlast.app.sessions.search import search as find

    if not text and not again:
        raise typer.BadParameter("the search text is empty; give a word, or a part of one")
    found = SearchPage(query=text or "", hits=[], indexed=IndexedEvents(0, 0))
    shown: set[str] = set()
    if is_there(store):
        project = Path.cwd() if this_project else None
        with bar("reading sessions", wanted=not json) as progress, open_readonly(store) as opened:
            if again:
                rebuild(opened, progress)
            if text:
                found = find(opened, text, limit=limit, project=project, wait=None if wait else WAIT_SECONDS)
                if not found.is_whole and not json and progress is not None:  # a person watches: go on to the end
                    shown = _print_page(found, shown)
                    found = find(opened, text, limit=limit, project=project, wait=None, progress=progress)
    if json:
        print_json(found)
        return
    shown |= _print_page(found, shown)
    if text and not shown:
        print("nothing found")
    if found.more:
        print(f"... more sessions; --limit {2 * limit} shows them")
    for session_id in found.damaged:
        print(f"outlast: session {session_id} is damaged, so it was searched only in part", file=sys.stderr)


def _print_page(found: SearchPage, shown: set[str]) -> set[str]:
    """Print the hits that were not shown, and how much was searched; return the sessions of all hits."""
    now = time.time_ns() // 1000
    for hit in found.hits:
        if hit.session_id not in shown:
            _print_hit(hit, now)
    sys.stdout.flush()
    if not found.is_whole:
        events, of = found.indexed.events, found.indexed.of
        words = "this goes on until all are searched" if sys.stderr.isatty() else "--wait searches all of them"
        print(f"outlast: {events:,} of {of:,} events are indexed; {words}", file=sys.stderr)
    return {hit.session_id for hit in found.hits}


def _print_hit(hit: SearchHit, now: int) -> None:
    mark, end = ("\033[1;7m", "\033[0m") if sys.stdout.isatty() else ("[", "]")
    on = f"  continues as {hit.resume_id[:8]}" if hit.resume_id != hit.session_id else ""
    print(f"{hit.session_id[:8]}  {age(hit.at, now):>11}  {plain(hit.title or '(no title)')}{on}")
    snippet = hit.snippet
    parts = [spelled(part) for part in (snippet.before, snippet.match, snippet.after)]
    print(f"    event {hit.seq}, {hit.role}: {parts[0]}{mark}{parts[1]}{end}{parts[2]}")


# ---- stats ----------------------------------------------------------------------------------------------------------


@app.command("stats")
def stats(
    this_project: Annotated[bool, typer.Option("--this-project", help="Only this project's sessions.")] = False,
    store: Store = None,
    json: Json = False,
) -> None:
    """Count sessions, turns, tokens and cost. A cost that is not known is shown as `?`."""
    from outlast.app.sessions.statistics import stats as gather

    with bar("counting", wanted=not json) as progress:
        found = gather(store, project=Path.cwd() if this_project else None, progress=progress)
    if json:
        print_json(_as_json(found))
        return
    total = found.total
    print(f"{counted(total.sessions, 'session')}, {counted(total.turns, 'turn')}, {counted(found.messages, 'message')}")
    print(f"{total.input_tokens:,} tokens in, {total.output_tokens:,} out, cost {money(total)}")
    _print_bars("model", found.models)
    _print_bars("project", {Path(name).name or name: one for name, one in found.projects.items()})
    _print_bars("day", dict(list(found.days.items())[-DAYS:]), by_size=False)
    for session_id in found.damaged:
        print(f"outlast: session {session_id} is damaged and was not counted", file=sys.stderr)


def money(one: UsageSum) -> str:
    """US dollars; `?` if no price is known, `+ ?` if some are missing."""
    if one.cost is None:
        return "?"
    return f"${one.cost:,.4f}" + (" + ?" if one.unpriced else "")


def _print_bars(title: str, sums: Mapping[str, UsageSum], *, by_size: bool = True) -> None:
    rows = list(sums.items())
    if not rows:
        return
    if by_size:
        rows.sort(key=lambda row: (-_size(row[1]), row[0]))
    largest = max(_size(one) for _, one in rows) or 1
    names = [cut(plain(name), 28) for name, _ in rows[: BARS if by_size else DAYS]]
    width = max(10, min(40, shutil.get_terminal_size((100, 24)).columns - 70))
    print(f"\nper {title}")
    for name, (_, one) in zip(names, rows, strict=False):
        drawn = drawn_bar(_size(one) / largest, width)
        used = f"{_size(one):,} tokens".rjust(18) + counted(one.turns, "turn").rjust(11)
        print(f"  {padded(name, max(map(cells, names)))}  {drawn:<{width}}  {used}  {money(one)}")
    if len(rows) > len(names):
        print(f"  ... {len(rows) - len(names)} more; --json shows all")


def drawn_bar(share: float, width: int) -> str:
    """A bar in eighths of a character; never empty for a share above zero."""
    eighths = max(1 if share > 0 else 0, round(share * width * 8))
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (" ▏▎▍▌▋▊▉"[rest] if rest else "")


def _size(one: UsageSum) -> int:
    return one.input_tokens + one.output_tokens


def _as_json(found: UsageStatistics) -> dict[str, Any]:
    return {
        "total": _sum_as_json(found.total),
        "messages": found.messages,
        "models": {name: _sum_as_json(one) for name, one in found.models.items()},
        "projects": {name: _sum_as_json(one) for name, one in found.projects.items()},
        "days": {name: _sum_as_json(one) for name, one in found.days.items()},
        "damaged": found.damaged,
    }


def _sum_as_json(one: UsageSum) -> dict[str, Any]:
    return {
        "sessions": one.sessions,
        "turns": one.turns,
        "replies": one.replies,
        "input_tokens": one.input_tokens,
        "output_tokens": one.output_tokens,
        "cache_read_tokens": one.cache_read_tokens,
        "reasoning_tokens": one.reasoning_tokens,
        "cost_usd": one.cost,
        "unpriced_replies": one.unpriced,
    }
