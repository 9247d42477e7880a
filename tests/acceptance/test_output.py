"""Output that cannot be written: one sentence and an exit code, never a traceback on the way out."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.terminal import Place, reply


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.says(reply("An answer."))
    assert place.run("-p", "hello", "--model", place.model).returncode == 0
    return place


def run(place: Place, stdout: int, *words: str) -> tuple[int, str]:
    """With output that is collected, as it is unless somebody says otherwise."""
    environment = {name: value for name, value in place.environment().items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        [sys.executable, "-m", "outlast", *words],
        cwd=place.project,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("words", [("sessions", "list"), ("sessions", "list", "--json"), ("config", "get")])
def test_a_full_disk_is_told_in_one_line(place: Place, words: tuple[str, ...]) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        code, told = run(place, full, *words)
    finally:
        os.close(full)
    assert (code, told.count("\n")) == (1, 1), told
    assert told.startswith("outlast: ")
    assert "No space left on device" in told


def test_a_reader_that_has_seen_enough_is_told_nothing(place: Place) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        code, told = run(place, writing, "sessions", "list", "--json")
    finally:
        os.close(writing)
    assert code in (1, 141)  # typer's own, or ours
    assert told == ""


@pytest.mark.parametrize("words", [("sessions", "list"), ("sessions", "list", "--json"), ("hello", "--model", "none")])
@pytest.mark.parametrize("closed", [0, 1, 2])
def test_a_stream_that_was_closed_before_the_start_is_no_mistake(
    place: Place, closed: int, words: tuple[str, ...]
) -> None:
    command = ["sh", "-c", f'exec "$@" {closed}>&-', "sh", sys.executable, "-m", "outlast", *words]
    done = subprocess.run(
        command,
        cwd=place.project,
        env=place.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert bool(done.stdout) == (closed != 1)
    assert place.run("verify").returncode == 0


HOSTILE = "\x1b]0;title\x07\x1b]52;c;ZXZpbA==\x07\x1b[6n\x1b[2J\x9b31mred \u202eback"


def printed(place: Place, stdout: int, *words: str) -> None:
    place.says(reply(HOSTILE))
    code, told = run(place, stdout, "-p", "hello", "--model", place.model, *words)
    assert code == 0, told


def shown_in_a_terminal(place: Place, *words: str) -> bytes:
    ours, theirs = pty.openpty()
    try:
        printed(place, theirs, *words)
        return os.read(ours, 65536)
    finally:
        os.close(ours)
        os.close(theirs)


def test_m9_an_answer_cannot_steer_the_terminal(place: Place) -> None:
    shown = shown_in_a_terminal(place).decode()
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(shown)
    assert "<U+001B>]0;title<U+0007>" in shown


def test_m9_a_pipe_gets_the_answer_as_it_is(place: Place, tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as file:
        printed(place, file.fileno())
    assert (tmp_path / "out").read_bytes() == HOSTILE.encode() + b"\n"


def test_m9_json_in_a_terminal_holds_the_exact_answer(place: Place) -> None:
    shown = shown_in_a_terminal(place, "--output-format", "json")
    assert json.loads(shown)["answer"] == HOSTILE
    assert b"\x1b" not in shown
