"""Logging of server and worker processes: one line per event, as text or JSON.

    2026-01-31T12:00:00.000Z INFO turn.ended session=... seq=42 turn=t7 outcome=completed worker=host:4711

Promise: no line contains session content or a secret. Only names and numbers are logged; of an exception its type and
where it was raised, never its message; of records by other libraries only where they come from.
"""

from __future__ import annotations

import json
import logging
import os
import time
import traceback
from typing import Any, TextIO

from outlast.core.errors import (
    ConfigError,
    DamagedSession,
    MissingExtra,
    OutcomeUnknown,
    OutlastError,
    StaleLease,
    StoreUnavailable,
)
from outlast.store.process_identity import hostname

TEXT, JSON = "text", "json"
FACTS = "outlast_facts"
OURS = "outlast"
TOLD = (ConfigError, DamagedSession, MissingExtra, OutcomeUnknown, StaleLease, StoreUnavailable)
"""Errors whose messages are all our own: about settings, stores and leases, never about session content."""


def worker_name() -> str:
    """The name of this process in its log."""
    return f"{hostname()}:{os.getpid()}"


def log_event(log: logging.Logger, level: int, event: str, **facts: Any) -> None:
    """Log an event with its facts: names and numbers. Facts that are None are left out."""
    log.log(level, event, extra={FACTS: {name: value for name, value in facts.items() if value is not None}})


def error_fields(error: OutlastError) -> dict[str, str]:
    """The fields of an error that may be logged."""
    kind = type(error).__name__
    return {"error": kind, "why": str(error)} if isinstance(error, TOLD) else {"error": kind}


def log_to(stream: TextIO, form: str = TEXT, level: int = logging.INFO) -> None:
    """Log our own events from `level` on, and warnings of other libraries, to this stream."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LogLineFormatter(form, worker_name()))
    root = logging.getLogger()
    for before in root.handlers[:]:
        root.removeHandler(before)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger(OURS).setLevel(level)


class LogLineFormatter(logging.Formatter):
    def __init__(self, form: str, worker: str) -> None:
        super().__init__()
        self._form = form
        self._worker = worker

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
        line: dict[str, Any] = {"time": moment, "level": record.levelname, "event": _event(record)}
        line |= getattr(record, FACTS, {}) | _raised(record)
        line["worker"] = self._worker
        if self._form == JSON:
            return json.dumps(line, ensure_ascii=True, default=str)
        del line["time"], line["level"], line["event"]
        facts = "".join(f" {name}={_word(value)}" for name, value in line.items())
        return f"{moment} {record.levelname} {_event(record)}{facts}"


def _event(record: logging.LogRecord) -> str:
    if hasattr(record, FACTS):
        return record.msg
    is_ours = record.name == OURS or record.name.startswith(f"{OURS}.")
    # Our constant messages are event names; formatted messages and those of other libraries may contain anything.
    if is_ours and not record.args and isinstance(record.msg, str):
        return record.msg
    return f"{record.name}:{record.module}:{record.lineno}"


def _raised(record: logging.LogRecord) -> dict[str, Any]:
    if not record.exc_info or record.exc_info[0] is None:
        return {}
    kind, _, trace = record.exc_info
    frames = [f"{os.path.basename(frame.filename)}:{frame.lineno}" for frame in traceback.extract_tb(trace)]
    return {"error": kind.__name__, "raised_at": " ".join(frames[-12:])}


def _word(value: Any) -> str:
    text = str(value)
    plain = text.isprintable() and not any(mark in text for mark in ' "=')
    return text if plain and text else json.dumps(text)
