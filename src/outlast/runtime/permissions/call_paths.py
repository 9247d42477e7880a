"""The paths that a tool call names in its arguments, for rules and modes.

`read` of `output:CALL_ID` names no file: it shows the stored output of an earlier call of the session. A patch names
its files in lines such as `*** Update File: a.py`; `outlast.runtime.tools.files.patch` refuses a patch that would
touch any other file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

PATH_ARGUMENTS = ("file_path", "path")
"""The arguments that hold a path, of all built-in tools."""
OUTPUT_REFERENCE = "output:"
"""Where a path begins that names the stored output of a call, such as `output:call_1`, and no file."""
PATCH_HEADER = re.compile(r"\*\*\* (Add File|Update File|Delete File|Move to):[ \t]*([^\n]*?)[ \t\r]*$", re.MULTILINE)


def reads_stored_output(name: str, arguments: Mapping[str, Any]) -> bool:
    """Whether the call reads a stored output of its own session and no file."""
    path = arguments.get("file_path")
    return name == "read" and isinstance(path, str) and path.startswith(OUTPUT_REFERENCE)


def named_paths(name: str, arguments: Mapping[str, Any]) -> list[str]:
    """Return every path that the arguments name, as written."""
    if name == "apply_patch":
        patch = arguments.get("patch")
        return patch_paths(patch) if isinstance(patch, str) else []
    return [arguments[key] for key in PATH_ARGUMENTS if isinstance(arguments.get(key), str)]


def patch_paths(patch: str) -> list[str]:
    """Return the paths in the header lines of a patch, each once. A line that only looks like one counts, too."""
    found = (
        match[2] for match in PATCH_HEADER.finditer(patch) if match.start() == 0 or patch[match.start() - 1] == "\n"
    )
    return list(dict.fromkeys(found))
