"""The witness: a writer that says what it will write and what was acknowledged, and the check of a store against it.

Every event carries a mark that is used once in all the world, so that what was acknowledged can be looked for, and
looked for twice. A note goes to a file by one `write` each: what the kernel has, no kill can take back.
"""

import os
import random
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Self

import msgspec

from outlast.core import events as e
from outlast.core.errors import OutlastError, SessionBusy
from outlast.core.event_row import StoredEvent
from outlast.core.header import Header, apply, delta_of
from outlast.core.ids import id_from
from outlast.core.messages import Role, TextPart, text_of
from outlast.store import process_identity
from outlast.store.engine.encode import event_of
from outlast.store.log_store import LogStore
from outlast.store.port import Append, Base, Claim, Create, Lease, NewEvent, PutChunk, Query, Release, Write

SIZES = (20, 20, 600, 600, 6_000, 70_000)  # plain, compressed, and one that goes into a blob


class Try(msgspec.Struct, frozen=True, kw_only=True, tag="try"):
    """A write that is about to be tried; all that is needed to try it again."""

    mark: str
    kind: str
    session_id: str
    key: str | None = None
    count: int = 1
    size: int = 20
    base: tuple[str, int] | None = None


class Ack(msgspec.Struct, frozen=True, kw_only=True, tag="ack"):
    """A write that was acknowledged, and where it said that it is."""

    mark: str
    session_id: str
    first_seq: int
    seq: int


class Piece(msgspec.Struct, frozen=True, kw_only=True, tag="piece"):
    """A chunk of a draft that was acknowledged."""

    session_id: str
    attempt_seq: int
    n: int


class Held(msgspec.Struct, frozen=True, kw_only=True, tag="held"):
    """A lease that was acknowledged."""

    session_id: str
    epoch: int


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag="failed"):
    """A write that ended with an error nobody expected."""

    error: str


Note = Try | Ack | Piece | Held | Failed
_decoder = msgspec.json.Decoder(Note)


def new_id() -> str:
    return id_from(secrets.token_bytes(16))


def message(mark: str, number: int, size: int) -> NewEvent:
    text = f"{mark}/{number} ".ljust(size, "x")
    return NewEvent(event=e.MessageAppended(role=Role.USER, parts=(TextPart(text),)), actor="user")


def writes_of(tried: Try) -> tuple[Write, ...]:
    events = tuple(message(tried.mark, number, tried.size) for number in range(tried.count))
    if tried.kind == "append":
        return (Append(session_id=tried.session_id, events=events, key=tried.key, to_tip=True),)
    header, first = Header(session_id=tried.session_id), NewEvent(event=e.SessionCreated())
    if tried.base is None:
        return (Create(header=header, events=(first, *events), key=tried.key),)
    first = NewEvent(event=e.SessionForked(base_session_id=tried.base[0], base_seq=tried.base[1]))
    return (Create(header=header, events=(first, *events), base=Base(*tried.base), key=tried.key),)


class Notebook:
    """Where the writer's notes go; safe from any thread."""

    def __init__(self, put: Callable[[bytes], object]) -> None:
        self._put = put

    @classmethod
    def at(cls, path: Path) -> Self:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        return cls(lambda line: os.writev(fd, [line]))  # not `write`: that is for the store's own calls

    def write(self, note: Note) -> None:
        self._put(msgspec.json.encode(note) + b"\n")


def notes_from(lines: Iterable[bytes]) -> list[Note]:
    return [_decoder.decode(line) for line in lines]


def notes_in(path: Path) -> list[Note]:
    """All notes; one that the kill cut in two was never made."""
    return notes_from(path.read_bytes().split(b"\n")[:-1]) if path.exists() else []


