"""Whatever is said, every store gives it back as it was, and all of them the same bytes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.core import events as e
from outlast.core.event_row import StoredEvent
from outlast.core.events import Event
from outlast.core.header import Header
from outlast.core.ids import id_from
from outlast.core.messages import Role, TextPart
from outlast.store import open_store
from outlast.store.engine.encode import event_of, plain_body
from outlast.store.port import Create, NewEvent, Store
from tests.support import strategies

CASES = 600
SOAK_CASES = 100_000
PER_EXAMPLE = 12
BESIDE_THE_LOG = {"updated_at", "head_hash"}
"""Header fields that may differ: each store has its own clock, and may encode (so hash) a body in its own way."""


def said(text: str) -> Event:
    return e.MessageAppended(role=Role.USER, parts=(TextPart(text),))


ANYTHING = st.one_of(
    strategies.any_text().map(said),
    strategies.any_text().map(lambda text: e.SessionRenamed(title=text)),
    strategies.any_text().map(lambda text: e.InputAdmitted(parts=(TextPart(text),))),
    strategies.events(),
)
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20)
NEW_EVENTS = st.builds(NewEvent, event=ANYTHING, actor=NAMES, turn=st.none() | NAMES, at=strategies.INT64)


@pytest.fixture
def stores(store_urls: list[str]) -> Iterator[list[Store]]:
    with ExitStack() as opened:
        yield [opened.enter_context(open_store(url)) for url in store_urls]


def check_all(stores: list[Store], events: list[NewEvent], key: str) -> None:
    """The same session in every store; then each against what went in, and against the first."""
    session_id = id_from(os.urandom(16))
    header = Header(session_id=session_id, created_at=1, owner_id="equal")
    for store in stores:
        store.commit(Create(header=header, events=tuple(events), key=key))
    contents = [check_one(store, session_id, events) for store in stores]
    heads = [header_of(store, session_id) for store in stores]
    assert all(content == contents[0] for content in contents)
    assert all(head == heads[0] for head in heads)


def check_one(store: Store, session_id: str, events: list[NewEvent]) -> list[tuple[object, ...]]:
    rows = store.read(session_id)
    for new, row in zip(events, rows, strict=True):
        assert (row.actor, row.turn, row.at) == (new.actor, new.turn, new.at)
        assert event_of(row, lambda digest: store.blob(session_id, digest)) == new.event
    return [content_of(row) for row in rows]


def content_of(row: StoredEvent) -> tuple[object, ...]:
    """A row without what is the store's own: how it encoded the body, and the keys that it made itself."""
    key = None if row.key is None or row.key.startswith("~") else row.key
    return (row.seq, row.kind, row.v, row.at, row.actor, row.turn, key, row.epoch, plain_body(row))


def header_of(store: Store, session_id: str) -> dict[str, object]:
    head = store.head(session_id)
    return {name: getattr(head, name) for name in Header.__struct_fields__ if name not in BESIDE_THE_LOG}


def fuzz(stores: list[Store], cases: int) -> None:
    @settings(max_examples=cases // PER_EXAMPLE)
    @given(events=st.lists(NEW_EVENTS, min_size=PER_EXAMPLE, max_size=PER_EXAMPLE), key=NAMES)
    def run(events: list[NewEvent], key: str) -> None:
        check_all(stores, events, key)

    run()


def test_any_text_is_the_same_in_every_store(stores: list[Store]) -> None:
    fuzz(stores, CASES)


@pytest.mark.soak
def test_a_hundred_thousand_texts_are_the_same_in_every_store(stores: list[Store]) -> None:
    fuzz(stores, SOAK_CASES)


def test_every_kind_of_event_is_the_same_in_every_store(stores: list[Store]) -> None:
    @settings(max_examples=5)
    @given(events=st.tuples(*(strategies.events(kind) for kind in e.KINDS.values())))
    def run(events: tuple[Event, ...]) -> None:
        check_all(stores, [NewEvent(event=event, at=n) for n, event in enumerate(events)], "k")

    run()
