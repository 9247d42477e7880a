"""Usage statistics: sessions, turns, tokens and cost, per model, project and day, computed from the logs.

Each session's own events are read once. A cache keeps the result per session up to its last event, so the next run
reads only new events; the cache may be deleted at any time. Unknown costs stay unknown: sums tell how many replies they
do not cover.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from outlast.app.sessions.session_list import is_there, open_readonly
from outlast.app.settings import Settings, load_settings
from outlast.core import events as e
from outlast.core.errors import DamagedSession, SessionNotFound
from outlast.core.header import Header
from outlast.core.messages import Usage
from outlast.core.usage import ModelUsage
from outlast.runtime import private_file
from outlast.runtime.prompt.project_identity import project_fingerprint, project_key
from outlast.store.engine.encode import event_of
from outlast.store.log_store import LogStore
from outlast.store.port import Query

Progress = Callable[[int, int], None]

PAGE = 512
CACHE_VERSION = 1
COUNTED = frozenset({"AssistantReplied", "ReplyInterrupted", "UsageRecorded", "Compacted", "TurnStarted"})
UNKNOWN = "unknown"


class UsageSum(ModelUsage, kw_only=True, omit_defaults=False):
    """Tokens and cost of replies, and the number of their turns and sessions."""

    turns: int = 0
    replies: int = 0
    sessions: int = 0

    def take(self, other: UsageSum) -> None:
        for name in UsageSum.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def cost(self) -> float | None:
        """In US dollars; None if no reply has a known price."""
        known = self.replies > self.unpriced or self.cost_micros > 0
        return self.cost_micros / 1_000_000 if known or not self.replies else None


class UsageTally(msgspec.Struct, kw_only=True):
    """Usage of one session up to `last_seq`, by day and model."""

    last_seq: int = 0
    hash: bytes = b""
    days: dict[str, dict[str, UsageSum]] = {}


class UsageStatistics(msgspec.Struct, kw_only=True):
    total: UsageSum
    messages: int
    models: dict[str, UsageSum]
    projects: dict[str, UsageSum]
    days: dict[str, UsageSum]
    damaged: list[str] = []
    uncounted: int = 0
    """Sessions that are not in the sums yet, because the caller's time was up; the next call goes on with them."""


def stats(
    url: str | None, *, project: Path | None = None, owner_id: str = "local", progress: Progress | None = None
) -> UsageStatistics:
    if not is_there(url):
        return UsageStatistics(total=UsageSum(), messages=0, models={}, projects={}, days={})
    with open_readonly(url) as store:
        return stats_of(store, cache_file(url), project=project, owner_id=owner_id, progress=progress)


def stats_of(
    store: LogStore,
    place: Path,
    *,
    project: Path | None = None,
    owner_id: str = "local",
    progress: Progress | None = None,
    seconds: float | None = None,
) -> UsageStatistics:
    """Like `stats`, for an open store, with the cache at `place`. With `seconds`, sessions whose events are not read by
    then are left out and counted in `uncounted`: the first call on a large store would take long."""
    until = None if seconds is None else time.monotonic() + seconds
    found = UsageStatistics(total=UsageSum(), messages=0, models={}, projects={}, days={})
    cache = _read(place)
    kept: dict[str, UsageTally] = {}
    headers = _headers(store, owner_id, project)
    for done, header in enumerate(headers):
        if progress is not None:
            progress(done, len(headers))
        known = cache.get(header.session_id)
        if until is not None and not _is_current(known, header) and time.monotonic() > until:
            found.uncounted += 1
            if known is not None:
                kept[header.session_id] = known
            continue
        try:
            tally = _tally(store, header, known)
        except SessionNotFound:
            continue
        except DamagedSession:
            found.damaged.append(header.session_id)
            continue
        kept[header.session_id] = tally
        _add(found, header, tally)
    if kept != cache:
        _write(place, kept if project is None else cache | kept)
    found.days = dict(sorted(found.days.items()))
    return found


def _headers(store: LogStore, owner_id: str, project: Path | None) -> list[Header]:
    query = Query(owner_id=owner_id, limit=PAGE)
    if project is not None:
        query = msgspec.structs.replace(
            query, project_key=project_key(project), project_fingerprint=project_fingerprint(project)
        )
    headers: list[Header] = []
    while True:
        page = store.find(query)
        headers += page.headers
        if page.cursor is None:
            return headers
        query = msgspec.structs.replace(query, cursor=page.cursor)


