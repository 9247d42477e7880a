"""Input history, kept in the Outlast home and readable only by its owner."""

from __future__ import annotations

import os
from pathlib import Path

from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from outlast.runtime.private_file import make_private_folder


class InputHistory(FileHistory):
    """A history file that ignores write errors: a full disk or a lost file must not block the input."""

    def store_string(self, string: str) -> None:
        try:
            super().store_string(string)
        except OSError:
            return  # the history in memory still has it, and messages are in the log


def typed_before(path: Path) -> History:
    """Open the history file, or keep the history in memory if the home cannot be written."""
    try:
        make_private_folder(path.parent)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600))
    except OSError:
        return InMemoryHistory()
    return InputHistory(path)
