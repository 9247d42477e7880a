"""Lists and look-ups: order, pages, filters, prefixes; and the contents of headers."""

from __future__ import annotations

import pytest

from outlast.core import events as e
from outlast.core.errors import AmbiguousSession, InvalidInput, SessionNotFound
from outlast.core.header import ARCHIVED, ENDED, Header, title_from
from outlast.core.messages import Role, TextPart, Usage
from outlast.store.port import Delete, NewEvent, Query
from outlast.testing.contract.exam import Exam, admitted, new_id, said


class ListQuestions(Exam):
    def listed(self, **conditions: object) -> list[str]:
        return [head.session_id for head in self.store.find(Query(**conditions)).headers]  # pyright: ignore[reportArgumentType]

    def pages(self, query: Query) -> list[str]:
        """Return the session ids of all pages, in order."""
        found: list[str] = []
        page = self.store.find(query)
        while True:
            found += [head.session_id for head in page.headers]
            if page.cursor is None:
                return found
            assert len(page.headers) == query.limit
            page = self.store.find(
                Query(owner_id=query.owner_id, title=query.title, limit=query.limit, cursor=page.cursor)
            )

    # --- find

    def test_an_empty_store_lists_nothing(self) -> None:
        page = self.store.find(Query())
        assert (page.headers, page.cursor, page.damaged) == ([], None, [])

    def test_the_newest_activity_comes_first(self) -> None:
        first, second, third = (self.begin(str(n)) for n in range(3))
        assert self.listed() == [third, second, first]
        self.append(first, said("again"))
        assert self.listed() == [first, third, second]

    def test_a_write_that_does_not_touch_keeps_its_place(self) -> None:
        first, second = self.begin("1"), self.begin("2")
        before = self.store.head(first).updated_at
        self.append(first, said("quietly"), touch=False)
        assert self.store.head(first).updated_at == before
        assert self.listed() == [second, first]

    def test_updated_at_moves_forward_even_when_the_clock_went_back(self) -> None:
        session_id = self.begin(header=Header(session_id=new_id(), updated_at=2**52))
        times = [self.store.head(session_id).updated_at]
        for n in range(20):
            self.append(session_id, NewEvent(event=said(str(n)).event, at=0))
            times.append(self.store.head(session_id).updated_at)
        assert times == list(range(2**52 + 1, 2**52 + 22))

    def test_a_list_shows_the_header_as_it_is(self) -> None:
        session_id = self.begin("hello")
        self.append(session_id, admitted("waiting"))
        assert self.store.find(Query()).headers == [self.store.head(session_id)]

    def test_pages_see_every_session_exactly_once(self) -> None:
        sessions = [self.begin(str(n)) for n in range(23)]
        for limit in (1, 4, 22, 23, 24, 100):
            assert self.pages(Query(limit=limit)) == sessions[::-1]

    def test_pages_see_unchanged_sessions_once_while_others_move(self) -> None:
        sessions = [self.begin(str(n)) for n in range(12)]
        page, found = self.store.find(Query(limit=3)), list[str]()
        while True:
            found += [head.session_id for head in page.headers]
            if page.cursor is None:
                break
            self.append(sessions[5], said("moves to the front"))
            self.begin("new")
            page = self.store.find(Query(limit=3, cursor=page.cursor))
        still = [session_id for session_id in found if session_id != sessions[5]]
        assert still == [session_id for session_id in sessions[::-1] if session_id != sessions[5]]

    def test_filtered_pages_are_full_and_complete(self) -> None:
        wanted = [self.begin(f"wanted {n}" if n % 4 == 0 else f"other {n}") for n in range(30)][::4]
        assert self.pages(Query(title="WANTED", limit=3)) == wanted[::-1]

    def test_a_cursor_that_is_none_is_refused(self) -> None:
        for cursor in ("", "x", "%%%", "\ud800", "bm90IGpzb24", "WzEsMl0"):
            with pytest.raises(InvalidInput):
                self.store.find(Query(cursor=cursor))
        with pytest.raises(InvalidInput):
            self.store.find(Query(limit=0))

    def test_an_owner_sees_nothing_of_others(self) -> None:
        mine = self.begin("a", header=Header(session_id=new_id(), owner_id="me"))
        local = self.begin("b")
        assert self.listed(owner_id="me") == [mine]
        assert self.listed() == [local]
        assert self.listed(owner_id="") == []
        assert self.listed(owner_id="%") == []

    def test_sessions_are_found_by_state(self) -> None:
        active, ended, archived = (self.begin(name) for name in ("a", "b", "c"))
        self.append(ended, e.SessionClosed())
        self.append(archived, e.SessionArchived())
        assert self.listed(state="active") == [active]
        assert self.listed(state=ENDED) == [ended]
        assert self.listed(state=ARCHIVED) == [archived]
        assert self.listed() == [archived, ended, active]

    def test_sessions_are_found_by_project(self) -> None:
        inside = self.begin("a", header=Header(session_id=new_id(), project_key="p1"))
        self.begin("b", header=Header(session_id=new_id(), project_key="p2"))
        self.begin("c")
        assert self.listed(project_key="p1") == [inside]
        assert self.listed(project_key="p") == []

    def test_sessions_are_found_by_a_part_of_the_title_whatever_its_case(self) -> None:
        first = self.begin("Fix the PARSER of 100% dates")
        second = self.begin("ÄRGER mit Straßen")
        assert self.listed(title="parser") == [first]
        assert self.listed(title="100%") == [first]
        assert self.listed(title="ärger") == [second]
        assert self.listed(title="STRASSEN") == [second]
        assert self.listed(title="_") == []

    def test_a_search_for_a_title_follows_what_the_session_is_called_now(self) -> None:
        unnamed, other = self.begin(), self.begin("the walrus")
        assert self.listed(title="walrus") == [other]
        self.append(unnamed, said("about walruses"))
        assert self.listed(title="walrus") == [unnamed, other]
        self.append(unnamed, e.SessionRenamed(title="Seals"))
        assert (self.listed(title="walrus"), self.listed(title="SEAL")) == ([other], [unnamed])
        self.store.commit(Delete(session_id=other, actor="user"))
        assert self.listed(title="walrus") == []
        assert self.listed(title="\ud800") == []

    def test_sessions_are_found_by_a_part_of_their_id(self) -> None:
        first, _second = self.begin("a"), self.begin("b")
        assert self.listed(prefix=first[:10]) == [first]

    def test_sessions_with_something_to_do_are_found(self) -> None:
        idle, waiting, running = self.begin("a"), self.begin("b"), self.begin("c")
        self.append(waiting, admitted("please"))
        self.append(running, NewEvent(event=e.TurnStarted(), turn="t"))
        assert self.listed(pending=True) == [running, waiting]
        assert self.listed(pending=False) == [idle]

    # --- resolve

    def sibling_of(self, session_id: str, same: int) -> str:
        """Create a session whose id shares only the first `same` characters with this one."""
        other = new_id()
        flipped = "a" if session_id[same] != "a" else "b"
        return self.begin(header=Header(session_id=session_id[:same] + flipped + other[same + 1 :]))

    def test_a_prefix_of_six_characters_finds_its_session(self) -> None:
        session_id = self.begin()
        for _ in range(20):
            self.begin()
        for length in (6, 7, 25, 26):
            assert self.store.resolve(session_id[:length]) == session_id

    def test_an_ambiguous_prefix_lists_the_matches(self) -> None:
        session_id = self.begin()
        sibling = self.sibling_of(session_id, 8)
        with pytest.raises(AmbiguousSession) as caught:
            self.store.resolve(session_id[:7])
        assert sorted(caught.value.matches) == sorted([session_id, sibling])
        assert self.store.resolve(session_id[:9]) == session_id

    def test_what_is_no_prefix_finds_nothing(self) -> None:
        session_id = self.begin()
        for prefix in (
            "",
            session_id[:5],
            "zzzzzz",
            "%%%%%%",
            "______",
            session_id + "a",
            session_id[:6].upper() + "1",
            "\0" * 6,
        ):
            with pytest.raises(SessionNotFound):
                self.store.resolve(prefix)

    def test_a_prefix_does_not_reach_other_owners(self) -> None:
        session_id = self.begin(header=Header(session_id=new_id(), owner_id="other"))
        with pytest.raises(SessionNotFound):
            self.store.resolve(session_id)
        assert self.store.resolve(session_id[:6], owner_id="other") == session_id

    # --- headers

    def test_a_header_counts_messages_and_tokens(self) -> None:
        session_id = self.begin("question")
        usage = Usage(input_tokens=100, output_tokens=20)
        self.append(
            session_id,
            e.ModelRequested(model="m"),
            e.AssistantReplied(attempt_seq=3, parts=(TextPart("a"),), usage=usage, model="real-model"),
            e.ToolCallStarted(call_id="c", name="t"),
            e.ToolCallFinished(call_id="c", name="t"),
            e.ReplyInterrupted(attempt_seq=3, usage=Usage(input_tokens=1, output_tokens=2)),
            e.UsageRecorded(usage=Usage(input_tokens=10)),
        )
        head = self.store.head(session_id)
        assert (head.message_count, head.input_tokens, head.output_tokens) == (3, 111, 22)
        assert head.model is None  # no model was chosen; the reply records which model answered

    def test_the_first_question_gives_the_title_until_there_is_one(self) -> None:
        session_id = self.begin()
        self.append(session_id, said("I am no title", Role.ASSISTANT))
        assert self.store.head(session_id).title is None
        question = "what\nis " + "x" * 100
        self.append(session_id, said(question))
        assert self.store.head(session_id).title == title_from(question) == "what is " + "x" * 42
        self.append(session_id, said("second question"))
        assert self.store.head(session_id).title == title_from(question)
        self.append(session_id, e.SessionRenamed(title="named"))
        assert self.store.head(session_id).title == "named"

    def test_an_input_is_pending_until_a_turn_answers_it(self) -> None:
        session_id = self.begin()
        first = self.append(session_id, NewEvent(event=admitted("first").event, at=111)).seq
        second = self.append(session_id, NewEvent(event=admitted("second " * 100).event, at=222)).seq
        head = self.store.head(session_id)
        assert (head.pending_count, head.pending_at) == (2, 222)
        assert head.pending_text == ("second " * 100)[:120]
        self.append(session_id, NewEvent(event=e.TurnStarted(inputs=[first]), turn="turn-1"))
        assert self.store.head(session_id).turn == "turn-1"
        self.append(session_id, NewEvent(event=e.TurnEnded(outcome="done", answered=[first]), turn="turn-1"))
        head = self.store.head(session_id)
        assert (head.turn, head.pending_count) == (None, 1)
        self.append(session_id, e.TurnEnded(outcome="done", answered=[second]))
        head = self.store.head(session_id)
        assert (head.pending_count, head.pending_text, head.pending_at) == (0, None, None)

    def test_a_boundary_is_remembered_with_its_seq(self) -> None:
        session_id = self.begin("1")
        for event in (e.HistoryCleared(), e.Compacted(summary="s", first_kept_seq=1, tokens_before=9, tokens_after=1)):
            seq = self.append(session_id, event).seq
            self.append(session_id, said("more"))
            assert self.store.head(session_id).boundary_seq == seq

    def test_model_and_persona_are_those_chosen_last(self) -> None:
        session_id = self.begin(created=e.SessionCreated(title="t", model="m1", persona="p1"))
        head = self.store.head(session_id)
        assert (head.title, head.model, head.persona) == ("t", "m1", "p1")
        self.append(session_id, e.ModelChanged(model="m2"), e.PersonaChanged(persona="p2"))
        head = self.store.head(session_id)
        assert (head.model, head.persona) == ("m2", "p2")

    def test_the_time_of_the_last_message_is_the_writers(self) -> None:
        session_id = self.begin()
        assert self.store.head(session_id).last_message_at is None
        self.append(session_id, NewEvent(event=said("x").event, at=42))
        self.append(session_id, NewEvent(event=e.HistoryCleared(), at=43))
        assert self.store.head(session_id).last_message_at == 42

    def test_a_header_keeps_what_it_was_created_with(self) -> None:
        given = Header(
            session_id=new_id(),
            owner_id="me",
            parent_session_id=new_id(),
            depth=2,
            project_key="key",
            project_root="/some/where",
            project_fingerprint="f",
            created_at=77,
        )
        self.begin(header=given)
        self.reopened()
        head = self.store.head(given.session_id)
        for name in (
            "owner_id",
            "parent_session_id",
            "depth",
            "project_key",
            "project_root",
            "project_fingerprint",
            "created_at",
        ):
            assert getattr(head, name) == getattr(given, name)
