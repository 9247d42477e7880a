"""Texts: any text is read back unchanged, in messages, titles and blobs."""

from __future__ import annotations

import hashlib

import pytest

from outlast.core import events as e
from outlast.core.errors import InvalidInput, Refused
from outlast.core.header import Header, shown
from outlast.core.messages import FilePart, ImagePart, Role, TextPart
from outlast.store import lineage
from outlast.store.port import (
    Append,
    Claim,
    Create,
    Delete,
    Lease,
    NewEvent,
    PutBlob,
    PutChunk,
    PutRoute,
    Query,
    Write,
)
from outlast.testing.contract.exam import Exam, new_id, said

WEIRD = [
    "",
    " ",
    "\0",
    "a\0b\0",
    "\n\r\n\t\x0b\x0c\x1c\x85\u2028\u2029",
    "\ud800",
    "\udfff half \ud83d",
    "\udcff surrogateescape",
    "\ufeffbom\ufffe\uffff",
    "e\u0301 é \u202eright to left",
    "👩‍👩‍👧‍👦 🏴󠁧󠁢󠁥󠁮󠁧󠁿",
    '{"$b64": "x"} $bytes',
    "\\u0000 \\ud800 \\",
    "'; DROP TABLE events; --",
    "%s %d {} ${x} `x`",
    "\x1b[31mred\x07",
    "\U0010ffff",
    "x" * 65_535,
    "x" * 65_536,
    "é" * 40_000,
    "\ud800" * 30_000,
]


