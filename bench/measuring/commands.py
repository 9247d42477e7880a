"""Run command lines of a package in one process: `commands.py NAME`, one JSON list of words a line on stdin.

Each line is answered by `{"code", "out", "err"}`. It is what `python -m NAME WORDS` does, without the start.
"""

from __future__ import annotations

import io
import json
import runpy
import sys


def run(name: str, words: list[str]) -> dict[str, object]:
    """Run one command line and return what it printed and how it left."""
    kept = sys.argv, sys.stdin, sys.stdout, sys.stderr
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    sys.argv, sys.stdin, sys.stdout, sys.stderr = [name, *words], io.StringIO(), out, err
    code: object = 0
    try:
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    except SystemExit as leaving:
        code = leaving.code or 0
    finally:
        sys.argv, sys.stdin, sys.stdout, sys.stderr = kept
    return {"code": code, "out": _text(out), "err": _text(err)}


def _text(stream: io.TextIOWrapper) -> str:
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode("utf-8")


def main() -> None:
    """Answer line after line until stdin ends."""
    for line in sys.stdin:
        print(json.dumps(run(sys.argv[1], json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
