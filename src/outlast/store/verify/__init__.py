"""Proof of integrity: recompute everything that can be recomputed, and name exactly what is damaged.

Damage never stops the search: every other event, session and table is still looked at. What is whole in a damaged
session comes out by `salvage`. The chain shows accidents; it is no proof against someone who may rewrite the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from outlast.core.errors import OutlastError, SessionNotFound
from outlast.core.event_row import StoredEvent
from outlast.store.log_store import LogStore
from outlast.store.read.inspection import StoredKey
from outlast.store.read.read_view import ReadView
from outlast.store.verify.base_history import MessageCounts, Stretch, history
from outlast.store.verify.chain import judged
from outlast.store.verify.cross_session import SessionIndex
from outlast.store.verify.report import DamageKind, Finding, VerifyReport
from outlast.store.verify.session import SessionCheck

__all__ = ["DamageKind", "Finding", "VerifyReport", "salvage", "verify"]

Progress = Callable[[int, int], None]
"""Told after each session: how many are done, and how many there are."""


def verify(
    store: LogStore, session_id: str | None = None, *, deep: bool = False, progress: Progress | None = None
) -> VerifyReport:
    """Check one session, or all of them and what holds between them. Others may write meanwhile.

    `deep` lets the adapter look at every page, index and constraint, however long that takes.
    """
    report = VerifyReport(findings=[])
    if session_id is None:
        sessions = SessionIndex(store)
        report.findings += sessions.findings(deep)
        names, standing_on = sessions.names, sessions.standing_on
    else:
        names, standing_on = [session_id], {}
        with store.inspect() as view:
            _refuse_unknown(view, session_id)
            report.findings += _inherited_damage(view, session_id)
    counts = MessageCounts()
    for first in range(0, len(names), store.sessions_at_once):
        batch = names[first : first + store.sessions_at_once]
        # One view for a batch: keys are found by one walk over all of them, and must be as old as the events.
        with store.inspect() as view:
            keys = _keys(view, batch, report)
            for number, name in enumerate(batch, first + 1):
                check = SessionCheck(view, name, keys[name] if keys is not None else None, counts)
                check.run(report, standing_on.get(name, 0))
                if progress is not None:
                    progress(number, len(names))
    return report


def salvage(store: LogStore, session_id: str) -> Iterator[StoredEvent | Finding]:
    """Every event of a session that is whole, inherited ones first, in order; findings stand where damage is.

    An event behind a missing one cannot be proven; it comes out too, with a finding before it that says so.
    """
    with store.inspect() as view:
        _refuse_unknown(view, session_id)
        for stretch in history(view, session_id):
            yield from _salvaged(view, stretch)


def _salvaged(view: ReadView, stretch: Stretch) -> Iterator[StoredEvent | Finding]:
    owner, row, upto = stretch
    if row is None:
        yield Finding(what=DamageKind.HEADER, session_id=owner, text="its header cannot be read")
    for event, finding in judged(view, owner, row, upto or 0):
        seq = event.seq if event is not None else finding.seq if finding is not None else None
        if seq is not None and upto is not None and seq > upto:
            continue
        if finding is not None:
            yield finding
        if event is not None:
            yield event


def _inherited_damage(view: ReadView, session_id: str) -> list[Finding]:
    """What is wrong with the history that a session stands on."""
    stretches = history(view, session_id)[:-1]
    return [found for stretch in stretches for found in _salvaged(view, stretch) if isinstance(found, Finding)]


def _refuse_unknown(view: ReadView, session_id: str) -> None:
    if session_id not in view.everything()[0]:
        raise SessionNotFound(f"no session {session_id}; `outlast sessions list` shows those there are")


def _keys(view: ReadView, names: list[str], report: VerifyReport) -> dict[str, list[StoredKey]] | None:
    found: dict[str, list[StoredKey]] = {name: [] for name in names}
    try:
        for key in view.keys_of(names):
            found.setdefault(key.row.session_id, []).append(key)
    except OutlastError as error:
        finding = Finding(what=DamageKind.KEY, text=f"the keys cannot be read: {error}")
        report.findings += [finding] if finding not in report.findings else []
        return None
    return found