class Writer:
    """One thread's worth of mixed writes on sessions that others write to as well."""

    def __init__(self, store: LogStore, notebook: Notebook, sessions: list[str], name: str, seed: int) -> None:
        self._store, self._notebook, self.sessions = store, notebook, sessions
        self._name, self._random, self._number = name, random.Random(seed), 0

    def step(self) -> None:
        choice = self._random.random()
        if not self.sessions or choice < 0.08:
            self._put(Try(mark=self._mark(), kind="create", session_id=new_id(), key=self._key()))
        elif choice < 0.14:
            self.fork()
        elif choice < 0.30:
            self.drive()
        else:
            self.append()

    def run(self, stop: threading.Event, steps: int = 10**9) -> None:
        while steps and not stop.is_set():
            steps -= 1
            try:
                self.step()
            except Exception as error:  # noqa: BLE001 - the writer reports, the test decides
                self._notebook.write(Failed(error=f"{type(error).__name__}: {error}"))
                return

    def _mark(self) -> str:
        self._number += 1
        return f"{self._name}.{self._number}"

    def _key(self) -> str | None:
        return f"key-{self._name}-{self._number}" if self._random.random() < 0.5 else None

    def append(self) -> None:
        size, count = self._random.choice(SIZES), self._random.choice((1, 1, 1, 3))
        session_id = self._random.choice(self.sessions)
        mark = self._mark()
        self._put(Try(mark=mark, kind="append", session_id=session_id, key=self._key(), count=count, size=size))

    def fork(self) -> None:
        parent = self._random.choice(self.sessions)
        base = (parent, self._random.randint(1, self._store.head(parent).last_seq))
        self._put(Try(mark=self._mark(), kind="fork", session_id=new_id(), key=self._key(), base=base))

    def _put(self, tried: Try) -> None:
        self._notebook.write(tried)
        [receipt] = self._store.commit(*writes_of(tried))
        self._noted(tried.mark, receipt.session_id, receipt.seq - tried.count + 1, receipt.seq)
        if tried.kind != "append":
            self.sessions.append(tried.session_id)

    def drive(self) -> None:
        """A turn: claim, open an attempt, draft, close it and let go in one commit."""
        session_id = self._random.choice(self.sessions)
        try:
            claim = Claim(
                session_id=session_id, token=secrets.token_hex(8), holder=process_identity.holder(), ttl_ms=60_000
            )
            lease = self._store.commit(claim)[0].lease
        except SessionBusy:
            return
        assert lease is not None
        self._notebook.write(Held(session_id=session_id, epoch=lease.epoch))
        asked = NewEvent(event=e.ModelRequested(model="m"))
        [opened] = self._store.commit(Append(session_id=session_id, events=(asked,), lease=lease))
        for n in range(1, self._random.randint(1, 4)):
            self._chunk(lease, opened.seq, n)
        mark = self._mark()
        reply = e.AssistantReplied(attempt_seq=opened.seq, parts=(TextPart(f"{mark}/0 "),))
        self._notebook.write(Try(mark=mark, kind="reply", session_id=session_id))
        done = Append(session_id=session_id, events=(NewEvent(event=reply),), lease=lease)
        closed, _ = self._store.commit(done, Release(lease=lease))
        self._noted(mark, session_id, closed.seq, closed.seq)

    def _chunk(self, lease: Lease, attempt_seq: int, n: int) -> None:
        self._store.commit(PutChunk(lease=lease, attempt_seq=attempt_seq, n=n, part="text", data=b"piece %d" % n))
        self._notebook.write(Piece(session_id=lease.session_id, attempt_seq=attempt_seq, n=n))

    def _noted(self, mark: str, session_id: str, first_seq: int, seq: int) -> None:
        self._notebook.write(Ack(mark=mark, session_id=session_id, first_seq=first_seq, seq=seq))


def write_until_killed(store: LogStore, notes: Path, sessions: Iterable[str], seed: int, threads: int = 3) -> None:
    """Never returns by itself: several threads, so that commits are grouped."""
    notebook, known, stop = Notebook.at(notes), list(sessions), threading.Event()
    writers = [Writer(store, notebook, known, f"{seed:x}-{number}", seed * 31 + number) for number in range(threads)]
    running = [threading.Thread(target=writer.run, args=(stop,), daemon=True) for writer in writers[1:]]
    for thread in running:
        thread.start()
    writers[0].run(stop)
    for thread in running:
        thread.join()


# --- the check -----------------------------------------------------------------------------------------------------


def known_sessions(notes: Iterable[Note]) -> list[str]:
    """Every session whose creation was acknowledged."""
    made = {note.mark for note in notes if isinstance(note, Try) and note.kind in ("create", "fork")}
    return [note.session_id for note in notes if isinstance(note, Ack) and note.mark in made]


def mark_of(event: e.Event | e.Opaque) -> str | None:
    if isinstance(event, e.MessageAppended | e.AssistantReplied):
        return text_of(event.parts).split(" ")[0]
    return None


