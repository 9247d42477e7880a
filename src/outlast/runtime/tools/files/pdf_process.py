"""The process that reads the text of a PDF with pypdf. A file may be hostile: this process has a limit of memory and
time, and can be killed at any moment.

It receives a descriptor of the file and writes one line of JSON per page to standard output.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import signal
import sys
from typing import Any

MEMORY = 1024 * 1024 * 1024


def say(**fields: Any) -> None:
    """Write a line. Half of a character, which a PDF may well hold, becomes `?`: no reader of JSON takes it."""
    os.write(1, json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace") + b"\n")


def read_pages(file: int, first: int, last: int) -> None:
    from pypdf import PdfReader
    from pypdf.errors import PyPdfError

    logging.disable(logging.CRITICAL)
    try:
        with os.fdopen(file, "rb") as stream:
            reader = PdfReader(stream)
            if reader.is_encrypted and not reader.decrypt(""):
                say(fault="it is protected by a password")
                return
            say(pages=len(reader.pages))
            for number in range(first, min(last, len(reader.pages)) + 1):
                say(page=number, text=reader.pages[number - 1].extract_text())
    except (PyPdfError, ValueError, LookupError, TypeError, AttributeError, RecursionError, MemoryError) as error:
        say(fault=f"it is damaged or unusual ({type(error).__name__}: {error})")


def main() -> None:
    asked = json.loads(sys.stdin.buffer.read())
    signal.alarm(int(asked["seconds"]) + 2)  # ends this process even if its parent is gone
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    read_pages(int(asked["file"]), asked["first"], asked["last"])


if __name__ == "__main__":
    main()
