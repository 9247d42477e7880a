"""One file, one `write` and one `fdatasync` a message."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bench.figures.messages import plain


class BareFile:
    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def append(self) -> None:
        os.write(self._descriptor, plain() + b"\n")
        if sys.platform == "darwin":
            import fcntl

            fcntl.fcntl(self._descriptor, fcntl.F_FULLFSYNC)
        else:
            os.fdatasync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)
