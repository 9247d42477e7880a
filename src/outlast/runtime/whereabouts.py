"""Where a turn runs: which folder of which machine. What a call did can only be looked at there."""

from __future__ import annotations

import os
from pathlib import Path

from outlast.store.host import hostname


def whereabouts(project: Path) -> str:
    """The machine and the real path of a project's folder on it, as one name."""
    return f"{hostname()}:{os.path.realpath(project)}"
