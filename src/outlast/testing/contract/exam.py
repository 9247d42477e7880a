"""`Exam`: base class of the store tests. Opens and closes stores, and has the helpers that most tests use."""

from __future__ import annotations

import os
from collections.abc import Iterable

from outlast.core import events as e
from outlast.core.event_row import GENESIS, StoredEvent, check_chain
from outlast.core.events import Event, Opaque
from outlast.core.header import Header
from outlast.core.ids import id_from
from outlast.core.messages import Role, TextPart
from outlast.store.engine.encode import event_of
from outlast.store.port import Append, Claim, Create, Lease, NewEvent, Receipt, Store

OPAQUE_HOLDER = "the examiner"  # names no host and pid, so no store can know that it is dead


def new_id() -> str:
    return id_from(os.urandom(16))


def said(text: str, role: Role = Role.USER) -> NewEvent:
    """Return a message as a library caller appends it."""
    return NewEvent(event=e.MessageAppended(role=role, parts=(TextPart(text),)), actor=role.value)


def admitted(text: str) -> NewEvent:
    return NewEvent(event=e.InputAdmitted(parts=(TextPart(text),)), actor="user/exam")


def text_in(event: Event | Opaque) -> str | None:
    """Return the text of a message's only part; None for anything else."""
    if isinstance(event, e.MessageAppended | e.InputAdmitted | e.AssistantReplied) and event.parts:
        [part] = event.parts
        return part.text if isinstance(part, TextPart) else None
    return None


class Exam:
    """The methods that a subclass provides, and the helpers for tests.

    `make_store` opens a store on a new, empty place. `reopen` opens another handle on the place of a given store, which
    may be closed, abandoned by a crash, or still open and in use. All opened stores are closed after each test.
    """

    _all_opened: list[Store] | None = None

    def make_store(self) -> Store:
        raise NotImplementedError("a subclass opens its store here")

    def reopen(self, store: Store) -> Store:
        raise NotImplementedError("a subclass opens the same place again here")

    # --- stores

    @property
    def store(self) -> Store:
        """The store of this test, opened on first use."""
        opened = self._stores()
        return opened[0] if opened else self._kept(self.make_store())

    def another(self) -> Store:
        """Open a second handle on the same place."""
        return self._kept(self.reopen(self.store))

    def reopened(self) -> Store:
        """Close the store and open its place again; the new handle becomes `self.store`."""
        before = self.store
        before.close()
        again = self.reopen(before)
        self._stores().insert(0, again)
        return again

    def close_all(self) -> None:
        opened, self._all_opened = self._stores(), []
        for store in opened:
            store.close()

    def teardown_method(self) -> None:
        self.close_all()

    def _stores(self) -> list[Store]:
        if self._all_opened is None:
            self._all_opened = []
        return self._all_opened

    def _kept(self, store: Store) -> Store:
        self._stores().append(store)
        return store

    # --- helpers for most tests

    def begin(self, *texts: str, header: Header | None = None, created: e.SessionCreated | None = None) -> str:
        """Create a session with these messages after its `SessionCreated`, and return its id."""
        header = header or Header(session_id=new_id())
        first = NewEvent(event=created or e.SessionCreated())
        self.store.commit(Create(header=header, events=(first, *map(said, texts))))
        return header.session_id

    def append(
        self,
        session_id: str,
        *events: NewEvent | Event,
        key: str | None = None,
        scope: str | None = None,
        lease: Lease | None = None,
        expect: int | None = None,
        to_tip: bool = False,
        touch: bool = True,
    ) -> Receipt:
        rows = tuple(event if isinstance(event, NewEvent) else NewEvent(event=event) for event in events)
        [receipt] = self.store.commit(
            Append(
                session_id=session_id,
                events=rows,
                key=key,
                scope=scope,
                lease=lease,
                expect=expect,
                to_tip=to_tip,
                touch=touch,
            )
        )
        return receipt

    def claim(self, session_id: str, token: str = "t", *, ttl_ms: int = 60_000, force: bool = False) -> Lease:
        write = Claim(session_id=session_id, token=token, holder=OPAQUE_HOLDER, ttl_ms=ttl_ms, force=force)
        [receipt] = self.store.commit(write)
        assert receipt.lease is not None
        return receipt.lease

    def events(self, session_id: str, store: Store | None = None) -> list[StoredEvent]:
        """Read the whole log and check it again here: without gaps, chained from the first event."""
        store = store or self.store
        rows = store.read(session_id)
        assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
        last = check_chain(GENESIS, 0, rows)
        head = store.head(session_id)
        assert (head.last_seq, head.head_hash) == (len(rows), last)
        return rows

    def texts(self, session_id: str, store: Store | None = None) -> list[str]:
        """Return the message texts of a session, in order."""
        found = (text_in(self.decoded(row, store)) for row in self.events(session_id, store))
        return [text for text in found if text is not None]

    def kinds(self, session_id: str) -> list[str]:
        return [row.kind for row in self.events(session_id)]

    def decoded(self, row: StoredEvent, store: Store | None = None) -> Event | Opaque:
        return event_of(row, lambda digest: (store or self.store).blob(row.session_id, digest))


def seqs(rows: Iterable[StoredEvent]) -> list[int]:
    return [row.seq for row in rows]
