"""Evidence in a folder, as JSON lines: so that a run can be judged again later, and by others."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.crash.evidence import Ack, ClientLog, Evidence, Head, Heard, Row, Stored

ROWS, HEADS, KEYS, ACKS, LOGS, LEFT = "rows", "heads", "keys", "acks", "logs", "left"


def keep(evidence: Evidence, folder: Path) -> None:
    """Write all of it down."""
    folder.mkdir(parents=True, exist_ok=True)
    stored = evidence.stored
    _write(folder / ROWS, (_text(row) for rows in stored.rows.values() for row in rows))
    _write(folder / HEADS, (_text(head) for head in stored.heads.values()))
    _write(folder / KEYS, ([*place, *leads] for place, leads in stored.keys.items()))
    _write(folder / ACKS, (list(ack) for ack in evidence.acks))
    _write(folder / LOGS, ([log.client, log.session_id, log.broken, log.heard] for log in evidence.logs))
    _write(folder / LEFT, [stored.chunks, evidence.witness, evidence.files])


def kept(folder: Path) -> Evidence:
    """The same evidence again."""
    stored = Stored({head.session_id: head for head in _heads(folder)})
    for row in map(_row, _read(folder / ROWS)):
        stored.rows.setdefault(row.session_id, []).append(row)
    stored.keys = {(scope, key): (session_id, seq) for scope, key, session_id, seq in _read(folder / KEYS)}
    stored.chunks, witness, files = _read(folder / LEFT)
    logs = [
        ClientLog(client, session_id, [Heard(*heard) for heard in all_heard], broken)
        for client, session_id, broken, all_heard in _read(folder / LOGS)
    ]
    return Evidence(stored, [Ack(*ack) for ack in _read(folder / ACKS)], logs, witness, files)


def _heads(folder: Path) -> Iterator[Head]:
    for values in _read(folder / HEADS):
        yield Head(*values)._replace(head_hash=base64.b64decode(values[4]))


def _row(values: list[Any]) -> Row:
    return Row(*values)._replace(body=base64.b64decode(values[10]), hash=base64.b64decode(values[11]))


def _text(values: Iterable[Any]) -> list[Any]:
    return [base64.b64encode(value).decode() if isinstance(value, bytes) else value for value in values]


def _write(path: Path, lines: Iterable[Any]) -> None:
    with path.with_suffix(".jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def _read(path: Path) -> list[Any]:
    with path.with_suffix(".jsonl").open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]
