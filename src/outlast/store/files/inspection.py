"""What is wrong, or only worth knowing, with the files themselves: beside the events, which are judged by their hashes.

Lines that are no events or stand twice, first lines, small files by their checksums, what dead writers left, an index
that knows more than the log, and files that nobody knows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from outlast.core.errors import OutlastError
from outlast.core.ids import is_id
from outlast.store.files import disk, former_name, redo_record, setup
from outlast.store.files.directory import StoreDirectory
from outlast.store.files.keys import SCOPES, KeyScope
from outlast.store.files.line import intact, seq_in
from outlast.store.files.lock import NAME as LOCK
from outlast.store.files.paths import FILES, SessionPaths
from outlast.store.files.segment import Segment, pieces
from outlast.store.files.session import SessionCapture
from outlast.store.files.session_list import scan
from outlast.store.files.small_files import ROUTES, RouteTable, read_lineage
from outlast.store.read.inspection import StoreFlaw


def segment_files(place: SessionPaths) -> list[Path]:
    """Every segment that lies there, in order, whatever is missing between them."""
    numbers: list[int] = []
    for name in os.listdir(place.folder):
        match = FILES.fullmatch(name)
        if match is not None and match[1] == place.session_id and match[2] and match[3] == "jsonl":
            numbers.append(int(match[2]))
    return [*(place.sealed(number) for number in sorted(numbers)), place.live]


# --- one session


def flaws_of(folder: StoreDirectory, session_id: str, capture: SessionCapture) -> Iterator[StoreFlaw]:
    place = SessionPaths(folder.path, session_id)
    for path in segment_files(place):
        yield from _told(_in_segment(path, session_id))
    if capture.torn:
        left = f"{capture.torn} bytes behind its last event were left by a write that never finished"
        yield StoreFlaw(f"{left}; whoever writes next sets them aside", damage=False)
    number = 1
    while (found := _look(place.torn(number))) is not None:
        text = f"{place.torn(number).name} keeps {found.st_size} bytes of a write that never finished"
        yield StoreFlaw(text, damage=False)
        number += 1
    yield from _told(_index(folder, session_id, capture))


def _index(folder: StoreDirectory, session_id: str, capture: SessionCapture) -> Iterator[StoreFlaw]:
    """Only what is durable is noted, so a log never ends before its note."""
    note, row = folder.index.get(session_id), capture.row
    if note is None or row is None or row.deleted_at is not None or note.row.last_seq <= row.last_seq:
        return
    now = folder.capture(session_id)  # somebody may have written since
    if now.segments is not None:
        now.segments.close()
    if now.row is not None and now.row.deleted_at is None and note.row.last_seq > now.row.last_seq:
        yield StoreFlaw(
            f"its log ends at event {now.row.last_seq}, but the index knows event {note.row.last_seq}: its end was "
            "lost, or an older copy was put in its place (if that was meant, remove the folder index)"
        )


def _in_segment(path: Path, session_id: str) -> Iterator[StoreFlaw]:
    segment = Segment.open(path)
    if segment is None:
        return
    with closing(segment):
        head = segment.head
        if head is None or head.session != session_id:
            yield StoreFlaw(f"the first line of {path.name} does not match its checksum")
        yield from _lines(segment, head.base_seq if head else None)


def _lines(segment: Segment, last: int | None) -> Iterator[StoreFlaw]:
    """Lines that take no event away, and yet are not as they were written. `last` is the event before the first."""
    name, unread, before = segment.path.name, 0, b""
    for piece in pieces(segment.fd, segment.body_at, segment.size):
        if not intact(piece.text):
            unread += 1
            continue
        seq = seq_in(piece.text)
        if piece.text == before:
            yield StoreFlaw(f"event {seq} stands in {name} twice", damage=False)
        elif last is not None and seq <= last:
            yield StoreFlaw(f"a line of event {seq} stands in {name} where event {last + 1} should")
        elif last is not None and seq == last + 1 and unread:
            yield StoreFlaw(f"{name} holds something before event {seq} that is no event")
        if not piece.complete:
            yield StoreFlaw(f"the last line of {name} lacks its newline; whoever writes next adds it", damage=False)
        last, unread, before = max(seq, last or 0), 0, piece.text


# --- the whole directory


def flaws_between(folder: StoreDirectory) -> Iterator[StoreFlaw]:
    """Every small file by its checksum; what was left over; the names of files nobody knows."""
    noted = folder.index.sessions()
    yield from _strangers(folder)
    for name in _names(folder.path / SCOPES):
        if name.endswith(".jsonl"):
            yield from _trouble(lambda name=name: KeyScope(folder.path, f"{SCOPES}/{name[:-6]}").refresh())
    for left in redo_record.outstanding(folder.path) if (folder.path / redo_record.FOLDER).is_dir() else ():
        yield StoreFlaw(
            f"an unfinished commit is left in {redo_record.FOLDER}/{left}.json; opening the store for writing ends it"
        )
    yield from _trouble(lambda: RouteTable.load(folder.path))
    sessions = scan(folder)
    for session_id in sorted(sessions):
        place = SessionPaths(folder.path, session_id)
        yield from _trouble(lambda place=place: read_lineage(place))
    for session_id in noted:
        if session_id not in sessions and folder.index.get(session_id) is not None:
            yield StoreFlaw(f"the index knows session {session_id}, and its files are gone")


def _strangers(folder: StoreDirectory) -> Iterator[StoreFlaw]:
    known = {setup.NAME, former_name.NAME, ROUTES, LOCK, setup.FORMER_COUNTER, *setup.FOLDERS, *setup.HARMLESS}
    sessions = scan(folder)
    for name in _names(folder.path):
        session_id = name[:26]
        if is_id(session_id) and name[26:27] == ".":
            if session_id not in sessions:
                yield StoreFlaw(f"{name} is here, and no event of that session", damage=False)
        elif name not in known:
            yield StoreFlaw(f"{name} is not a file of this store", damage=False)


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []


def _look(path: Path) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None


def _trouble(check: Callable[[], object]) -> Iterator[StoreFlaw]:
    """Why something cannot be read."""
    try:
        check()
    except (OutlastError, OSError) as error:
        yield StoreFlaw(str(disk.translation(error, Path(getattr(error, "filename", None) or "."))))


def _told(flaws: Iterator[StoreFlaw]) -> Iterator[StoreFlaw]:
    """What a check finds, until something cannot be read."""
    try:
        yield from flaws
    except (OutlastError, OSError) as error:
        yield StoreFlaw(str(disk.translation(error, Path(getattr(error, "filename", None) or "."))))
