"""The in-memory store: which handles share sessions, and for how long. The exam is in `test_stores.py`."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from outlast import ConversationSession, Message, Role
from outlast.core.errors import ConfigError, StoreUnavailable
from outlast.store import open_existing, open_store, open_to_read
from outlast.store.doctor.schema_status import schema_of
from outlast.store.log_store import LogStore
from outlast.store.memory import discard

URL = "memory://shared"


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    discard(URL)


def write(store: LogStore) -> str:
    session = ConversationSession(project_root=".", store=store)
    session.append(Message(role=Role.USER, content="hi"))
    return session.session_id


def test_store_without_a_name_is_empty_each_time_it_is_opened() -> None:
    with open_store("memory://") as first, open_store("memory://") as second:
        write(first)
        assert ConversationSession.list(store=second) == []


def test_named_store_keeps_its_sessions_after_its_last_handle_is_closed() -> None:
    with open_store(URL) as store:
        session_id = write(store)
    with open_store(URL) as store:
        session = ConversationSession.load(session_id=session_id, store=store)
        assert session is not None
        assert [message.content for message in session.history()] == ["hi"]
        assert session.storage_path is None


def test_discarded_store_is_empty_when_it_is_opened_again() -> None:
    with open_store(URL) as store:
        write(store)
    discard(URL)
    with open_store(URL) as store:
        assert ConversationSession.list(store=store) == []


@pytest.mark.parametrize("opener", [open_existing, open_to_read])
def test_store_that_does_not_exist_is_not_made_by_looking(opener: object) -> None:
    assert callable(opener)
    with pytest.raises(StoreUnavailable, match="there is no store at memory://shared"):
        opener(URL)
    open_store(URL).close()
    opened = opener(URL)
    assert isinstance(opened, LogStore)
    opened.close()


def test_name_with_other_characters_is_refused_with_one_sentence() -> None:
    with pytest.raises(ConfigError, match="use memory://, or memory://NAME") as caught:
        open_store("memory:///etc/x y")
    assert "\n" not in str(caught.value)


def test_memory_store_has_no_schema_to_upgrade() -> None:
    assert schema_of(URL).outstanding == []


def test_handle_in_a_forked_child_raises_and_the_parent_keeps_its_sessions() -> None:
    with open_store(URL) as store:
        write(store)
        child = os.fork()
        if child == 0:  # pragma: no cover - the child reports by its exit code
            code = 1
            try:
                store.commit()
            except StoreUnavailable:
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert len(ConversationSession.list(store=store)) == 1
