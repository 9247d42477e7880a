"""Verify, back up, export and upgrade a store for doors. The store is opened by its URL and never created by reading.

A copy counts as a backup only after it has been verified.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import msgspec

from outlast.app.sandbox import sandbox_line, sandbox_report
from outlast.app.settings import load_settings
from outlast.core import codec
from outlast.core.errors import OutlastError, SessionNotFound
from outlast.core.event_row import StoredEvent
from outlast.core.ids import ID_LENGTH, is_id
from outlast.runtime.sandbox.port import SandboxTier
from outlast.store import open_existing, open_store, open_to_read
from outlast.store.doctor import Check, CheckStatus, examine
from outlast.store.doctor.check import ok, warn
from outlast.store.doctor.schema_status import SchemaStatus, schema_of
from outlast.store.engine.encode import plain_body
from outlast.store.engine.remove import mentioned
from outlast.store.log_store import LogStore
from outlast.store.maintenance.migrations import UpgradeProgress
from outlast.store.verify import DamageKind, Finding, VerifyReport, salvage, verify
from outlast.store.verify.wal import log_findings

__all__ = [
    "Check",
    "CheckStatus",
    "Finding",
    "SchemaStatus",
    "UpgradeResult",
    "VerifyReport",
    "back_up",
    "examine_store",
    "exported",
    "exported_from",
    "schema",
    "upgrade",
    "verify_store",
]

Progress = Callable[[int, int], None]


def verify_store(
    url: str | None, session: str | None, *, deep: bool = False, progress: Progress | None = None
) -> VerifyReport:
    """Verify all sessions, or the one whose id starts with `session`."""
    place = _url(url)
    lost = log_findings(place)  # before the database is opened
    with closing(open_to_read(place)) as store:
        report = verify(store, _named(store, session) if session else None, deep=deep, progress=progress)
    report.findings[:0] = lost
    return report


def back_up(
    url: str | None, target: Path, *, copying: Progress | None = None, verifying: Progress | None = None
) -> tuple[str, VerifyReport]:
    """Make an online copy of the store and verify it; return the copy's URL and the report."""
    with closing(open_to_read(_url(url))) as store:
        return verified_backup(store, target.expanduser().absolute(), copying=copying, verifying=verifying)


def examine_store(url: str | None) -> Iterator[Check]:
    """Run all checks: the store and the machine, then what confines shell commands here."""
    settings = load_settings(store=url)
    yield from examine(settings.store, settings.home)
    report = sandbox_report(settings)
    if report.tier in {SandboxTier.BUBBLEWRAP, SandboxTier.SEATBELT, SandboxTier.EXTERNAL}:
        yield ok("sandbox", sandbox_line(report))
    else:
        remedy = "apt install bubblewrap, allow user namespaces, or set sandbox = external in a container of its own"
        yield warn("sandbox", sandbox_line(report), remedy)


def schema(url: str | None) -> SchemaStatus:
    return schema_of(_url(url))


class UpgradeResult(msgspec.Struct, frozen=True, kw_only=True):
    """`copy` is the store as it was before the upgrade, if a copy was made: the way back."""

    before: SchemaStatus
    after: SchemaStatus
    copy: Path | None = None


def upgrade(url: str | None, *, copying: Progress | None = None, filling: Progress | None = None) -> UpgradeResult:
    """Apply outstanding migrations, as opening a store does. Raises `SchemaTooNew` if the schema is newer than this
    version."""
    place = _url(url)
    before = schema_of(place)
    watch = UpgradeProgress(copying, filling)
    open_existing(place, watch=watch).close()
    return UpgradeResult(before=before, after=schema_of(place), copy=watch.copy)


def exported(url: str | None, session: str) -> Iterator[bytes | Finding]:
    """A session as JSON lines, lossless; a `Finding` takes the place of damaged rows, which are left out.

    One line per event with all fields of its row: `body` if it is JSON, otherwise `body_base64`. A line with `blob`
    comes before the first event that refers to that blob.
    """
    with closing(open_to_read(_url(url))) as store:
        yield from exported_from(store, _named(store, session))


def exported_from(store: LogStore, session_id: str) -> Iterator[bytes | Finding]:
    """Like `exported`, for an open store."""
    written: set[tuple[str, str]] = set()
    for found in salvage(store, session_id):
        if isinstance(found, Finding):
            yield found
            continue
        yield from _blobs(store, found, written)
        yield _line(found)


def _url(given: str | None) -> str:
    return load_settings(store=given).store


def _named(store: LogStore, session: str) -> str:
    """A full id is used as it is: that session may be deleted, or too damaged to be found by prefix."""
    if is_id(session):
        return session
    if len(session) >= ID_LENGTH:
        raise SessionNotFound(f"no session '{session}'; `outlast sessions list` shows the existing ones")
    return store.resolve(session)


def _line(event: StoredEvent) -> bytes:
    fields: dict[str, object] = {**event._asdict(), "hash": event.hash.hex(), "redacted": bool(event.redacted)}
    del fields["body"]
    if event.enc == "plain" and not event.redacted and _is_one_line_of_json(event.body):
        fields["body"] = msgspec.Raw(event.body)
    else:
        fields["body_base64"] = base64.b64encode(event.body).decode("ascii")
    return msgspec.json.encode(fields)


def _is_one_line_of_json(body: bytes) -> bool:
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return b"\n" not in body


def _blobs(store: LogStore, event: StoredEvent, written: set[tuple[str, str]]) -> Iterator[bytes | Finding]:
    named: set[str] = set()
    if not event.redacted and event.enc in ("plain", "zstd"):
        named = codec.blobs_named(plain_body(event))
    # Anything that looks like a digest may name a blob (pre-images are named in facts); only the store knows.
    for sha256 in sorted(named | (mentioned(event) or set())):
        if (event.session_id, sha256) in written:
            continue
        written.add((event.session_id, sha256))
        try:
            data = store.blob(event.session_id, sha256)
        except OutlastError as error:
            if sha256 not in named:
                continue
            text = str(getattr(error, "what", error))
            yield Finding(what=DamageKind.BLOB, session_id=event.session_id, seq=event.seq, text=text)
            continue
        line = {"blob": sha256, "session_id": event.session_id, "base64": base64.b64encode(data).decode("ascii")}
        yield msgspec.json.encode(line)


def verified_backup(
    store: LogStore, target: Path, *, copying: Progress | None = None, verifying: Progress | None = None
) -> tuple[str, VerifyReport]:
    """Copy the store to a path that does not exist yet, while other processes write; return the copy's URL and the
    verify report."""
    copy = store.backup(target, copying)
    with open_store(copy) as opened:
        report = verify(opened, progress=verifying)
    if target.is_file():
        _tidy(target)
    return copy, report


def _tidy(target: Path) -> None:
    """Remove the files that opening a SQLite copy leaves next to it; no other process uses the copy yet."""
    log = target.with_name(target.name + "-wal")
    if log.exists() and log.stat().st_size:
        return
    for suffix in ("-wal", "-shm", ".gate"):
        target.with_name(target.name + suffix).unlink(missing_ok=True)
