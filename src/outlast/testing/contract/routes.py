"""Routes: moving a route only if it still leads to the expected session, and listing routes."""

from __future__ import annotations

from functools import partial

import pytest

from outlast.core import events as e
from outlast.core.errors import ConflictError, SessionNotFound
from outlast.core.header import Header
from outlast.store import lineage
from outlast.store.port import Append, Create, Delete, NewEvent, PutRoute, Store
from outlast.testing.contract.exam import OPAQUE_HOLDER, Exam, admitted, new_id
from outlast.testing.contract.handles import at_once


def first_contact(route: str, text: str, key: str) -> tuple[Create, PutRoute, Append]:
    """Return the writes of a gateway for the first message of a chat: session, route and input, in one commit."""
    session_id = new_id()
    return (
        Create(header=Header(session_id=session_id), events=(NewEvent(event=e.SessionCreated()),)),
        PutRoute(route=route, session_id=session_id, expect=None),
        Append(session_id=session_id, events=(admitted(text),), key=key, scope=route),
    )


def speak(store: Store, route: str, text: str, key: str) -> None:
    """Admit a text in a new session, or in the session that another writer has just created for the route."""
    try:
        store.commit(*first_contact(route, text, key))
    except ConflictError:
        leads = store.route(route)
        assert leads is not None
        store.commit(Append(session_id=leads, events=(admitted(text),), key=key, scope=route))


class RouteQuestions(Exam):
    def test_a_route_is_moved_only_from_where_it_is_expected_to_lead(self) -> None:
        first, second = self.begin(), self.begin()
        self.store.commit(PutRoute(route="r", session_id=first, expect=None))
        for expected in (None, second, new_id()):
            with pytest.raises(ConflictError, match="moved"):
                self.store.commit(PutRoute(route="r", session_id=second, expect=expected))
        assert self.store.route("r") == first
        self.store.commit(PutRoute(route="r", session_id=second, expect=first))
        assert self.store.route("r") == second
        with pytest.raises(ConflictError):
            self.store.commit(PutRoute(route="r", session_id=None, expect=first))
        self.store.commit(PutRoute(route="r", session_id=None, expect=second))
        assert self.store.route("r") is None
        with pytest.raises(ConflictError):
            self.store.commit(PutRoute(route="r", session_id=first, expect=second))

    def test_a_commit_with_a_route_that_moved_writes_nothing(self) -> None:
        first = self.begin()
        self.store.commit(PutRoute(route="r", session_id=first))
        writes = first_contact("r", "hello", "u1")
        with pytest.raises(ConflictError):
            self.store.commit(*writes)
        with pytest.raises(SessionNotFound):
            self.store.head(writes[0].header.session_id)
        assert not self.append(first, admitted("hello"), key="u1", scope="r").replayed

    def test_a_rotation_makes_an_older_expectation_wrong(self) -> None:
        parent, other = self.begin("1"), self.begin()
        self.store.commit(PutRoute(route="r", session_id=parent))
        tip = new_id()
        self.store.commit(*lineage.rotate(self.store.head(parent), tip, token="t", holder=OPAQUE_HOLDER))
        with pytest.raises(ConflictError):
            self.store.commit(PutRoute(route="r", session_id=other, expect=parent))
        assert self.store.route("r") == tip

    def test_a_chat_that_speaks_through_two_handles_at_once_gets_one_session(self) -> None:
        stores: list[Store] = [self.store, self.another()]
        for n in range(10):
            route = f"telegram:1:{n}"
            at_once(*(partial(speak, stores[word % 2], route, f"word {word}", f"u{word}") for word in range(4)))
            session_id = self.store.route(route)
            assert session_id is not None
            assert sorted(self.texts(session_id)) == [f"word {word}" for word in range(4)]

    def test_one_message_that_comes_through_two_handles_at_once_is_stored_once(self) -> None:
        stores: list[Store] = [self.store, self.another()]
        for n in range(10):
            route = f"telegram:2:{n}"
            at_once(*(partial(speak, stores[each % 2], route, "hello", "u1") for each in range(4)))
            session_id = self.store.route(route)
            assert session_id is not None
            assert self.texts(session_id) == ["hello"]

    def test_routes_are_found_by_how_they_begin(self) -> None:
        first, second = self.begin(), self.begin()
        for route, session_id in (("a:1", first), ("a:2", second), ("b:1", first), ("A:1", first), ("a_1", first)):
            self.store.commit(PutRoute(route=route, session_id=session_id))
        assert self.store.routes("a:") == [("a:1", first), ("a:2", second)]
        assert self.store.routes("c") == []
        assert sorted(route for route, _ in self.store.routes()) == ["A:1", "a:1", "a:2", "a_1", "b:1"]
        self.store.commit(Delete(session_id=second, actor="user"))
        self.reopened()
        assert self.store.routes("a:") == [("a:1", first)]

    def test_what_was_said_is_noted_as_delivered_after_the_end_too(self) -> None:
        session_id = self.begin("1")
        self.append(session_id, e.SessionClosed())
        self.append(
            session_id,
            e.DeliveryBegun(route="r", of_seq=2, by="x"),
            e.DeliveryMade(route="r", of_seq=2, message_id="7"),
            e.DeliveryClosed(route="r", of_seq=2),
            touch=False,
        )
        assert self.kinds(session_id)[-3:] == ["DeliveryBegun", "DeliveryMade", "DeliveryClosed"]
        assert self.store.head(session_id).has_ended
