"""`outlast sessions ...`, run in this process: what each command says, and its exit code."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import closing
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from outlast.core.errors import OutlastError
from outlast.core.events import EffectClass, SessionCreated, ToolCallStarted, TurnStarted
from outlast.core.header import Header
from outlast.core.messages import Message, Role, ToolCall
from outlast.doors import cli
from outlast.session import ConversationSession
from outlast.store import open_store
from outlast.store.log_store import LogStore
from outlast.store.port import Append, Claim, Create, NewEvent
from outlast.store.search.catch_up import CatchUp, IndexProgress

Run = Any


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/s.db"


@pytest.fixture
def store(url: str) -> Iterator[LogStore]:
    with closing(open_store(url)) as opened:
        yield opened


@pytest.fixture
def run(url: str, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*words: str) -> tuple[int, str, str]:
        code = cli.main(["sessions", *words, "--store", url])
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


def said(store: LogStore, *texts: str, project: Path | None = None) -> ConversationSession:
    session = ConversationSession(store=store, project_root=project or Path.cwd())
    for text in texts:
        session.append(Message(role=Role.USER, content=text))
    return session


def test_a_list_is_of_this_project_unless_all_are_asked_for(store: LogStore, run: Run, tmp_path: Path) -> None:
    here, there = said(store, "here"), said(store, "there", project=tmp_path)
    assert [row["id"] for row in json.loads(run("list", "--json")[1])["sessions"]] == [here.session_id]
    both = [row["id"] for row in json.loads(run("list", "--json", "--all-projects")[1])["sessions"]]
    assert both == [there.session_id, here.session_id]
    assert here.session_id[:8] in run("list")[1]


def test_the_session_of_a_sub_agent_says_whose_it_is(store: LogStore, run: Run) -> None:
    parent = said(store, "delegate it").session_id
    made = SessionCreated(parent_session_id=parent, depth=1, title="look around")
    store.commit(
        Create(header=Header(session_id="b" * 26, parent_session_id=parent, depth=1), events=(NewEvent(event=made),))
    )
    assert f"[sub-agent of {parent[:8]}]" in run("list", "--all-projects")[1]


def test_sessions_follow_a_moved_repository(
    store: LogStore, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "old name"
    (place / ".git").mkdir(parents=True)
    (place / ".git" / "config").write_text('[remote "origin"]\n\turl = https://example.org/o/r.git\n')
    session = said(store, "before the move", project=place)
    monkeypatch.chdir(place.rename(tmp_path / "new name"))
    [row] = json.loads(run("list", "--json")[1])["sessions"]
    assert (row["id"], row["project_root"]) == (session.session_id, str(place))


def test_an_ambiguous_beginning_lists_its_matches(store: LogStore, run: Run) -> None:
    names = ["abcdef" + "a" * 20, "abcdef" + "b" * 20]
    for name in names:
        store.commit(Create(header=Header(session_id=name), events=(NewEvent(event=SessionCreated()),)))
    code, _, told = run("show", "abcdef")
    assert code == 3
    assert all(name in told for name in names)
    assert run("show", "zzzzzz")[0] == run("show", "abc")[0] == 3


def test_show_hides_what_was_cleared_until_all_is_asked_for(store: LogStore, run: Run) -> None:
    from outlast.core.events import HistoryCleared

    session = said(store, "forgotten words")
    session.record(HistoryCleared())
    session.append(Message(role=Role.USER, content="new \x1b[31mwords"))
    short = run("show", session.session_id[:6])[1]
    assert "forgotten" not in short.split("\n\n", 1)[1]
    assert "1 message archived" in short
    assert "\x1b" not in short
    full = json.loads(run("show", session.session_id, "--all", "--json")[1])
    assert (full["messages"][0]["content"], full["messages"][0]["archived"]) == ("forgotten words", True)


def test_text_that_is_no_unicode_can_be_shown(store: LogStore, run: Run) -> None:
    call = ToolCall(id="c", name="bash", arguments={"command": "\ud800", "\ud801": ["\ud802"]})
    session = said(store, "lone \ud800 surrogate")
    session.append(Message(role=Role.ASSISTANT, tool_calls=[call]))
    for words in (["show"], ["show", "--json"], ["export", "--format", "md"], ["export", "--format", "html"]):
        assert run(words[0], session.session_id, *words[1:])[0] == 0


def test_an_interrupted_turn_is_told_plainly(store: LogStore, run: Run) -> None:
    session = said(store, "run the tests")
    events = (
        NewEvent(event=TurnStarted(), turn="t1"),
        NewEvent(event=ToolCallStarted(call_id="c", name="bash", arguments={"command": "npm test"}), turn="t1"),
    )
    store.commit(Append(session_id=session.session_id, events=events))
    assert "interrupted while running `npm test`, outcome unknown" in run("show", session.session_id)[1]
    assert "[interrupted]" in run("list")[1]
    asked = ToolCallStarted(call_id="q", name="ask_user", arguments={"question": "Which?"}, effect=EffectClass.READ)
    other = said(store, "ask me")
    started = (NewEvent(event=TurnStarted(), turn="t2"), NewEvent(event=asked, turn="t2"))
    store.commit(Append(session_id=other.session_id, events=started))
    assert "waited for your answer to its question" in run("show", other.session_id)[1]


@pytest.mark.parametrize("words", [["search"], ["search", ""], ["rewind", "abcdef"], ["rewind", "abcdef", "--to"]])
def test_what_lacks_an_argument_is_wrong_usage(store: LogStore, run: Run, words: list[str]) -> None:
    code, _, told = run(*words)
    assert (code, told.count("\n")) == (2, 1)


def test_an_archived_session_is_out_of_sight_until_it_is_asked_for(store: LogStore, run: Run) -> None:
    names = [said(store, text).session_id for text in ("one", "two", "three", "four")]
    for name in names[1:3]:
        assert run("archive", name)[0] == 0

    def page(*words: str) -> tuple[list[str], str | None]:
        found = json.loads(run("list", "--json", *words)[1])
        return [row["id"] for row in found["sessions"]], found["cursor"]

    assert page() == ([names[3], names[0]], None)
    first, cursor = page("--limit", "1")
    assert first == [names[3]]
    assert page("--limit", "1", "--cursor", cursor or "") == ([names[0]], None)
    assert page("--state", "archived")[0] == [names[2], names[1]]
    assert names[1] in run("search", "two", "--json")[1]


def test_a_session_is_renamed_archived_ended_and_taken_up_again(store: LogStore, run: Run) -> None:
    name = said(store, "hello").session_id
    assert run("rename", name, "Another title")[0] == 0
    assert run("rename", name, " ")[0] == 1
    assert (run("archive", name)[0], store.head(name).state) == (0, "archived")
    assert (run("unarchive", name)[0], store.head(name).state) == (0, "active")
    assert (run("end", name)[0], store.head(name).state) == (0, "ended")
    for words in (["end"], ["resume"], ["compact"], ["rewind", "--to", "2"]):
        code, _, told = run(words[0], name, *words[1:])
        assert (code, f"sessions reopen {name[:6]}" in told) == (4, True)
    assert (run("reopen", name)[0], store.head(name).state) == (0, "active")
    assert store.head(name).title == "Another title"


def test_fork_and_rewind_take_the_numbers_that_show_gives(store: LogStore, run: Run) -> None:
    session = said(store, "one", "two", "three")
    fork = json.loads(run("fork", session.session_id, "--at", "3", "--title", "Branch", "--json")[1])["session_id"]
    assert (store.head(fork).message_count, store.head(fork).title) == (2, "Branch")
    assert run("fork", session.session_id, "--at", "99")[0] == 1
    assert run("rewind", session.session_id, "--to", "3")[0] == 0
    assert [message.content for message in session.history()] == ["one", "two"]
    assert run("rewind", session.session_id, "--undo")[0] == 0
    assert len(session.history()) == 3
    assert run("rewind", session.session_id, "--to", "1")[0] == 1


def test_a_boundary_of_a_driven_session_is_requested(store: LogStore, run: Run) -> None:
    session = said(store, "one", "two")
    store.commit(Claim(session_id=session.session_id, token="t", holder=f"somewhere:{os.getpid()}:x"))
    assert "requested" in run("rewind", session.session_id, "--to", "2")[1]


@pytest.mark.parametrize(("said_there", "told"), [("", "add --yes"), ("n\n", "nothing was"), ("\n", "nothing was")])
def test_only_a_yes_deletes(
    store: LogStore, run: Run, monkeypatch: pytest.MonkeyPatch, said_there: str, told: str
) -> None:
    name = said(store, "hello").session_id
    monkeypatch.setattr("sys.stdin", StringIO(said_there))
    code, _, refused = run("delete", name)
    assert (code, told in refused, refused.count("\n")) == (4, True, 1)
    monkeypatch.setattr("sys.stdin", StringIO("yes\n"))
    assert run("delete", name)[0] == 0
    assert run("show", name)[0] == 3


def test_deleting_erases_and_leaves_a_receipt(store: LogStore, run: Run, tmp_path: Path) -> None:
    session = said(store, "a very secret xylophone")
    name = session.session_id
    assert run("search", "xylophone")[0] == 0
    [receipt] = json.loads(run("delete", name, "--yes", "--json")[1])["deleted"]
    assert (receipt["session_id"], receipt["deleted_by"], receipt["last_seq"]) == (name, "user/cli", 2)
    code, _, told = run("show", name)
    assert (code, "was deleted on" in told) == (3, True)
    assert run("search", "xylophone")[1] == "nothing found\n"
    store.close()
    assert not [path for path in tmp_path.glob("s.db*") if b"xylophone" in path.read_bytes()]


def test_search_shows_the_words_around_and_the_event(store: LogStore, run: Run) -> None:
    session = said(store, "nothing", "where is the 東京タワー, please?")
    code, told, _ = run("search", "東京")
    assert (code, "event 3, user: where is the [東京]タワー, please?" in told) == (0, True)
    answer = json.loads(run("search", "京タ", "--json", "--wait")[1])
    [hit] = answer["hits"]
    assert answer["indexed"] == {"events": 3, "of": 3}
    assert (hit["session_id"], hit["seq"], hit["snippet"]["match"]) == (session.session_id, 3, "京タ")
    assert run("search", "--rebuild")[0] == 0
    assert run("search", "")[0] == 2


def test_search_tells_people_how_much_was_searched(store: LogStore, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    said(store, "the walrus")
    held = threading.Event()

    def held_up(_: CatchUp) -> IndexProgress:
        return IndexProgress(0, 2, held.wait(1))

    monkeypatch.setattr(CatchUp, "run", held_up)
    code, told, line = run("search", "walrus")
    assert (code, "the [walrus]" in told) == (0, True)
    assert line == "outlast: 0 of 2 events are indexed; --wait searches all of them\n"


def test_the_newest_hit_comes_first_whichever_session_was_active_last(store: LogStore, run: Run) -> None:
    older, newer = said(store, "the plum"), said(store, "another plum")
    older.append(Message(role=Role.USER, content="something else"))
    hits = json.loads(run("search", "plum", "--json")[1])["hits"]
    assert [hit["session_id"] for hit in hits] == [newer.session_id, older.session_id]


def test_an_export_that_breaks_off_leaves_no_half_of_a_file(tmp_path: Path) -> None:
    from outlast.doors.cli.sessions.transfer import _write

    def pieces() -> Iterator[bytes]:
        yield b"first"
        raise OSError(28, "No space left on device")

    with pytest.raises(OutlastError, match="No space left on device"):
        _write(tmp_path / "out", pieces())
    assert not (tmp_path / "out").exists()


def test_export_writes_a_file_once_and_import_takes_it(store: LogStore, run: Run, tmp_path: Path) -> None:
    session = said(store, "hello")
    path = tmp_path / "out.jsonl"
    assert run("export", session.session_id, "-o", str(path))[0] == 0
    assert run("export", session.session_id, "-o", str(path))[0] == 1
    assert "already existed" in run("import", str(path))[1]
    assert run("import", str(tmp_path / "none"))[0] == 1
    page = tmp_path / "out.html"
    assert run("export", session.session_id[:6], "--format", "html", "-o", str(page))[0] == 0
    assert page.read_text().startswith("<!doctype html>")
    assert run("export", "zzzzzz", "-o", str(tmp_path / "no"))[0] == 3
    assert not (tmp_path / "no").exists()


def test_stats_are_drawn_and_told_as_json(store: LogStore, run: Run) -> None:
    said(store, "hello")
    assert "1 session, 0 turns, 1 message" in run("stats")[1]
    assert json.loads(run("stats", "--json")[1])["total"]["sessions"] == 1


def test_every_command_has_a_line_of_help(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    from outlast.doors.cli.sessions import VERBS

    assert cli.main(["sessions", "--help"]) == 0
    told = capsys.readouterr().out
    assert all(line in told for line in VERBS.values())


def test_without_a_store_there_are_no_sessions_and_none_is_made(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sessions", "list", "--all-projects"]) == 0
    assert capsys.readouterr().out == "no sessions\n"
    for verb in ("show", "end", "resume", "export"):
        assert cli.main(["sessions", verb, "abcdef"]) == 3
        assert capsys.readouterr().err == "outlast: there are no sessions here yet; `outlast` starts one\n"
    assert not Path(os.environ["OUTLAST_HOME"], "outlast.db").exists()
