"""What a session looks like on the screen: events in, text out."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from prompt_toolkit.data_structures import Point
from prompt_toolkit.layout import Window
from prompt_toolkit.layout.screen import Char, Screen
from rich.console import RenderableType

from outlast.core import events as e
from outlast.core.event_row import StoredEvent
from outlast.core.messages import Role, TextPart
from outlast.doors.repl.event_view import EventView
from outlast.doors.repl.input.bang_command import BangResult
from outlast.doors.repl.pt_application import rows_added
from outlast.doors.repl.render.renderables import drawn, folded, markdown
from outlast.doors.repl.render.status import LINES, OutputTail, activity
from outlast.doors.terminal_text import cells
from outlast.runtime.turn.observer import NoData, RetryWait

STORED: Any = StoredEvent("s", 1, "", 1, 0, "", None, None, None, "plain", b"", b"", False)


class Seen:
    """A view and what it has put on a screen."""

    def __init__(self) -> None:
        self.put: list[RenderableType] = []
        self.view = EventView(self.put.append)

    def happens(self, *events: e.Event) -> None:
        for event in events:
            self.view.happened(STORED, event)

    def text(self, width: int = 80) -> str:
        return drawn(*self.put, width=width, colours=False)


def started(call_id: str, command: str) -> e.Event:
    return e.ToolCallStarted(call_id=call_id, name="bash", arguments={"command": command})


def finished(call_id: str, text: str = "", **more: Any) -> e.Event:
    return e.ToolCallFinished(call_id=call_id, name="bash", parts=(TextPart(text),), **more)


# --- what runs


def test_the_end_of_a_running_command_is_shown_until_it_ends() -> None:
    seen = Seen()
    seen.view.progress("a", "early\n")  # the log may be slower than the command
    assert seen.view.running_lines() == []
    seen.happens(e.TurnStarted(), started("a", "make"))
    assert seen.view.running_lines() == ["early"]
    seen.view.progress("child", "of a sub-agent\n")
    seen.view.progress("a", "".join(f"line {n}\n" for n in range(20)))
    assert seen.view.running_lines() == [f"line {n}" for n in range(20 - LINES, 20)]
    seen.happens(finished("a", "done"))
    assert seen.view.running_lines() == []


def test_what_a_command_says_cannot_steer_the_terminal() -> None:
    tail = OutputTail()
    tail.add("10 %\r50 %\r99 %\r\n\x1b[31mred\x1b[0m \x1b[2J\tend\n\n")
    assert tail.lines() == ["99 %", "red <U+001B>[2J end"]
    tail.add("x" * 100_000)
    assert len(tail.lines()[-1]) < 10_000


def test_the_spinner_line_fits_and_drops_its_hint_first() -> None:
    def lines(width: int) -> list[str]:
        pieces = activity(
            "running `東京 make`", time.monotonic(), "Ctrl-C stops", ["a long line of output 東京"], width
        )
        return "".join(str(piece[1]) for piece in pieces).split("\n")

    assert lines(60)[0][2:] == "running `東京 make` 0 s · Ctrl-C stops"
    assert lines(30)[0][2:] == "running `東京 make` 0 s"
    assert all(cells(line) <= 20 for line in lines(20))
    long = activity("retrying in 4 s: " + "x" * 99, time.monotonic(), "type to steer · Ctrl-C stops", [], 80)
    shown = "".join(str(piece[1]) for piece in long)
    assert shown[2:].startswith("retrying in 4 s: xxx")
    assert shown.endswith(" · Ctrl-C stops")
    assert cells(shown) <= 80


def test_what_the_runtime_tells_the_model_and_why_a_turn_stopped_are_shown() -> None:
    seen = Seen()
    told = "[Outlast runtime] The last 5 calls were the same."
    seen.happens(e.TurnStarted(), e.MessageAppended(role=Role.SYSTEM, parts=(TextPart(told),)))
    seen.happens(e.TurnEnded(outcome="budget_exhausted", reason="the step budget of 2 is used up"))
    assert seen.text().splitlines() == [
        "· Outlast told the model: The last 5 calls were the same.",
        "· stopped: the step budget of 2 is used up; send a message to go on",
    ]


# --- waits for the model and failures


def test_a_retry_counts_down_until_the_model_is_asked_again() -> None:
    seen = Seen()
    seen.happens(e.TurnStarted(), e.ModelRequested(model="m", attempt=2))
    seen.view.waits(RetryWait(attempt=3, seconds=8, reason="the provider is overloaded", gives_up_in=540))
    assert seen.view.activity == "retrying in 8 s (attempt 3, gives up in 9 min)"
    assert seen.view.running_lines() == ["the provider is overloaded"]
    seen.happens(e.ModelRequested(model="m", attempt=2))  # the log may be slower than the turn
    seen.happens(e.ReplyInterrupted(attempt_seq=1, reason="the provider is overloaded"))
    assert "retrying in 8 s" in seen.view.activity
    seen.happens(e.ModelRequested(model="m", attempt=3))
    assert seen.view.activity == "retrying the model request (attempt 3)"
    assert seen.text().splitlines() == ["· the provider is overloaded; retrying (attempt 3)"]


def test_a_silent_stream_is_shown_until_data_comes() -> None:
    seen = Seen()
    seen.happens(e.TurnStarted(), e.ModelRequested(model="m", attempt=1))
    assert seen.view.activity == "waiting for the model"
    seen.view.waits(NoData(seconds=30, limit=300))
    assert seen.view.activity == "no data for 30 s (the request is closed after 5 min, Ctrl-C stops it)"
    seen.view.waits(None)
    assert seen.view.activity == "waiting for the model"


@pytest.mark.parametrize("reason", ["openai:m: the key was refused (401); check KEY", "down; 14 attempts failed"])
def test_an_error_that_ends_the_turn_is_one_line(reason: str) -> None:
    seen = Seen()
    seen.happens(
        e.TurnStarted(),
        e.ModelRequested(model="m", attempt=1),
        e.ReplyInterrupted(attempt_seq=1, reason=reason.partition("; 14")[0]),
        e.TurnEnded(outcome="failed", reason=reason),
    )
    assert seen.text(200).splitlines() == [f"· the turn failed: {reason}; /retry tries again"]


def test_a_reply_that_broke_off_says_so_only_if_there_was_one() -> None:
    seen = Seen()
    seen.happens(
        e.TurnStarted(),
        e.ReplyInterrupted(attempt_seq=1, reason="gone", parts=(TextPart("half"),)),
        e.ModelRequested(model="m", attempt=2),
    )
    assert seen.text().splitlines()[-1] == "· the reply broke off: gone; retrying (attempt 2)"


def test_a_switch_of_the_dialect_is_one_line() -> None:
    seen = Seen()
    switched = {"model": "m", "dialect": "text", "code": "dialect_tools_refused", "reason": "m takes no tools (400)"}
    seen.happens(
        e.TurnStarted(),
        e.ReplyInterrupted(attempt_seq=1, reason="m takes no tools (400); use --dialect text"),
        e.RuntimeStateChanged(changes={"dialect": switched}),
        e.ModelRequested(model="m", attempt=2),
    )
    assert seen.text().splitlines() == ["· tool calls are text from now on: m takes no tools (400)"]


# --- what was done


@pytest.mark.parametrize("width", [40, 60, 200])
def test_a_call_is_one_line_at_any_width_and_its_result_is_seen(width: int) -> None:
    seen = Seen()
    command = "echo 東京 " * 30
    seen.happens(started("a", command), finished("a", "1\n2", facts={"seconds": 2.5}))
    [line] = seen.text(width).splitlines()
    assert cells(line) <= width
    assert line.startswith("● bash `echo 東京")
    assert line.endswith("2 lines, 2.5 s")


def test_a_refusal_is_told_whole_and_names_the_call_that_only_the_question_knew() -> None:
    seen = Seen()
    why = "Not executed: " + "because of many reasons " * 8
    asked = e.ApprovalRequested(call_id="v", name="bash", arguments={"command": "test -f x"}, call_digest="d")
    seen.happens(asked, finished("v", why, status="declined", is_error=True))
    told = " ".join(seen.text(60).split())
    assert told.startswith("✗ bash `test -f x`")
    assert told.count("because of many reasons") == 8


def test_who_comes_to_a_running_turn_sees_that_it_runs() -> None:
    seen = Seen()
    assert seen.view.turn_since is None
    seen.happens(e.ModelRequested(model="m", attempt=1))
    assert seen.view.turn_since is not None


def test_a_long_output_of_ones_own_command_is_folded_and_can_be_expanded() -> None:
    seen = Seen()
    seen.view.ran(BangResult("seq 300", "".join(f"{n}\n" for n in range(1, 301)), 0))
    told = [line.strip() for line in seen.text().splitlines()]
    assert (told[0], told[-1]) == ("1", "300")
    assert "… 240 more lines: /expand" in told
    assert len(told) == 61
    assert seen.view.calls[-1].result.count("\n") == 299
    assert folded("a\nb", 2).plain == "a\nb"


# --- how it is drawn


def test_no_line_is_filled_up_with_spaces_and_blocks_begin_at_their_text() -> None:
    text = "# Title\n\nA *word*, `code`.\n\n```python\nx = 1\n```\n\n- one\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    plain = drawn(markdown(text), width=60, colours=False)
    assert all(line == line.rstrip() for line in plain.splitlines())
    assert plain.startswith("Title\n\nA word, code.\n\n  x = 1\n")
    assert drawn(markdown("- one"), width=60, colours=False) == " • one\n"
    coloured = drawn(markdown(text), width=60)
    assert "\x1b[40m" not in coloured  # no ground of our own
    assert "\x1b[1m" in coloured or "\x1b[1;" in coloured


PIECES = st.sampled_from(
    [
        "# ",
        "> ",
        "- ",
        "1. ",
        "`",
        "```",
        "**",
        "[",
        "](",
        ")",
        "<b>",
        "<!-- ",
        "|",
        "|---|\n",
        "\n",
        "\n\n",
        "    ",
        "a ",
    ]
)


@settings(max_examples=60, deadline=None)
@example(["> ", "- ", "<!-- ", "\n", ">"])
@given(st.lists(PIECES, max_size=30))
def test_anything_that_a_model_writes_can_be_drawn(parts: list[str]) -> None:
    drawn(markdown("".join(parts)), width=40)


def test_what_a_narrower_terminal_breaks_is_counted() -> None:
    screen = Screen()
    window = Window()
    for row, length in enumerate((100, 10, 0, 61)):
        for column in range(length):
            screen.data_buffer[row][column] = Char("x")
        screen.data_buffer[row][length + 5] = Char(" ")
    screen.set_cursor_position(window, Point(x=2, y=4))
    cursor = screen.get_cursor_position(window)
    assert rows_added(screen, cursor.x, cursor.y, 60) == 2
    assert rows_added(screen, cursor.x, cursor.y, 100) == 0
    assert rows_added(screen, 70, 0, 60) == 1
