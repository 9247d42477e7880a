"""Output that cannot be written: one sentence and an exit code, never a traceback on the way out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.terminal import Place, reply


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
