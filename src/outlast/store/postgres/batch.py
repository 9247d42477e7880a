"""A batch of commits put into steps: appends together, everything else by the engine, each session in its order."""

from __future__ import annotations

from typing import NamedTuple

from outlast.store.engine import sessions_of
from outlast.store.group import Entry
from outlast.store.postgres.appending import is_plain


class Step(NamedTuple):
    """What goes into one transaction. `plain` appends go through the SQL function, the rest through the engine."""

    plain: bool
    entries: list[Entry]


def steps_of(batch: list[Entry]) -> list[Step]:
    """The entries in steps, so that no commit overtakes an earlier one that names the same session.

    Appends join the newest step of appends that they may join, however many other commits came between.
    """
    if all(is_plain(entry.commit) for entry in batch) and _differ(batch):
        return [Step(True, batch)]
    steps: list[Step] = []
    engine_step: dict[str, int] = {}
    keys: set[str | None] = set()
    appends = -1
    for entry in batch:
        writes = entry.commit.writes
        sessions = [name for sealed in writes for name in sessions_of(sealed.write)]
        # The same key twice in one step would be a collision with ourselves.
        if is_plain(entry.commit) and writes[0].key not in keys:
            keys.add(writes[0].key)
            if appends <= engine_step.get(sessions[0], -1):
                steps.append(Step(True, []))
                appends = len(steps) - 1
            steps[appends].entries.append(entry)
            continue
        if not steps or steps[-1].plain:
            steps.append(Step(False, []))
        steps[-1].entries.append(entry)
        engine_step.update(dict.fromkeys(sessions, len(steps) - 1))
    return steps


def _differ(appends: list[Entry]) -> bool:
    """Whether no two of them have the same key."""
    return len({entry.commit.writes[0].key for entry in appends}) == len(appends)