# --- one session -----------------------------------------------------------------------------------------------------


def _tally(store: LogStore, header: Header, known: UsageTally | None) -> UsageTally:
    if known is not None and _is_current(known, header):
        return known
    if known is None or known.last_seq >= header.last_seq or not _still_there(store, header, known):
        known = UsageTally(last_seq=header.base_seq)
    while known.last_seq < header.last_seq:
        page = store.read(header.session_id, after=known.last_seq, before=header.last_seq + 1, limit=PAGE)
        if not page:
            break
        for stored in page:
            if stored.kind in COUNTED:
                _count(known, stored.at, event_of(stored, lambda name, at=stored: store.blob(at.session_id, name)))
        known.last_seq, known.hash = page[-1].seq, page[-1].hash
    return known


def _is_current(known: UsageTally | None, header: Header) -> bool:
    return known is not None and (known.last_seq, known.hash) == (header.last_seq, header.head_hash)


def _still_there(store: LogStore, header: Header, known: UsageTally) -> bool:
    rows = store.read(header.session_id, after=known.last_seq - 1, before=known.last_seq + 1)
    return bool(rows) and rows[0].hash == known.hash


def _count(tally: UsageTally, at: int, event: e.Event | e.Opaque) -> None:
    match event:
        case e.TurnStarted(model=model):
            _sum(tally, at, model).turns += 1
        case e.AssistantReplied(usage=usage, model=model):
            one = _sum(tally, at, model)
            one.replies += 1
            one.add(usage)
        case e.ReplyInterrupted(usage=usage, model=model) | e.UsageRecorded(usage=usage, model=model):
            if usage != Usage():
                _sum(tally, at, model).add(usage)
        case e.Compacted(usage=usage, model=model) if usage != Usage():
            _sum(tally, at, model).add(usage)
        case _:
            pass


def _sum(tally: UsageTally, at: int, model: str | None) -> UsageSum:
    return tally.days.setdefault(day_of(at), {}).setdefault(model or UNKNOWN, UsageSum())


def day_of(at: int) -> str:
    try:
        return datetime.fromtimestamp(at / 1_000_000, UTC).strftime("%Y-%m-%d")
    except (ValueError, OverflowError, OSError):
        return "?"


def _add(found: UsageStatistics, header: Header, tally: UsageTally) -> None:
    found.messages += header.message_count
    project = found.projects.setdefault(header.project_root or "-", UsageSum())
    models: set[str] = set()
    for day, sums in tally.days.items():
        found.days.setdefault(day, UsageSum()).sessions += 1
        for model, one in sums.items():
            for total in (found.total, project, found.days[day], found.models.setdefault(model, UsageSum())):
                total.take(one)
            models.add(model)
    for model in models:
        found.models[model].sessions += 1
    project.sessions += 1
    found.total.sessions += 1


# --- the cache -------------------------------------------------------------------------------------------------------


class _Cache(msgspec.Struct):
    version: int
    tallies: dict[str, UsageTally]


def cache_file(url: str | None) -> Path:
    return cache_of(load_settings(store=url))


def cache_of(settings: Settings) -> Path:
    return settings.home / "cache" / f"stats-{hashlib.sha256(settings.store.encode()).hexdigest()[:16]}"


def forget(url: str | None, session_id: str) -> None:
    """Remove a session from the cache."""
    forget_at(cache_file(url), session_id)


def forget_at(place: Path, session_id: str) -> None:
    cache = _read(place)
    if cache.pop(session_id, None) is not None:
        _write(place, cache)


def _read(place: Path) -> dict[str, UsageTally]:
    try:
        found = msgspec.msgpack.decode(place.read_bytes(), type=_Cache)
    except (OSError, msgspec.MsgspecError):
        return {}
    return found.tallies if found.version == CACHE_VERSION else {}


def _write(place: Path, tallies: dict[str, UsageTally]) -> None:
    """Best effort: the cache is optional."""
    with suppress(OSError):
        private_file.replace(place, msgspec.msgpack.encode(_Cache(CACHE_VERSION, tallies)))
