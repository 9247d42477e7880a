"""The working folder of shell commands, which is kept from call to call.

The shell of a command writes its last folder into a private file (`shell_start.bash`). The command can write anything
into that file, so its content is only a claim: `usable_folder` decides where a command starts, and accepts only a real
folder inside the roots. The judge of commands must be given the same folder, before the command runs.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Sequence
from pathlib import Path

from outlast.runtime.permissions.paths import inside
from outlast.runtime.tools.port import ShellFolder

START_FILE = Path(__file__).parent / "shell_start.bash"
FOLDER_FILE = "OUTLAST_FOLDER_FILE"
LONGEST = 4096
_CHANGES_FOLDER = re.compile(r"\b(cd|pushd|popd)\b")


def usable_folder(recorded: str | None, project: Path, roots: Sequence[Path]) -> ShellFolder:
    """Return where the next command starts: the recorded folder, or the project with a note that says why."""
    if recorded is None or recorded == os.path.realpath(project):
        return ShellFolder(path=project)
    fault = folder_fault(recorded, roots)
    if fault is None:
        return ShellFolder(path=Path(recorded))
    return ShellFolder(path=project, note=f"[started in the project's folder: {recorded} {fault}]")


def folder_fault(path: str, roots: Sequence[Path]) -> str | None:
    """Return why no command may start in this folder; None if one may."""
    if not inside(path, roots):
        return "is outside the folders of this session"
    if os.path.realpath(path) != path or not os.path.isdir(path):
        return "is gone"
    return None if os.access(path, os.X_OK) else "cannot be entered"


def is_project(folder: ShellFolder, project: Path) -> bool:
    return os.path.realpath(folder.path) == os.path.realpath(project)


class FolderReport:
    """The file into which one command reports its last folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / f".folder-{secrets.token_hex(8)}"

    def environment(self) -> dict[str, str]:
        """Return the variables that make bash report; none if bash would change the name of the start file."""
        if set(str(START_FILE)) & set("$`\\"):
            return {}
        return {"BASH_ENV": str(START_FILE), FOLDER_FILE: str(self.path)}

    def read(self) -> str | None:
        """Return the reported folder, and delete the file. None if there is no usable report."""
        try:
            file = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            data = os.read(file, LONGEST + 1) if stat.S_ISREG(os.fstat(file).st_mode) else b""
        finally:
            os.close(file)
        self.discard()
        path = data.removesuffix(b"\n")
        if len(data) > LONGEST or not path.startswith(b"/") or b"\0" in path:
            return None
        try:
            return path.decode()
        except UnicodeDecodeError:  # the log holds text only
            return None

    def discard(self) -> None:
        try:
            self.path.unlink(missing_ok=True)
        except OSError:  # the command made a folder of this name; it lies in the session's temporary folder
            return


def changes_folder(command: str) -> bool:
    """Whether the text of a command looks as if it changed the folder."""
    return _CHANGES_FOLDER.search(command) is not None
