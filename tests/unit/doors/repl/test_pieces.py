"""The small parts of the terminal: lines of calls, attachments, commands of one's own, completion, the meter."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.history import InMemoryHistory

from outlast.app.permissions import is_readable_unasked
from outlast.core import events as e
from outlast.core.errors import OutlastError
from outlast.core.messages import ImagePart, TextPart, Usage, text_of
from outlast.core.state import SessionState
from outlast.doors.repl.approval_panel import ApprovalPanel, ApprovalQuestion
from outlast.doors.repl.commands.custom import custom_commands, message_of
from outlast.doors.repl.controller import ReplController
from outlast.doors.repl.input.attachments import attached, going_along, pasted_picture, typed
from outlast.doors.repl.input.completer import InputCompleter, files_like
from outlast.doors.repl.input.history_file import typed_before
from outlast.doors.repl.render.status import StatusLine, cost, elapsed, short_model, tokens
from outlast.doors.repl.render.tool_call_line import told_call, told_result
from outlast.doors.repl.session_picker import PickerOption, SessionPicker
from outlast.doors.terminal_text import cells

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 32


# --- calls


@pytest.mark.parametrize(
    ("name", "arguments", "line"),
    [
        ("bash", {"command": "npm  test\n"}, "`npm test`"),
        ("edit", {"file_path": "src/a.py", "old_string": "x"}, "edit src/a.py"),
        (
            "apply_patch",
            {"patch": "*** Update File: a.py\n*** Move to: b.py\n@@\n+*** Add File: no\n*** End Patch"},
            "apply_patch a.py, b.py",
        ),
        ("todo", {"items": []}, "todo"),
        ("bash", {"command": "a\x1b[2J"}, "`a<U+001B>[2J`"),
        ("other", {"n": 1, "what": "thing"}, "other thing"),
    ],
)
def test_a_call_is_told_as_a_person_would(name: str, arguments: dict[str, object], line: str) -> None:
    assert told_call(name, arguments) == line


def test_a_result_is_told_in_a_few_words() -> None:
    done = e.ToolCallFinished(call_id="c", name="edit", facts={"added": 2, "removed": 1})
    assert told_result(done) == "+2 -1"
    failed = e.ToolCallFinished(call_id="c", name="bash", is_error=True, facts={"exit_code": 3})
    assert told_result(failed) == "exit code 3"
    text = (TextPart("Interrupted, outcome unknown."),)
    cut_off = e.ToolCallFinished(call_id="c", name="bash", parts=text, status="cancelled", is_error=True)
    assert told_result(cut_off) == "interrupted, outcome unknown"


# --- attachments


def test_a_named_file_goes_along_as_text_and_a_picture_as_a_picture(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("content\n")
    (tmp_path / "b.png").write_bytes(PNG)
    found = attached("look at @a.txt, and at @b.png", tmp_path)
    assert text_of(found.parts) == 'look at @a.txt, and at @b.png\n\n<file path="a.txt">\ncontent\n</file>'
    assert isinstance(found.parts[2], ImagePart)
    assert (found.parts[2].media_type, found.parts[2].data) == ("image/png", PNG)


def test_what_was_typed_is_told_from_what_goes_along(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("content\n")
    (tmp_path / "b.png").write_bytes(PNG)
    found = attached("look at @a.txt, and at @b.png", tmp_path)
    assert typed(found.parts) == "look at @a.txt, and at @b.png"
    assert going_along(found.parts) == [("a.txt", 8), ("b.png", len(PNG))]
    assert going_along((TextPart('I wrote <file path="x">\n'),)) == []


def test_a_pasted_path_of_a_picture_attaches_it(tmp_path: Path) -> None:
    (tmp_path / "my shot.png").write_bytes(PNG)
    found = attached(f"what is this? '{tmp_path}/my shot.png'", tmp_path)
    assert [type(part) for part in found.parts] == [TextPart, ImagePart]


def test_what_is_no_file_stays_a_word_and_what_cannot_be_attached_is_told(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(b"\0\1\2")
    found = attached("mail me@example.com @nobody @x.bin", tmp_path)
    assert found.parts == (TextPart("mail me@example.com @nobody @x.bin"),)
    assert found.problems == (
        "x.bin is not attached: it is neither text nor a picture that models read (PNG, JPEG, GIF, WebP)",
    )


def _program(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


async def test_the_picture_in_the_clipboard_becomes_a_file_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(OutlastError, match="none is installed"):
        await pasted_picture(tmp_path / "pasted")
    _program(tmp_path / "bin", "wl-paste", "exit 1")
    with pytest.raises(OutlastError, match="no picture in the clipboard"):
        await pasted_picture(tmp_path / "pasted")
    (tmp_path / "shot").write_bytes(PNG)
    _program(tmp_path / "bin", "xclip", f"while read -r line; do :; done; exec /bin/cat '{tmp_path}/shot'")
    path = await pasted_picture(tmp_path / "pasted")
    assert path.read_bytes() == PNG
    assert path.stat().st_mode & 0o777 == 0o600
    assert [type(part) for part in attached(f'what is @"{path}" ?', tmp_path).parts] == [TextPart, ImagePart]


# --- what was typed before


def test_what_was_typed_is_kept_for_its_owner_and_a_lost_file_stops_nobody(tmp_path: Path) -> None:
    history = typed_before(tmp_path / "home" / "typed")
    history.append_string("first")
    assert (tmp_path / "home" / "typed").stat().st_mode & 0o777 == 0o600
    (tmp_path / "home" / "typed").unlink()
    (tmp_path / "home").rmdir()
    history.append_string("second")
    assert history.get_strings()[-1] == "second"
    (tmp_path / "file").touch()
    assert isinstance(typed_before(tmp_path / "file" / "typed"), InMemoryHistory)


# --- commands of one's own


def test_arguments_replace_their_place_or_follow_the_text() -> None:
    assert message_of("---\ndescription: x\n---\nFix $ARGUMENTS now.", "issue 4") == "Fix issue 4 now."
    assert message_of("Review this.", "the last commit") == "Review this.\n\nthe last commit"
    assert message_of("Review this.", "") == "Review this."


def test_ones_own_command_wins_over_a_projects_and_a_link_out_is_not_read(tmp_path: Path) -> None:
    project, home = tmp_path / "project", tmp_path / "home"
    (project / ".outlast" / "commands").mkdir(parents=True)
    (home / "commands").mkdir(parents=True)
    (tmp_path / "secret").write_text("secret")
    (project / ".outlast" / "commands" / "leak.md").symlink_to(tmp_path / "secret")
    (project / ".outlast" / "commands" / "fix.md").write_text("theirs")
    (home / "commands" / "fix.md").write_text("---\ndescription: mine\n---\nx")
    found = custom_commands(project, home)
    assert list(found) == ["fix"]
    assert found["fix"].about == "mine (yours)"


def test_arguments_are_also_single_words() -> None:
    assert message_of("Move $1 to $2.", "a.py 'b c.py'") == "Move a.py to b c.py."
    assert message_of("$1, then $ARGUMENTS; $3 is missing, $0 and $12 stay", "a b") == (
        "a, then a b;  is missing, $0 and $12 stay"
    )
    assert message_of("Say $1", "it's") == "Say it's"
    assert message_of("Say $1 and $ARGUMENTS", "$ARGUMENTS $1") == "Say $ARGUMENTS and $ARGUMENTS $1"


def test_commands_of_claude_code_stand_behind_our_own_and_folders_are_part_of_the_name(tmp_path: Path) -> None:
    project, home = tmp_path / "project", tmp_path / "home"
    (project / ".outlast" / "commands").mkdir(parents=True)
    (project / ".claude" / "commands" / "git" / "pr").mkdir(parents=True)
    (project / ".outlast" / "commands" / "fix.md").write_text("---\ndescription: ours\n---\nx")
    (project / ".claude" / "commands" / "fix.md").write_text("---\ndescription: theirs\n---\nx")
    (project / ".claude" / "commands" / "git" / "commit.md").write_text(
        "---\nallowed-tools: Bash(*)\nargument-hint: [message]\ndescription: commits\n---\n!`touch witness`\nCommit $1"
    )
    (project / ".claude" / "commands" / "git" / "pr" / "new one.md").write_text("x")
    (project / ".claude" / "commands" / "loop").symlink_to(project / ".claude" / "commands")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "leak.md").write_text("secret")
    (project / ".claude" / "commands" / "out").symlink_to(tmp_path / "outside")
    found = custom_commands(project, home)
    assert sorted(found) == ["fix", "git:commit", "git:pr:new-one"]
    assert found["fix"].about == "ours (project)"
    assert (found["git:commit"].about, found["git:commit"].usage) == ("commits (project)", "[message]")


async def test_a_command_line_in_a_command_file_is_sent_as_text(tmp_path: Path) -> None:
    (tmp_path / ".claude" / "commands").mkdir(parents=True)
    (tmp_path / ".claude" / "commands" / "x.md").write_text("!`touch witness`\n! touch witness\nSee @a.txt")
    controller = cast("ReplController", SimpleNamespace(next_input=None, next_is_foreign=False))
    await custom_commands(tmp_path, tmp_path / "home")["x"].run(controller, "")
    assert controller.next_input == "!`touch witness`\n! touch witness\nSee @a.txt"
    assert controller.next_is_foreign


def test_a_command_of_the_project_attaches_only_its_plain_files(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "secret.png").write_bytes(PNG)
    (tmp_path / "secret").write_text("secret")
    (project / "a.txt").write_text("fine")
    (project / ".env").write_text("secret")
    (project / "link").symlink_to("../secret")
    text = f"@a.txt @.env @link @../secret {tmp_path}/secret.png"
    found = attached(text, project, lambda path: is_readable_unasked(path, project))
    assert len(found.parts) == 2
    assert len(found.problems) == 4
    assert len(attached(text, project).parts) == 6


# --- completion


def test_what_is_no_readable_file_is_no_command_and_hides_no_other(tmp_path: Path) -> None:
    folder = tmp_path / ".outlast" / "commands"
    (folder / "folder.md").mkdir(parents=True)
    os.mkfifo(folder / "pipe.md")  # opening it would wait for ever
    (folder / "loop.md").symlink_to("loop.md")
    (folder / "review.md").write_text("Review it.")
    assert list(custom_commands(tmp_path, tmp_path / "home")) == ["review"]


def test_slash_commands_files_and_sessions_are_completed(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.py").touch()
    (tmp_path / ".git").mkdir()
    words = InputCompleter(
        lambda: tmp_path, lambda: {"model": "m", "new": "n"}, lambda: [("abcdef", "title")], lambda _: ["--fresh"]
    )

    def completed(text: str) -> list[str]:
        return [one.text for one in words.get_completions(Document(text), CompleteEvent())]

    assert completed("/m") == ["/model"]
    assert completed("/model --f") == ["--fresh"]
    assert completed("/resume abc") == ["abcdef"]
    assert completed("look at @s") == ["src/"]
    assert completed("look at @src/m") == ["src/main.py"]
    assert completed("nothing here") == []
    assert files_like(tmp_path, "no/such/folder") == []


# --- choosing and asking


def test_a_picker_finds_by_every_word_that_is_typed() -> None:
    picker = SessionPicker(
        "Resume", [PickerOption(1, "Fix the login", "shop"), PickerOption(2, "Fix the tests", "api")]
    )
    picker.buffer.text = "fix api"
    assert [option.value for option in picker.fitting] == [2]


def test_a_picker_finds_by_the_last_words_too_and_keeps_the_note_in_sight() -> None:
    options = [
        PickerOption(n, "東京タワー" * 20, f"abcdefg{n} · 3 min ago · shop", lambda n=n: f"it: done {n}")
        for n in range(9)
    ]
    picker = SessionPicker("Resume", options)
    for option in options:
        option.look_up()
    lines = "".join(str(piece[1]) for piece in picker.rows(60, 12)).split("\n")
    assert len(lines) <= 10
    assert all(cells(line) <= 60 for line in lines)
    assert "abcdefg0 · 3 min ago · shop" in lines[0]
    picker.buffer.text = "done 7"
    assert [option.value for option in picker.fitting] == [7]


def asked(**more: object) -> ApprovalQuestion:
    given: dict[str, object] = {
        "session_id": "s",
        "seq": 1,
        "name": "bash",
        "arguments": {},
        "call_digest": "d",
        **more,
    }
    return ApprovalQuestion(**given)  # pyright: ignore[reportArgumentType]


def test_a_long_question_is_paged_through_and_never_cut() -> None:
    panel = ApprovalPanel()
    panel.ask(asked(arguments={"command": "\n".join(f"line {n}" for n in range(100))}))
    seen = ""
    for _ in range(12):
        seen += "".join(str(piece[1]) for piece in panel.drawn(10, 80))
        panel.page(1)
    assert all(f"  line {n}\n" in seen for n in range(100))
    assert "lines 91 to 100 of 100" in seen


def test_a_question_fits_wide_characters_and_says_how_far_an_answer_reaches() -> None:
    panel = ApprovalPanel()
    why = "it runs a program that is not on the list of those that are known to be harmless, 東京"
    panel.ask(asked(arguments={"command": "echo " + "東京" * 40}, reason=why, scope="this exact call only"))
    panel.focused = True
    lines = "".join(str(piece[1]) for piece in panel.drawn(20, 60)).split("\n")
    assert all(cells(line) <= 60 for line in lines)
    assert sum(line.count("東") + line.count("京") for line in lines) == 82  # with those of the reason
    assert " 2 and 3 cover this exact call only" in lines
    assert why in " ".join(line.strip() for line in lines)  # no word is broken
    assert " 4 No " in lines  # below each other where there is no room beside


def test_what_is_typed_answers_the_models_question_and_the_hint_says_so() -> None:
    panel = ApprovalPanel()
    panel.ask(asked(name="ask_user", arguments={"question": "Which?", "choices": ["red\nblue", "green"]}))
    told = "".join(str(piece[1]) for piece in panel.drawn(10, 80))
    assert "type an answer and press Enter" in told
    assert "1 red blue" in told
    panel.drop()
    panel.ask(asked())
    assert "what you type goes to the model" in "".join(str(piece[1]) for piece in panel.drawn(10, 80))


def test_on_a_small_screen_the_answers_stay_in_sight() -> None:
    panel = ApprovalPanel()
    panel.ask(asked(arguments={"command": "\n".join("abcdefgh")}, reason="it has eight lines", scope="this exact call"))
    lines = "".join(str(piece[1]) for piece in panel.drawn(4, 30, 12)).split("\n")
    assert len(lines) <= 12
    assert " 1 Yes, once " in lines
    assert " 4 No " in lines
    assert any("of 8" in line for line in lines)
    assert all(cells(line) <= 30 for line in lines)  # one that is broken in two would push the last answer out


def test_a_question_is_asked_once_and_the_next_one_waits() -> None:
    panel = ApprovalPanel()
    assert panel.ask(asked(seq=1))
    assert not panel.ask(asked(seq=1))
    assert panel.ask(asked(seq=2))
    assert panel.asked is not None
    assert panel.asked.seq == 1
    assert panel.ask(asked(session_id="below", seq=1))  # another log, another question
    panel.take(("s", 1))
    assert panel.asked.at == ("s", 2)
    panel.leave("s")
    assert panel.asked.at == ("below", 1)


def test_the_models_own_question_offers_its_choices() -> None:
    question = asked(name="ask_user", arguments={"question": "Which?", "choices": ["red", "blue"]})
    assert question.choices == ("red", "blue")
    assert not question.is_approval
    assert question.heading == "The model asks:"
    assert asked(name="ask_user", from_runtime=True).heading == "Outlast asks:"


def test_a_plan_is_shown_whole_and_approved_once() -> None:
    plan = asked(name="exit_plan", arguments={"plan": "# Steps\n- write"}, scope="this exact call")
    assert (plan.heading, plan.choices) == ("Carry out this plan?", ("once", "deny"))
    assert [line for _, line in plan.lines()] == ["# Steps", "- write"]
    assert [plan.label(choice) for choice in plan.choices] == ["Yes, start the work", "No, keep planning"]
    panel = ApprovalPanel()
    panel.ask(plan)
    drawn = "".join(str(piece[1]) for piece in panel.drawn(20, 80))
    assert "2 and 3 cover" not in drawn


# --- the status line


def test_a_cost_that_is_not_known_has_a_question_mark() -> None:
    state = SessionState()
    assert cost(state) == "$0"
    state.usage.add(Usage(input_tokens=5, cost_micros=12_000), "a")
    assert cost(state) == "$0.0120"
    state.usage.add(Usage(input_tokens=5), "b")
    assert cost(state) == "$0.0120?"


def test_the_status_line_says_who_where_and_how_full() -> None:
    status = StatusLine()
    status.session, status.mode, status.model, status.window, status.used = "abcdefgh", "prompt", "x:y", 1000, 800
    line = "".join(str(piece[1]) for piece in status.line())
    assert line == " abcdefgh · prompt · x:y · ctx 80% of 1.0k · 0 tok · $0"


@pytest.mark.parametrize("width", [20, 40, 60, 80, 200])
def test_the_status_line_fits_and_keeps_mode_and_cost(width: int) -> None:
    status = StatusLine()
    status.session, status.mode, status.model = "abcdefgh", "workspace-write", "scripted:/tmp/a-rather-long-name.json"
    status.window, status.used = 200_000, 1000
    line = "".join(str(piece[1]) for piece in status.line(width))
    assert cells(line) <= max(width, 52)
    assert "workspace-write" in line
    assert line.endswith("$0")


def test_numbers_are_short() -> None:
    assert [tokens(n) for n in (999, 1500, 200_000, 2_000_000)] == ["999", "1.5k", "200k", "2.0M"]
    assert [elapsed(n) for n in (3.7, 61)] == ["3 s", "1 min 01 s"]
    assert short_model("scripted:/a/b/c.json") == "scripted:c.json"


def test_a_folder_of_commands_that_is_a_link_out_of_the_project_is_absent(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "private.md").write_text("secret")
    (tmp_path / "p" / ".claude").mkdir(parents=True)
    (tmp_path / "p" / ".claude" / "commands").symlink_to(tmp_path / "notes")
    assert custom_commands(tmp_path / "p", tmp_path / "home") == {}
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "commands").symlink_to(tmp_path / "notes")
    assert set(custom_commands(tmp_path / "p", tmp_path / "home")) == {"private"}