class TextQuestions(Exam):
    def test_any_text_comes_back_as_it_was(self) -> None:
        session_id = self.begin()
        for text in WEIRD:
            self.append(session_id, said(text))
        self.reopened()
        assert self.texts(session_id) == WEIRD

    def test_all_of_them_in_one_event_come_back_as_they_were(self) -> None:
        session_id = self.begin()
        event = e.MessageAppended(role=Role.USER, parts=tuple(map(TextPart, WEIRD)))
        self.append(session_id, event)
        assert self.decoded(self.events(session_id)[-1]) == event

    def test_any_text_in_nested_facts_comes_back_as_it_was(self) -> None:
        session_id = self.begin()
        facts = {text: [text, {"$" + text: text}] for text in WEIRD if len(text) < 1000}
        event = e.ToolCallFinished(call_id="c", name="t", facts={**facts, "n": [1, -1.5, 2**63 - 1, True, None]})
        self.append(session_id, event)
        assert self.decoded(self.events(session_id)[-1]) == event

    def test_bytes_come_back_as_they_were(self) -> None:
        session_id = self.begin()
        for size in (0, 1, 65_536, 3 * 1024 * 1024 + 1):
            data = (bytes(range(256)) * (size // 256 + 1))[:size]
            event = e.MessageAppended(
                role=Role.USER, parts=(ImagePart(media_type="image/png", data=data), FilePart("n", "m", data))
            )
            self.append(session_id, event)
            assert self.decoded(self.events(session_id)[-1]) == event

    def test_a_large_text_comes_back_from_its_blob(self) -> None:
        session_id = self.begin()
        texts = ["large " * 20_000, "3 MiB " * (512 * 1024), "\ud800 and large " * 10_000, "ü" * 40_000]
        for text in texts:
            self.append(session_id, said(text))
        self.reopened()
        assert self.texts(session_id) == texts
        assert all(len(row.body) < 1000 for row in self.store.read(session_id))
        digest = hashlib.sha256(texts[0].encode()).hexdigest()
        assert self.store.blob(session_id, digest) == texts[0].encode()

    def test_a_body_worth_compressing_comes_back_as_it_was(self) -> None:
        session_id = self.begin()
        text = "not large enough for a blob " * 2_000
        self.append(session_id, said(text))
        assert self.texts(session_id) == [text]

    def test_a_blob_can_be_put_by_hand_and_repeated(self) -> None:
        session_id = self.begin()
        for data in (b"", b"\0\xff", bytes(1024 * 1024), bytes(range(256)) * 5000):
            digest = hashlib.sha256(data).hexdigest()
            for _ in range(2):
                self.store.commit(PutBlob(session_id=session_id, sha256=digest, data=data))
            assert self.store.blob(session_id, digest) == data

    def test_a_blob_under_a_wrong_name_is_refused(self) -> None:
        session_id = self.begin()
        for name in ("0" * 64, "", "../x", hashlib.sha256(b"x").hexdigest().upper()):
            with pytest.raises(Refused):
                self.store.commit(PutBlob(session_id=session_id, sha256=name, data=b"x"))

    def test_a_fork_reads_the_blobs_of_its_history(self) -> None:
        text = "large " * 20_000
        digest = hashlib.sha256(text.encode()).hexdigest()
        parent, child, grandchild = self.begin(text), new_id(), new_id()
        self.store.commit(lineage.fork(self.store.head(parent), child))
        self.store.commit(lineage.fork(self.store.head(child), grandchild))
        assert self.store.blob(grandchild, digest) == text.encode()
        self.store.commit(Delete(session_id=parent, actor="user"))
        self.store.commit(Delete(session_id=child, actor="user"))
        assert self.store.blob(grandchild, digest) == text.encode()
        assert self.texts(grandchild) == [text]

    def test_blobs_do_not_leak_between_sessions(self) -> None:
        first, second = self.begin("x" * 100_000), self.begin("x" * 100_000)
        self.store.commit(Delete(session_id=first, actor="user"))
        assert self.texts(second) == ["x" * 100_000]

    def test_any_title_is_shown_as_valid_text(self) -> None:
        session_id = self.begin()
        for text in WEIRD:
            self.append(session_id, e.SessionRenamed(title=text))
            assert self.store.head(session_id).title == shown(text)
            assert self.store.find(Query()).headers[0].title == shown(text)

    def test_any_first_message_makes_a_list_that_can_be_read(self) -> None:
        for text in WEIRD:
            session_id = self.begin(text)
            title = self.store.head(session_id).title
            assert title is None or (len(title) <= 50 and "\0" not in title and title.encode())

    def test_any_text_in_any_event_leaves_a_header_that_can_be_read(self) -> None:
        for text in WEIRD:
            session_id = self.begin(created=e.SessionCreated(title=text, model=text, persona=text))
            self.append(
                session_id, e.ModelChanged(model=text), e.PersonaChanged(persona=text), e.SessionClosed(reason=text)
            )
            header = Header(session_id=new_id())
            rotated = NewEvent(event=e.SessionRotated(to_session_id=text))
            self.store.commit(Create(header=header, events=(rotated,)))
            assert self.decoded(self.events(header.session_id)[0]) == rotated.event
            head = self.store.head(session_id)
            assert (head.title, head.model or "", head.persona or "") == (shown(text), shown(text), shown(text))

    def test_what_json_cannot_hold_is_refused_by_name(self) -> None:
        session_id = self.begin()
        deep: object = "bottom"
        for _ in range(70):
            deep = [deep]
        for bad in (float("nan"), float("inf"), -float("inf"), 2**63, object(), {1: "x"}, deep):
            with pytest.raises(InvalidInput, match=r"facts\.field|ToolCallFinished\.facts"):
                self.append(session_id, e.ToolCallFinished(call_id="c", name="t", facts={"field": bad}))
        assert self.kinds(session_id) == ["SessionCreated"]

    def test_text_no_database_can_hold_is_refused_where_it_is_a_name(self) -> None:
        session_id = self.begin()
        lease = self.claim(session_id)
        event = said("x").event
        for bad in ("\ud800", "a\0b"):
            refused: list[Write] = [
                Append(session_id=session_id, events=(NewEvent(event=event, actor=bad),)),
                Append(session_id=session_id, events=(NewEvent(event=event, turn=bad),)),
                Append(session_id=session_id, events=(NewEvent(event=event),), key="k", scope=bad),
                Append(session_id=session_id, events=(NewEvent(event=event),), lease=Lease(session_id, 1, bad)),
                PutRoute(route=bad, session_id=session_id),
                Claim(session_id=session_id, token=bad, holder="h", force=True),
                Claim(session_id=session_id, token="t2", holder=bad, force=True),
                PutChunk(lease=lease, attempt_seq=1, n=1, part=bad, data=b""),
                Delete(session_id=session_id, actor=bad),
                Create(header=Header(session_id=new_id(), title=bad), events=(NewEvent(event=event),)),
                Create(header=Header(session_id=new_id(), owner_id=bad), events=(NewEvent(event=event),)),
                Create(header=Header(session_id=new_id(), project_root=bad), events=(NewEvent(event=event),)),
            ]
            for write in refused:
                with pytest.raises(Refused):
                    self.store.commit(write)
        assert self.store.route("\ud800") is None
        assert self.store.route("a\0b") is None
        assert self.store.find(Query(owner_id="\ud800")).headers == []
        assert self.store.find(Query(project_key="a\0b")).headers == []
        assert self.kinds(session_id) == ["SessionCreated"]

    def test_numbers_no_database_can_hold_are_refused(self) -> None:
        session_id = self.begin()
        event = said("x").event
        for at in (2**63, -(2**63) - 1, 2**100):
            with pytest.raises(Refused):
                self.append(session_id, NewEvent(event=event, at=at))
        with pytest.raises(Refused):
            self.append(session_id, event, expect=2**64)
        assert self.kinds(session_id) == ["SessionCreated"]
