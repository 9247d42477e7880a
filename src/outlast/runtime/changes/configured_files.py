"""Files of a project that its git configuration makes git obey: included files, and hooks in a folder of the project.

A command cannot write the configuration, but it can write what the configuration names: `include.path = ../.gitconfig`
or `core.hooksPath = scripts/hooks`. Such files are versioned, so they are treated like the others that programs obey
(`obeyed_files`). The text is read line by line and generously: a path too many only means a question.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from outlast.runtime.git_repository import GitRepository
from outlast.runtime.safe_open import read_inside

LIMIT = 1 << 20
_NAMED = re.compile(
    rb"(?:^|\])[ \t]*(?:hookspath|path|fsmonitor|attributesfile)[ \t]*=[ \t]*(\"[^\"\n]+\"|[^;#\"\n]+)",
    re.IGNORECASE | re.MULTILINE,
)


def configured_files(repository: GitRepository) -> tuple[Path, ...]:
    """Return the files and folders inside the working tree that the configuration of a repository names."""
    top = os.path.realpath(repository.top)
    found: dict[Path, None] = {}
    for folder, name in ((repository.common, "config"), (repository.folder, "config.worktree")):
        for value in _NAMED.findall(read_inside(folder, name, LIMIT) or b""):
            text = os.path.expanduser(os.fsdecode(value.strip(b'" \t\r')))
            for base in (top, str(folder)):  # hooks start at the working tree, included files at the configuration
                path = os.path.realpath(os.path.join(base, text)) if "\0" not in text else top
                inside = os.path.relpath(path, top).split(os.sep)[0]
                if inside not in (os.pardir, os.curdir, ".git"):
                    found[Path(path)] = None
    return tuple(found)
