"""Taking words away for good: redaction rewrites a segment, deletion removes what no fork stands on.

Segments are rewritten as a whole and take the place of the old ones in the commit; the index forgets the session. Bytes
that the file system keeps of removed files are beyond this store.
"""

from __future__ import annotations

import os
from contextlib import closing
from copy import copy

from outlast.core.codec import BlobReader
from outlast.core.event_row import StoredEvent
from outlast.core.events import Opaque
from outlast.core.header import REDACTED, Delta, delta_of
from outlast.store.engine.encode import event_of
from outlast.store.engine.transaction import HeaderRow
from outlast.store.files.keys import keys_file
from outlast.store.files.line import EventLine, SegmentHead, decode, encode, line_of
from outlast.store.files.redo_record import RedoLog
from outlast.store.files.segment import Segment, SegmentSet, pieces
from outlast.store.files.session_change import SessionChange
from outlast.store.files.small_files import gone_file


def add_removal(work: RedoLog, change: SessionChange, appended: bytes) -> None:
    """The operations that redact, scrub or bury one session. `appended` are the lines that the same commit adds."""
    session = change.session
    with closing(session.segments()) as segments:
        if change.drop_after is not None:
            _drop(work, change, segments, change.drop_after)
        else:
            _rewrite(work, change, segments, appended)
    work.forget(session.place.session_id)
    if change.buried:
        _bury(work, change)


def _rewrite(work: RedoLog, change: SessionChange, segments: SegmentSet, appended: bytes) -> None:
    place, last = change.session.place, len(segments)
    touched = {segments.holding(seq) for seq in change.blanks}
    if change.scrubbed or _given_words(change):
        touched.add(1)
    for number in sorted(touched):
        segment = segments.get(number)
        data = _rewritten(change, segment, None)
        if number == last and change.session.fd >= 0:
            data, appended = data + appended, b""
        work.put(segment.path, data)
    if appended and change.session.fd >= 0:
        work.add(place.live, change.session.size, appended)
    elif appended:
        row = change.session.row
        assert row is not None
        head = SegmentHead(1, row.session_id, change.session.sealed + 1, row.last_seq, row.head_hash.hex())
        work.put(place.live, encode(head) + appended)


def _given_words(change: SessionChange) -> bool:
    """Whether what was redacted may also stand in what the session was created with."""
    return REDACTED in (change.row.title, change.row.pending_text)


def _drop(work: RedoLog, change: SessionChange, segments: SegmentSet, keep: int) -> None:
    for number in range(1, len(segments) + 1):
        segment = segments.get(number)
        base = segment.begins_after()
        if base is None or base >= keep:
            work.remove(segment.path)
        elif number == 1 or segment.last_seq is None or segment.last_seq > keep:
            work.put(segment.path, _rewritten(change, segment, keep))


def _rewritten(change: SessionChange, segment: Segment, keep: int | None) -> bytes:
    """The segment's bytes without the words that are taken away. Lines that cannot be read stay as they are."""
    texts: list[bytes] = []
    head = segment.head
    if head is not None:
        if head.header is not None:
            head.header = _scrubbed(head.header, change.row)
        texts.append(encode(head))
    for piece in pieces(segment.fd, segment.body_at if head else 0, segment.size):
        line = decode(piece.text)
        if line is not None and keep is not None and line.seq > keep:
            break
        if line is not None and line.seq in change.blanks:
            texts.append(encode(_blanked(line, change.blanks[line.seq], change.session.blob)))
        else:
            texts.append(piece.text + b"\n")
    return b"".join(texts)


def _scrubbed(given: HeaderRow, now: HeaderRow) -> HeaderRow:
    scrubbed = copy(given)
    if now.deleted_at is not None:
        scrubbed.title = scrubbed.pending_text = scrubbed.project_root = scrubbed.model = scrubbed.persona = None
        scrubbed.place = None
    if now.title == REDACTED and given.title is not None:
        scrubbed.title = REDACTED
    if now.pending_text == REDACTED and given.pending_text is not None:
        scrubbed.pending_text = REDACTED
    return scrubbed


def _blanked(line: EventLine, digest: bytes, blob: BlobReader) -> EventLine:
    event = line.event()
    blanked = line_of(event._replace(body=digest, redacted=True), line.u)
    for name in ("more", "scope", "count", "digest", "lease", "masked", "imported"):
        setattr(blanked, name, getattr(line, name))
    blanked.delta = _without_words(event, blob)
    return blanked


def _without_words(event: StoredEvent, blob: BlobReader) -> Delta:
    """What the event had added to its header, so that the header can be added up again."""
    found = event_of(event, blob)
    delta = Delta() if isinstance(found, Opaque) else delta_of(found, event.turn)
    delta = copy(delta)
    delta.title = REDACTED if delta.title is not None else None
    delta.first_title = REDACTED if delta.first_title is not None else None
    delta.pending_text = REDACTED if delta.pending_text is not None else None
    return delta


def _bury(work: RedoLog, change: SessionChange) -> None:
    session, place = change.session, change.session.place
    work.put(place.gone, gone_file(change.row))
    if session.row is not None and session.row.deleted_at is None:
        work.put(place.gone_keys, keys_file(place.session_id, list(session.keyed_lines())))
    for path in (place.draft, place.lease, place.keys()):
        work.remove(path)
    number = 1
    while os.path.lexists(place.torn(number)):
        work.remove(place.torn(number))
        number += 1