def problems(store: LogStore, notes: list[Note], notebook: Notebook | None = None) -> list[str]:
    """What is wrong with the store, in words; nothing, if it kept its promises.

    Writes that were tried with a key and not acknowledged are repeated first: then they too must be there, once. That
    they are acknowledged now goes into the notebook.
    """
    found = [f"the writer failed: {note.error}" for note in notes if isinstance(note, Failed)]
    acks = {note.mark: note for note in notes if isinstance(note, Ack)}
    for note in [note for note in notes if isinstance(note, Try) and note.key and note.mark not in acks]:
        found += _repeated(store, note, acks, notebook)
    ours = {note.session_id for note in notes if isinstance(note, Try | Ack)}
    listed = [session_id for session_id in _listed(store) if session_id in ours or not ours]
    found += [f"session {name} is not listed" for name in {a.session_id for a in acks.values()} - set(listed)]
    places: dict[str, list[tuple[str, int]]] = {}
    for session_id in listed:
        found += _session_problems(store, session_id, places)
    for ack in acks.values():
        for number in range(ack.seq - ack.first_seq + 1):
            at = places.get(f"{ack.mark}/{number}", [])
            if at != [(ack.session_id, ack.first_seq + number)]:
                found.append(f"acknowledged {ack}, part {number}, found {at}")
    found += [f"{mark} is there more than once: {at}" for mark, at in places.items() if len(at) > 1]
    there = set(listed)
    return found + _draft_problems(store, [note for note in notes if getattr(note, "session_id", "") in there])


def _repeated(store: LogStore, tried: Try, acks: dict[str, Ack], notebook: Notebook | None) -> list[str]:
    try:
        [receipt] = store.commit(*writes_of(tried))
    except OutlastError as error:
        return [f"cannot be repeated: {tried}: {error}"]
    first = receipt.seq - tried.count + 1
    ack = Ack(mark=tried.mark, session_id=receipt.session_id, first_seq=first, seq=receipt.seq)
    acks[tried.mark] = ack
    if notebook is not None:
        notebook.write(ack)
    return []


def _listed(store: LogStore) -> list[str]:
    names: list[str] = []
    page = store.find(Query(limit=50))
    while True:
        names += [header.session_id for header in page.headers] + page.damaged
        if page.cursor is None:
            return names
        page = store.find(Query(limit=50, cursor=page.cursor))


def _session_problems(store: LogStore, session_id: str, places: dict[str, list[tuple[str, int]]]) -> list[str]:
    """Reading checks the chain; here the header is folded again, and the marks are collected."""
    try:
        head, rows = store.head(session_id), store.read(session_id)
        own = [row for row in rows if row.session_id == session_id]
        folded = _folded(store, head, own, places)
    except OutlastError as error:
        return [f"{session_id} cannot be read: {error}"]
    if [row.seq for row in rows] != list(range(1, head.last_seq + 1)):
        return [f"{session_id} has gaps"]
    names = ("last_seq", "message_count", "title", "state", "pending_count", "boundary_seq")
    wrong = [name for name in names if getattr(folded, name) != getattr(head, name)]
    return [f"{session_id}: the header's {name} is not that of its log" for name in wrong]


def _folded(store: LogStore, head: Header, own: list[StoredEvent], places: dict[str, list[tuple[str, int]]]) -> Header:
    folded = Header(session_id=head.session_id)
    for row in own:
        event = event_of(row, lambda sha256: store.blob(head.session_id, sha256))
        apply(folded, delta_of(event, row.turn), seq=row.seq, at=row.at, now=row.at, touch=True)
        mark = mark_of(event)
        if mark is not None:
            places.setdefault(mark, []).append((row.session_id, row.seq))
    return folded


def _draft_problems(store: LogStore, notes: list[Note]) -> list[str]:
    """A draft is there until its attempt is closed or the next one begins; an epoch never goes back."""
    found: list[str] = []
    held = [note for note in notes if isinstance(note, Held)]
    found += [f"epoch went back: {note}" for note in held if store.head(note.session_id).epoch < note.epoch]
    pieces = Counter({(note.session_id, note.attempt_seq): note.n for note in notes if isinstance(note, Piece)})
    for (session_id, attempt_seq), most in pieces.items():
        head = store.head(session_id)
        later = store.read(session_id, after=attempt_seq, kinds=frozenset({"AssistantReplied", "ModelRequested"}))
        if later:
            continue
        batches = list(store.follow(session_id, after=head.last_seq, timeout=0))
        there = [chunk.n for batch in batches for chunk in batch.chunks if chunk.attempt_seq == attempt_seq]
        if len(there) < most:
            found.append(f"draft of {session_id}, attempt {attempt_seq}: {most} acknowledged, {there} found")
    return found
