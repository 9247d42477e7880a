"""The REPL in a real terminal: what a person types, sees and interrupts."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from outlast import ConversationSession, Message, Role
from outlast.doors.repl.render.style import HERE
from outlast.models import local
from outlast.runtime.service import SessionService
from tests.conftest import everything_is_required
from tests.support.terminal import Place, Terminal, call, reply, until

WALL = ["network:example.org"]
"""What a command needs so that it is asked about: inside the sandbox it runs unasked."""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def opened(place: Place, *words: str) -> Terminal:
    terminal = Terminal(place, "--model", place.model, *words)
    terminal.sees("Resume with", *(() if "-c" in words else ("ctx",)))  # a resume may begin with a question
    return terminal


def test_a_conversation_with_tools_and_approvals(place: Place) -> None:
    (place.project / "a.txt").write_text("old\n")
    edit = call("edit", file_path="a.txt", old_string="old", new_string="new\u202e")
    shell = call("bash", command="touch made\u200b.txt")
    place.says(reply("# First\n\nI *look* at it.", **edit), shell, shell, reply("It is **done**."))
    with opened(place, "--permission-mode", "prompt") as terminal:
        first = terminal.screen().splitlines()
        assert "a coding agent whose sessions cannot be lost" in first[0]
        assert "scripted:script.json" in first[1]
        assert "outlast -c" in first[2]
        terminal.types("change it")
        asked = terminal.sees("Allow edit?", "-old", "+new<U+202E>", "Yes, once")
        assert "First" in asked
        assert sum(line.startswith("─") for line in terminal.visible()) == 1  # nothing of what was drawn before is left
        assert (place.project / "a.txt").read_text() == "old\n"
        terminal.keys("1")
        terminal.sees("edit a.txt  +1 -1", "Allow bash?", "touch made<U+200B>.txt")
        assert (place.project / "a.txt").read_text() == "new\u202e\n"
        terminal.keys("Right", "Right", "Right", "Enter")
        terminal.sees("the user declined this call", "Allow bash?")
        terminal.types("/permissions")  # a text that is begun at a question answers nothing
        terminal.sees("granted  0", "Tab answers the question")
        terminal.keys("Tab", "y")
        terminal.sees("It is done.")
        ended = terminal.sees("done in", "prompt · bubblewrap · scripted")
        assert "$?" in ended
        assert "ctx 2%" in ended
        terminal.keys("C-o")
        terminal.sees('"command"')
        terminal.keys("C-d")
        terminal.sees("outlast -c continues it", "left with 0")


def test_ctrl_c_stops_what_runs_within_a_second_and_a_second_one_leaves(place: Place) -> None:
    slow = reply("Once upon a time. " + "And then, and then, and then. " * 40, delay_ms=30_000)
    tool = call("bash", command="touch started; sleep 60")
    place.says(slow)
    with opened(place) as terminal:
        terminal.keys("C-c")
        terminal.sees("Ctrl-C again, or Ctrl-D, leaves")

        terminal.types("speak")
        terminal.sees("Once upon a time.", "writing")
        pressed = time.monotonic()
        terminal.keys("C-c")
        terminal.sees("stopped: the user interrupted it")
        assert time.monotonic() - pressed < 5  # a second on an idle machine; this one may be a busy one
        terminal.sees("Once upon a time.")  # what was written stays
        terminal.types("!sleep 60")
        terminal.sees("your command runs")
        terminal.keys("C-c")
        terminal.sees("· stopped\n")
    place.says(tool, call("bash", command="curl http://example.org", needs=WALL), reply("still here"))
    with opened(place, "-c") as terminal:
        terminal.sees("was interrupted", "Continue it?")
        terminal.keys("Escape")
        terminal.sees("left as it is")
        terminal.types("run")
        terminal.until((place.project / "started").exists)
        pressed = time.monotonic()
        terminal.keys("C-c")
        terminal.sees("interrupted, outcome unknown", "stopped: the user interrupted it")
        assert time.monotonic() - pressed < 5

        terminal.types("ask")
        terminal.sees("Allow bash?", "the network: example.org")
        terminal.keys("C-c")
        terminal.sees("stopped: the user interrupted it", times=2)
        assert "Allow bash?" not in terminal.screen()

        terminal.types("go on")
        terminal.sees("still here")
        terminal.keys("C-c")
        terminal.keys("C-c")
        terminal.sees("left with 0")


def test_a_closed_terminal_loses_nothing_and_the_resume_says_what_happened(place: Place) -> None:
    place.says(call("bash", command="touch started; sleep 60"), reply("I looked again, and all is well."))
    with opened(place, "--allow", "bash") as terminal:
        terminal.types("run the job")
        terminal.until((place.project / "started").exists)
        terminal.sees("running `touch started; sleep 60`")
    with opened(place, "-c") as terminal:
        told = terminal.sees("was interrupted while running `touch started; sleep 60`; outcome unknown", "Continue it?")
        assert "run the job" in told
        terminal.keys("Enter")
        terminal.sees("I looked again, and all is well.")


def test_typing_while_a_turn_runs_steers_or_queues_and_says_which(place: Place) -> None:
    wait = "while [ ! -f go ]; do sleep 0.05; done"
    place.says(call("bash", command=wait), reply("First answer."), reply("Second answer."))
    with opened(place, "--allow", "bash") as terminal:
        terminal.types("wait for it")
        terminal.sees("running `while")
        terminal.types("be brief")
        terminal.sees("be brief  (steers the turn)")
        terminal.types("/queue then this")
        terminal.sees("then this  (queued)")
        (place.project / "go").touch()
        terminal.sees("First answer.", "Second answer.")


def test_a_running_command_is_seen_and_the_screen_survives_other_widths(place: Place) -> None:
    wait = "for n in 1 2 3 4 5 6 7; do echo step $n 東京; done; while [ ! -f go ]; do sleep 0.05; done"
    place.says(call("bash", command=wait), reply("It took a while."))
    with opened(place, "--allow", "bash") as terminal:
        terminal.types("wait for it")
        for columns in (110, 60, 200, 70):
            terminal.resize(columns)
            terminal.until(lambda columns=columns: _is_one_frame(terminal, columns))
        (place.project / "go").touch()
        terminal.sees("It took a while.", "done in")
        assert "  step 7 東京" not in "\n".join(terminal.visible())
        terminal.keys("C-o")
        terminal.sees("  step 1 東京", "  step 7 東京")


def _is_one_frame(terminal: Terminal, columns: int) -> bool:
    """Whether the screen shows the running command once, its last lines under it, and one rule as wide as it is."""
    seen = terminal.visible()
    [*doing] = [n for n, line in enumerate(seen) if "running `for n in" in line]
    return (
        len(doing) == 1
        and seen[doing[0] + 1 : doing[0] + 6] == [f"  step {n} 東京" for n in range(3, 8)]
        and seen[doing[0] + 6 :][:1] == ["─" * columns]
        and sum(line.startswith("─") for line in seen) == 1
    )


def test_a_session_of_another_project_goes_on_in_its_own_folder_and_brings_its_questions(place: Place) -> None:
    other = place.project.parent / "other"
    (other / ".outlast").mkdir(parents=True)
    (other / ".outlast" / "permission-rules.json").write_text('{"allow": [{"tool": "bash"}]}')
    place.says(call("write", file_path="made.txt", content="x\n"), *[reply("Made.")] * 8)
    with place.store() as store:
        session = ConversationSession(project_root=other, store=store, model=place.model)
        session.commit(SessionService(store).writes.admission(session.session_id, "make it"))
        name = session.session_id
    with opened(place) as terminal:
        terminal.types(f"/resume {name[:8]}")
        terminal.sees(f"this session works in {other}", '{"allow": [{"tool": "bash"}]}', "Use it?")
        terminal.keys("Enter")
        terminal.sees("is ignored", "A message was stored here and not answered yet", "Continue it?")
        terminal.keys("Enter")
        terminal.sees("Made.", "done in")
        assert (other / "made.txt").exists()
        terminal.types("!pwd")
        terminal.sees(f"  {other}")
        assert not (place.home / "consents.json").exists()


def test_what_could_not_be_stored_stands_in_the_input_line_again(place: Place) -> None:
    place.says(reply("Hello."), reply("Still there."))
    with opened(place) as terminal:
        terminal.types("hello")
        terminal.sees("done in")
        with place.store() as store:
            [row] = ConversationSession.list(store=store)
            ConversationSession.resume(row.session_id, store=store).end()
        terminal.types("and more")
        terminal.sees("has ended", f"{HERE} and more")
        with place.store() as store:
            ConversationSession.resume(row.session_id, store=store).reopen()
        terminal.keys("Enter")
        terminal.sees("Still there.")


def test_the_picker_finds_a_session_by_what_is_typed(place: Place) -> None:
    place.says(reply("Yes."))
    with place.store() as store:
        for said in ("about apples", "about pears", "about plums"):
            session = ConversationSession(project_root=place.project, store=store)
            session.extend([Message(role=Role.USER, content=said), Message(role=Role.ASSISTANT, content="Fine.")])
    with Terminal(place, "--resume", "--model", place.model) as terminal:
        seen = terminal.sees("Resume:", "about apples", "about pears", "about plums", "3 of 3", "it: Fine.")
        assert "project" in seen
        terminal.keys("-l", "pear")
        terminal.sees("1 of 3")
        terminal.keys("Enter")
        terminal.sees('"about pears"', "ctx")


def test_slash_commands_do_what_they_say(place: Place) -> None:
    (place.project / ".outlast" / "commands").mkdir(parents=True)
    (place.project / ".outlast" / "commands" / "greet.md").write_text("Say hello to $ARGUMENTS.")
    place.says(*(reply(f"Answer {n}.") for n in range(1, 6)))
    with opened(place) as terminal:
        terminal.types("/greet the world")
        terminal.sees("Say hello to the world.", "Answer 1.", "done in")
        terminal.types("/rename A good name")
        terminal.sees("renamed to A good name")
        terminal.types("/fork")
        terminal.sees("this is a fork")
        terminal.types("/tree")
        terminal.sees("at event")
        terminal.types("/clear")
        terminal.sees("cleared: the messages are archived")
        terminal.types("/context")
        assert "user" not in terminal.sees("in the window").rpartition("in the window")[2]
        terminal.types("/new")
        terminal.sees("a new session; the last one is kept", "new session")
        terminal.types("/sessions")
        terminal.sees("A good name")
        for line, answer in {
            "/modle x": "did you mean /model",
            "/model no-such": "unknown model",
            "/agent nobody": "there is no persona 'nobody'",
            "/permissions allow": "cannot be chosen here",
            "/permissions": "at most workspace-write",
            "/usage": "0 turns",
            "/timeline": "no decisions in this session",
            "/ledger": "the ledger is empty",
            "/prompts": "no prompt was sent yet",
            "/resume zzzzzz": "no session begins with zzzzzz",
            "/stop": "no turn is running",
        }.items():
            terminal.types(line)
            terminal.sees(answer)
        terminal.types("/quit")
        terminal.sees("left with 0")


def test_rewinding_with_escape_escape_brings_the_message_and_the_files_back(place: Place) -> None:
    place.says(call("write", file_path="a.txt", content="new\n"), reply("Written."))
    (place.project / "a.txt").write_text("old\n")
    with opened(place) as terminal:
        terminal.types("write it")
        terminal.sees("done in")
        terminal.keys("Escape", "Escape")
        terminal.sees("Rewind to before")
        terminal.keys("Enter")
        terminal.sees("Put the files back too?")
        terminal.keys("Down", "Enter")
        terminal.sees("rewound; /undo rewind takes it back")
        assert (place.project / "a.txt").read_text() == "old\n"
        terminal.sees("write it", times=2)  # in the input line again
        terminal.keys("C-c")
        terminal.types("/undo rewind")
        terminal.sees("the rewind is undone")
        assert (place.project / "a.txt").read_text() == "new\n"


def test_own_commands_files_and_modes(place: Place) -> None:
    (place.project / "notes.txt").write_text("remember the milk\n")
    place.says(reply("I saw both."))
    with opened(place) as terminal:
        terminal.types("!echo by my own hand")
        terminal.sees("  by my own hand")
        terminal.types("look at @notes.txt")
        assert "milk" not in terminal.sees("[notes.txt, 18 bytes]", "I saw both.")
        terminal.keys("C-r")
        terminal.sees("typed before:")
        terminal.keys("C-c")  # leaves the search, and nothing else
        terminal.until(lambda: "typed before:" not in terminal.screen())
        assert "leaves" not in terminal.screen()
        terminal.keys("BTab")
        terminal.sees("plan mode is on", "· plan mode ·")
        terminal.keys("BTab")
        terminal.sees("plan mode is off", "permission mode: read-only")
        terminal.keys("BTab")
        terminal.sees("permission mode: prompt")
        terminal.keys("BTab")
        terminal.sees("permission mode: workspace-write")
        terminal.keys("BTab")
        terminal.sees("plan mode is on", times=2)  # never above what it was started with
    with place.store() as store:
        [row] = ConversationSession.list(store=store)
        session = ConversationSession.resume(row.session_id, store=store)
        assert "I ran this command myself:\n$ echo by my own hand" in session.messages[0].content
        assert session.messages[1].content == (
            'look at @notes.txt\n\n<file path="notes.txt">\nremember the milk\n</file>'
        )


def test_what_a_project_brings_along_is_shown_and_asked_about(place: Place) -> None:
    folder = place.project / ".outlast"
    folder.mkdir()
    (folder / "permission-rules.json").write_text('{"allow": [{"tool": "bash"}]}')
    place.says(reply("Hello."))
    with Terminal(place, "--model", place.model) as terminal:
        terminal.sees('{"allow": [{"tool": "bash"}]}', "No, ignore it")
        terminal.keys("Down", "Enter")
        terminal.sees("permission-rules.json of this project is in use", "ctx")
    assert "permission-rules.json" in (place.home / "consents.json").read_text()


def test_a_question_survives_a_killed_process_and_is_asked_again(place: Place) -> None:
    place.says(call("bash", command="install /dev/null made.txt", needs=WALL), *[reply("Made.")] * 8)
    with opened(place) as terminal:
        terminal.types("make it")
        terminal.sees("Allow bash?", "install /dev/null made.txt")
        terminal.kill()
        terminal.sees("left with 137")
    with opened(place, "-c") as terminal:
        terminal.sees("while it waited for your approval of bash", "Continue it?")
        terminal.keys("Enter")
        terminal.sees("Allow bash?", "install /dev/null made.txt")
        terminal.keys("1")
        terminal.sees("Made.")
        assert (place.project / "made.txt").exists()


def test_what_a_sub_agent_does_is_seen_and_what_it_asks_is_asked(place: Place) -> None:
    command = "install /dev/null made.txt; echo under way; until test -e go; do sleep 0.05; done"
    job = call("bash", command=command, needs=WALL)
    place.says(job, reply("First."), call("task", prompt="Look into the parser."), reply("All of it."))
    (place.project / "go").touch()
    (place.project / ".gitignore").write_text("go\n")  # else it counts as a change of the command that runs meanwhile
    with opened(place) as terminal:  # a sub-agent plays the same script from its beginning
        terminal.types("one")
        terminal.sees("Allow bash?")
        terminal.keys("1")
        terminal.sees("First.", "done in")
        (place.project / "go").unlink()
        terminal.types("two")
        terminal.sees("Allow bash?", "a sub-agent asks", "install /dev/null made.txt")
        terminal.keys("1")
        terminal.sees("running task Look into the parser.", "↳ `install /dev/null made.txt;", "  under way")
        (place.project / "go").touch()
        assert "↳" not in terminal.sees("All of it.", "task Look into the parser.  First.")


def test_what_a_sub_agent_asks_survives_a_killed_process(place: Place) -> None:
    shell = call("bash", command="install /dev/null made.txt", needs=WALL)
    place.says(shell, reply("First."), call("task", prompt="Look into the parser."), reply("All of it."))
    with opened(place) as terminal:
        terminal.types("one")
        terminal.sees("Allow bash?")
        terminal.keys("4")
        terminal.sees("First.", "done in")
        terminal.types("two")
        terminal.sees("a sub-agent asks")
        terminal.kill()
    assert not (place.project / "made.txt").exists()
    with opened(place, "-c") as terminal:
        terminal.sees("Continue it?")
        terminal.keys("Enter")
        terminal.sees("a sub-agent asks", "install /dev/null made.txt")
        terminal.keys("1")
        terminal.sees("All of it.")
    assert (place.project / "made.txt").exists()


def test_a_session_that_another_process_drives_can_be_watched_steered_and_stopped(place: Place) -> None:
    wait = "touch started; while [ ! -f go ]; do sleep 0.05; done"
    heard = reply("Both of you were heard.")
    place.says(call("bash", command=wait), heard, heard, call("bash", command="touch begun; sleep 60"), heard)
    other = place.start("-p", "wait", "--model", place.model, "--allow", "bash")
    try:
        until((place.project / "started").exists)
        with Terminal(place, "-c", "--model", place.model) as terminal:
            terminal.sees("Resume with", "ctx", "wait")
            terminal.types("hello from here")
            terminal.sees("another process drives this session", "hello from here")
            (place.project / "go").touch()
            terminal.sees("Both of you were heard.")
            answer, told = other.communicate(timeout=20)
            assert "Both of you were heard." in answer, told
            other = place.start("-p", "again", "-c", "--model", place.model, "--allow", "bash")
            until((place.project / "begun").exists)
            terminal.sees("running `touch begun; sleep 60`")
            terminal.types("/stop")
            terminal.sees("asked the process that drives this session", "stopped: the user interrupted it")
            other.communicate(timeout=20)
    finally:
        other.kill()
        other.communicate()


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.xdist_group("local-model")
@pytest.mark.skipif(not local.installed() and not everything_is_required(), reason="needs outlast[local]")
def test_without_a_key_the_local_model_answers_and_the_first_three_lines_say_so(place: Place) -> None:
    with Terminal(place) as terminal:
        terminal.sees("Resume with", "ctx")
        what, who, where = terminal.screen().splitlines()[:3]
        assert what.startswith("Outlast")
        assert "local  a demo model, only for talk; set ANTHROPIC_API_KEY" in who
        assert "outlast -c" in where
        terminal.types("Say hello in one short sentence.")
        terminal.sees("done in", patience=150)
    with place.store() as store:
        [row] = ConversationSession.list(store=store)
        [_, answer] = ConversationSession.resume(row.session_id, store=store).history()
        assert answer.content.strip()
