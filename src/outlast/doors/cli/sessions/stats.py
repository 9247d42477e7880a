"""`outlast sessions stats`: what was used, per model, project and day, drawn as bars."""

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from outlast.app.sessions.statistics import UsageStatistics, UsageSum
from outlast.app.sessions.statistics import stats as gather
from outlast.doors.cli.options import Json, Store
from outlast.doors.cli.output import counted, plain, print_json
from outlast.doors.cli.progress import bar
from outlast.doors.cli.sessions.arguments import verb
from outlast.doors.terminal_cells import cells, cut, padded

app = verb()
DAYS = 14
ROWS = 12


@app.command("stats")
def stats(
    this_project: Annotated[bool, typer.Option("--this-project", help="Only this project's sessions.")] = False,
    store: Store = None,
    json: Json = False,
) -> None:
    """Count sessions, turns, tokens and cost. A cost that is not known is shown as `?`."""
    with bar("counting", wanted=not json) as progress:
        found = gather(store, project=Path.cwd() if this_project else None, progress=progress)
    if json:
        print_json(_plain(found))
        return
    total = found.total
    print(f"{counted(total.sessions, 'session')}, {counted(total.turns, 'turn')}, {counted(found.messages, 'message')}")
    print(f"{total.input_tokens:,} tokens in, {total.output_tokens:,} out, cost {money(total)}")
    _bars("model", found.models)
    _bars("project", {Path(name).name or name: one for name, one in found.projects.items()})
    _bars("day", dict(list(found.days.items())[-DAYS:]), by_size=False)
    for session_id in found.damaged:
        print(f"outlast: session {session_id} is damaged and was not counted", file=sys.stderr)


def money(one: UsageSum) -> str:
    """US dollars; `?` where no price is known, `+ ?` where some are missing."""
    if one.cost is None:
        return "?"
    return f"${one.cost:,.4f}" + (" + ?" if one.unpriced else "")


def _bars(title: str, sums: Mapping[str, UsageSum], *, by_size: bool = True) -> None:
    rows = list(sums.items())
    if not rows:
        return
    if by_size:
        rows.sort(key=lambda row: (-_size(row[1]), row[0]))
    largest = max(_size(one) for _, one in rows) or 1
    names = [cut(plain(name), 28) for name, _ in rows[: ROWS if by_size else DAYS]]
    width = max(10, min(40, shutil.get_terminal_size((100, 24)).columns - 70))
    print(f"\nper {title}")
    for name, (_, one) in zip(names, rows, strict=False):
        drawn = drawn_bar(_size(one) / largest, width)
        used = f"{_size(one):,} tokens".rjust(18) + counted(one.turns, "turn").rjust(11)
        print(f"  {padded(name, max(map(cells, names)))}  {drawn:<{width}}  {used}  {money(one)}")
    if len(rows) > len(names):
        print(f"  ... {len(rows) - len(names)} more; --json shows all")


def drawn_bar(share: float, width: int) -> str:
    """A bar of eighths of a character, at least a trace where there is something."""
    eighths = max(1 if share > 0 else 0, round(share * width * 8))
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (" ▏▎▍▌▋▊▉"[rest] if rest else "")


def _size(one: UsageSum) -> int:
    return one.input_tokens + one.output_tokens


def _plain(found: UsageStatistics) -> dict[str, Any]:
    return {
        "total": _sum(found.total),
        "messages": found.messages,
        "models": {name: _sum(one) for name, one in found.models.items()},
        "projects": {name: _sum(one) for name, one in found.projects.items()},
        "days": {name: _sum(one) for name, one in found.days.items()},
        "damaged": found.damaged,
    }


def _sum(one: UsageSum) -> dict[str, Any]:
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
