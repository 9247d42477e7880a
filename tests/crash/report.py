"""The report of a run: Markdown with its figures, and a chart beside it."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tests.crash.chart import chart
from tests.crash.history import history
from tests.crash.laboratory import Outcome
from tests.crash.scenario import Tale
from tests.crash.violation import Violation

LOST = ("lost", "gap", "damaged")
TWICE = ("answered twice", "admitted twice", "two turns", "two attempts")
RUN_TWICE = ("run twice", "run unrecorded", "run denied", "not run", "not unknown", "stale writer")
STUCK = ("stuck", "unanswered call", "given up")
HEARD = ("stream",)


@dataclass
class Figures:
    """What a run comes to."""

    endings: Counter[str]
    calls: Counter[str]
    take_overs: int
    recovered_turns: int
    attempts_lost: int
    events: int
    sessions: int

    @classmethod
    def of(cls, outcome: Outcome) -> Figures:
        rows = outcome.evidence.stored.rows
        tale = Tale.of(outcome.evidence)
        kinds = Counter(row.kind for session in rows.values() for row in session)
        return cls(
            endings=Counter(turn.outcome for turn in tale.turns),
            calls=Counter(told.status or "open" for told in tale.calls.values()),
            take_overs=sum(turn.recoveries for turn in tale.turns),
            recovered_turns=sum(turn.recoveries > 0 for turn in tale.turns),
            attempts_lost=kinds["ReplyInterrupted"],
            events=sum(len(session) for session in rows.values()),
            sessions=len(rows),
        )


def write_report(path: Path, outcome: Outcome, found: Sequence[Violation]) -> None:
    """FILE.md, and FILE.svg next to it."""
    picture = path.with_suffix(".svg")
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.write_text(chart(outcome), encoding="utf-8")
    path.write_text("\n".join(_page(outcome, found, picture.name)) + "\n", encoding="utf-8")


def _page(outcome: Outcome, found: Sequence[Violation], picture: str) -> Iterator[str]:
    faults = sum(outcome.faults.values())
    kinds = Counter(violation.kind for violation in found)
    yield f"# Soak: {faults} faults in one run"
    yield ""
    yield "Made by `python -m tests.crash` ([the laboratory](laboratory.md)), whose checker imports no Outlast."
    yield ""
    yield "| promise | broken |"
    yield "|---|---:|"
    for words, broken in (
        ("acknowledged and lost, a seq missing, a hash unsound", LOST),
        ("admitted or answered twice", TWICE),
        ("a command run twice, unrecorded, or told otherwise than it was", RUN_TWICE),
        ("stuck, or given up without a reason that counts", STUCK),
        ("a client's log other than the store's", HEARD),
        ("anything else", tuple(kinds.keys() - {*LOST, *TWICE, *RUN_TWICE, *STUCK, *HEARD})),
    ):
        yield f"| {words} | {sum(kinds[kind] for kind in broken)} |"
    yield ""
    yield f"![faults, answers and recoveries over time]({picture})"
    yield ""
    yield from _facts(outcome)
    if found:
        yield from _findings(outcome, found)


def _facts(outcome: Outcome) -> Iterator[str]:
    setup, figures, counts = outcome.setup, Figures.of(outcome), Counter(outcome.counts)
    yield f"- **Run**: seed {setup.seed}, {datetime.now(UTC):%Y-%m-%d}, {setup.store}, {setup.servers} servers,"
    yield f"  {setup.workers} workers, {setup.users} users, leases of {setup.lease_seconds:g} s;"
    yield f"  {outcome.seconds / 60:.1f} minutes on {platform.system()} {platform.machine()} ({os.cpu_count()} cores),"
    yield f"  Python {platform.python_version()}."
    yield f"- **Faults**: {_listed(outcome.faults)}."
    yield f"  The model server added its own: {_listed(outcome.model_faults)}."
    for kind, why in outcome.skipped.items():
        yield f"- **Left out**: {kind}: {why}."
    yield f"- **Messages**: {len(outcome.evidence.acks)} acknowledged in {figures.sessions} sessions;"
    yield f"  {counts['posts']} requests, of which {counts['no answer']} got no answer and were repeated;"
    yield f"  {counts['repeats']} were repeated after they had been acknowledged."
    yield f"- **Turns**: {_listed(figures.endings)}. {figures.recovered_turns} of them were taken over,"
    yield f"  {figures.take_overs} times in all; {figures.attempts_lost} replies broke off and were asked for again."
    yield f"- **Calls**: {_listed(figures.calls)}; {len(outcome.evidence.witness)} lines in the witness file."
    yield f"- **Streams**: {counts['streams']} connections, {counts['streams cut']} cut by the client,"
    yield f"  {counts['streams broken']} refused or broken by a fault."
    yield f"- **Settled** {outcome.settle_seconds:.1f} s after the last fault; {figures.events} events."
    yield f"  Processes that were asked to stop ended within {outcome.longest_leave:.1f} s."


def _findings(outcome: Outcome, found: Sequence[Violation]) -> Iterator[str]:
    yield ""
    yield "## Found"
    for violation in found[:20]:
        yield f"\n**{violation}**\n\n```"
        yield from history(violation, outcome.evidence, outcome.diary.entries)
        yield "```"


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items(), key=lambda item: -item[1])) or "none"
