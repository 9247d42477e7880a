"""The log: names and numbers, never what was said."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import pytest

from outlast.app.logging_setup import JSON, TEXT, LogLineFormatter, error_fields, log_event, log_to
from outlast.core.errors import ConfigError, ModelRefused
from tests.support.logging_fixture import kept_logging

__all__ = ["kept_logging"]  # a fixture

CANARY = "canary-4711"


def record(msg: str, *args: object, name: str = "outlast.x", error: BaseException | None = None) -> logging.LogRecord:
    raised = None if error is None else (type(error), error, error.__traceback__)
    return logging.LogRecord(name, logging.WARNING, __file__, 7, msg, args, raised)


def line(found: logging.LogRecord) -> dict[str, Any]:
    return json.loads(LogLineFormatter(JSON, "vm:1").format(found))


@pytest.mark.usefixtures("kept_logging")
def test_an_event_is_one_json_line_with_its_facts(capsys: pytest.CaptureFixture[str]) -> None:
    log_to(sys.stderr, JSON)
    log_event(
        logging.getLogger("outlast.test"), logging.INFO, "turn.ended", session="abc", seq=4, turn=None, outcome="done"
    )
    logging.getLogger("others").info("not shown")
    [text] = capsys.readouterr().err.splitlines()
    found = json.loads(text)
    assert (found["level"], found["event"], found["session"], found["seq"]) == ("INFO", "turn.ended", "abc", 4)
    assert found["time"].endswith("Z")
    assert ":" in found["worker"]
    assert "turn" not in found


@pytest.mark.usefixtures("kept_logging")
def test_the_same_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    log_to(sys.stderr, TEXT)
    log_event(logging.getLogger("outlast.test"), logging.WARNING, "turn.trouble", session="abc", why='it is "so"')
    text = capsys.readouterr().err
    assert 'WARNING turn.trouble session=abc why="it is \\"so\\"" worker=' in text


def test_others_records_tell_where_they_come_from_and_not_what_they_say() -> None:
    found = line(record(f"failed: {CANARY}", name="uvicorn.error"))
    assert (CANARY in str(found), found["event"]) == (False, "uvicorn.error:test_logging_setup:7")
    assert CANARY not in str(line(record("it said %s", CANARY)))


def test_of_an_exception_its_kind_and_place_are_told_and_not_its_words() -> None:
    try:
        raise ValueError(CANARY)
    except ValueError as error:
        assert sys.exc_info()[0] is ValueError
        found = line(record("turn.broke", error=error))
    assert CANARY not in str(found)
    assert found["error"] == "ValueError"
    assert "test_logging_setup.py:" in found["raised_at"]


def test_only_errors_whose_words_are_our_own_are_quoted() -> None:
    assert error_fields(ConfigError("no model")) == {"error": "ConfigError", "why": "no model"}
    assert error_fields(ModelRefused(f"refused: {CANARY}")) == {"error": "ModelRefused"}
