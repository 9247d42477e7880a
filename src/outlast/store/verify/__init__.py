"""Integrity checks: `verify` recomputes everything that can be recomputed and reports exactly what is damaged.

Damage never ends the run: every other event, session and table is still checked. `salvage` extracts the intact events
of a damaged session. The hash chain detects accidents; it does not protect against a party that can rewrite the store.
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
"""Called after each session with the number done and the total."""


def verify(
    store: LogStore, session_id: str | None = None, *, deep: bool = False, progress: Progress | None = None
) -> VerifyReport:
    """Check one session, or all sessions and the relations between them. Other processes may write meanwhile.

    With `deep` the adapter checks every page, index and constraint, however long that takes.
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
        # One view per batch: one scan finds the keys of all its sessions, and keys and events must be from one moment.
        with store.inspect() as view:
            keys = _keys(view, batch, report)
            for number, name in enumerate(batch, first + 1):
                check = SessionCheck(view, name, keys[name] if keys is not None else None, counts)
                check.run(report, standing_on.get(name, 0))
                if progress is not None:
                    progress(number, len(names))
    return report


def salvage(store: LogStore, session_id: str) -> Iterator[StoredEvent | Finding]:
    """Yield every intact event of a session in order, inherited ones first, with findings in place of damage.

    An event behind a missing one cannot be proven; it is yielded too, after a finding that says so.
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
    """Damage in the inherited history of a session."""
    stretches = history(view, session_id)[:-1]
    return [found for stretch in stretches for found in _salvaged(view, stretch) if isinstance(found, Finding)]


def _refuse_unknown(view: ReadView, session_id: str) -> None:
    if session_id not in view.everything()[0]:
        raise SessionNotFound(f"no session {session_id}; `outlast sessions list` shows the existing ones")


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
