"""`outlast -p`: one turn for scripts. What is on stdout, what is on stderr, and which exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from outlast.core.events import InputAdmitted
from outlast.core.messages import TextPart
from outlast.store.port import Append, NewEvent, Query
from tests.support.terminal import Place, call, reply


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_the_answer_is_on_stdout_and_nothing_else(place: Place) -> None:
    place.says(reply("Forty-two."))
    done = place.run("-p", "What is it?", "--model", place.model)
    assert (done.returncode, done.stdout, done.stderr) == (0, "Forty-two.\n", "")


def test_stdin_is_the_prompt_or_its_context(place: Place) -> None:
    place.says(reply("First."), reply("Second."))
    assert place.run("--model", place.model, stdin="from a pipe").stdout == "First.\n"
    done = place.run("-c", "-p", "explain", "--model", place.model, "--output-format", "stream-json", stdin="line 1\n")
    admitted = [line for line in map(json.loads, done.stdout.splitlines()) if line["kind"] == "InputAdmitted"]
    assert admitted[0]["body"]["parts"][0]["text"] == "explain\n\n<stdin>\nline 1\n</stdin>"


def test_json_is_one_object_and_stream_json_is_every_event_with_its_seq(place: Place) -> None:
    place.says(reply("A text that comes in pieces.", delay_ms=900, usage={"input_tokens": 7, "output_tokens": 3}))
    done = place.run("-p", "go", "--model", place.model, "--output-format", "json")
    whole = json.loads(done.stdout)
    assert (whole["answer"], whole["outcome"], whole["cost"]) == ("A text that comes in pieces.", "completed", None)
    assert whole["usage"]["input_tokens"] == 7
    lines = [
        json.loads(line)
        for line in place.run("-p", "go", "--model", place.model, "--output-format", "stream-json").stdout.splitlines()
    ]
    assert lines[0] == {"kind": "session", "session_id": lines[-1]["session_id"]}
    durable = [line for line in lines if "seq" in line and line["kind"] not in {"delta", "result"}]
    assert [line["seq"] for line in durable] == list(range(1, len(durable) + 1))
    assert durable[-1]["kind"] == "TurnEnded"
    drafted = "".join(line["text"] for line in lines if line["kind"] == "delta")
    assert drafted
    assert "A text that comes in pieces.".startswith(drafted)
    assert lines[-1]["kind"] == "result"
    assert lines[-1]["last_seq"] == durable[-1]["seq"]


@pytest.mark.parametrize("output", ["text", "json"])
def test_the_answer_printed_is_the_one_to_its_own_prompt(place: Place, output: str) -> None:
    """A chat's message that comes meanwhile is answered by the same process, after its own."""
    place.says(reply("Mine, slowly said.", delay_ms=3000), reply("The other one."))
    running = place.start("-p", "go", "--model", place.model, "--output-format", output)
    with place.store() as store:
        _until(lambda: any(header.turn for header in store.find(Query()).headers), running)
        [header] = store.find(Query()).headers
        said = NewEvent(event=InputAdmitted(parts=(TextPart("and you?"),)), actor="user/telegram")
        store.commit(Append(session_id=header.session_id, events=(said,)))
        printed, _ = running.communicate(timeout=60)
        kinds = [row.kind for row in store.read(header.session_id)]
    assert running.returncode == 0
    assert kinds.count("TurnEnded") == 2, "the other message is answered, too"
    answer = json.loads(printed)["answer"] if output == "json" else printed.strip()
    assert answer == "Mine, slowly said."


def test_ended_and_busy_sessions_are_conflicts(place: Place) -> None:
    place.says(call("bash", command="touch started; sleep 60"), reply("Done."))
    busy = place.start("-p", "run", "--model", place.model, "--allow", "bash")
    try:
        _until((place.project / "started").exists, busy)
        refused = place.run("-p", "hello", "-c", "--model", place.model)
        assert (refused.returncode, "is driven by" in refused.stderr) == (4, True)
    finally:
        busy.terminate()
        busy.communicate(timeout=20)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGTERM])
def test_a_signal_stops_the_turn_durably_and_continue_goes_on(place: Place, number: int) -> None:
    place.says(call("bash", command="touch started; sleep 60"), reply("Went on."))
    running = place.start("-p", "run", "--model", place.model, "--allow", "bash")
    _until((place.project / "started").exists, running)
    running.send_signal(number)
    _, told = running.communicate(timeout=20)
    assert running.returncode == 5, told
    assert "the session is kept" in told
    went_on = place.run("-p", "-c", "--model", place.model)
    assert went_on.stdout == "Went on.\n", went_on.stderr
    assert "interrupted while running `touch started; sleep 60`; outcome unknown" in went_on.stderr


def test_a_killed_turn_goes_on_by_itself_with_continue(place: Place) -> None:
    place.says(call("bash", command="echo ran >> witness; sleep 60"), *[reply("Went on.")] * 8)
    running = place.start("-p", "run", "--model", place.model, "--allow", "bash")
    witness = place.project / "witness"
    _until(lambda: witness.exists() and witness.read_text() != "", running)  # made by the shell, then written
    os.kill(running.pid, signal.SIGKILL)
    running.communicate(timeout=20)
    went_on = place.run("-p", "-c", "--model", place.model)
    assert went_on.stdout == "Went on.\n", went_on.stderr
    assert "outcome unknown" in went_on.stderr
    assert (place.project / "witness").read_text() == "ran\n"


def _until(true: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + 20
    while not true():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.02)


def test_help_starts_in_at_most_two_and_a_half_times_the_time_of_importing_typer(place: Place) -> None:
    def seconds(*words: str) -> float:
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, *words], env=place.environment(), cwd=place.project, stdout=subprocess.DEVNULL, check=True
        )
        return time.perf_counter() - began

    bare, helped = ["-c", "import typer"], ["-m", "outlast", "--help"]
    for words in (bare, helped):
        seconds(*words)  # compiled once, as they would be where they are installed
    ratios = [seconds(*helped) / seconds(*bare) for _ in range(5)]
    assert min(ratios) <= 2.5, ratios
