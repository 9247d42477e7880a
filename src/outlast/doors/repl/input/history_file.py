"""What was typed before, kept in the Outlast home for its owner only."""

from __future__ import annotations

import os
from pathlib import Path

from prompt_toolkit.history import FileHistory, History, InMemoryHistory


class InputHistory(FileHistory):
    """A file of lines. It is a comfort: a full disk or a lost file must not keep anybody from speaking."""

    def store_string(self, string: str) -> None:
        try:
            super().store_string(string)
        except OSError:
            return  # this process still knows it, and what was said is in the log


def typed_before(path: Path) -> History:
    """In memory where the home cannot be written."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600))
    except OSError:
        return InMemoryHistory()
    return InputHistory(path)
