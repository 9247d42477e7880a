"""Shows a Jupyter notebook as text: its cells in order, each with its outputs, of limited length."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec

from outlast.runtime.tools.output_limit import bounded

LARGEST = 32 * 1024 * 1024
OUTPUT_SHOWN = 4000
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def notebook_text(data: bytes) -> str | None:
    """Return the text of a notebook; None if the bytes are not one."""
    try:
        notebook = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    cells = _list(_table(notebook).get("cells"))
    if not isinstance(notebook, dict) or not isinstance(cast("dict[str, Any]", notebook).get("cells"), list):
        return None
    lines = [f"[notebook with {len(cells)} cells; the line numbers are of this view, edit changes the file's JSON]"]
    for number, cell in enumerate(cells, 1):
        lines += _cell(number, _table(cell))
    return "\n".join(lines)


def _cell(number: int, cell: Mapping[str, Any]) -> Iterator[str]:
    kind = str(cell.get("cell_type", "unknown"))
    count = cell.get("execution_count")
    yield f"[cell {number}: {kind}{f', run {count}' if count is not None else ''}]"
    yield _joined(cell.get("source"))
    for output in _list(cell.get("outputs")):
        text = _output(_table(output))
        if text:
            yield f"[output of cell {number}]"
            yield bounded(text, OUTPUT_SHOWN)


def _output(output: Mapping[str, Any]) -> str:
    match output.get("output_type"):
        case "stream":
            return _plain(_joined(output.get("text")))
        case "error":
            trace = _joined([f"{line}\n" for line in _list(output.get("traceback"))])
            return _plain(trace) or f"{output.get('ename')}: {output.get('evalue')}"
        case _:
            return _data(_table(output.get("data")))


def _data(data: Mapping[str, Any]) -> str:
    """Return the plain text of a result, and name every picture in it."""
    said = [_plain(_joined(data["text/plain"]))] if "text/plain" in data else []
    for kind, value in data.items():
        if kind.startswith("image/"):
            said.append(f"[{kind}, {len(_joined(value)) * 3 // 4} bytes]")
    return "\n".join(said) or f"[{', '.join(data)}]" if data else ""


def _plain(text: str) -> str:
    return _COLOURS.sub("", text).rstrip("\n")


def _joined(value: object) -> str:
    """Return a notebook's text, which is one string or a list of lines."""
    if isinstance(value, list):
        return "".join(str(line) for line in cast("list[object]", value))
    return value if isinstance(value, str) else ""


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _table(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}
