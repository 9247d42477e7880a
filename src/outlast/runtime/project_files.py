"""The files of a project as rewinding sees them: read, replaced and removed the way the file tools do it."""

from __future__ import annotations

import os
import threading

from outlast.runtime.kit import Kit
from outlast.runtime.tool_context import tool_context
from outlast.runtime.tools.place import Place, folder, locate
from outlast.runtime.tools.port import ToolFault
from outlast.runtime.tools.replacing import now, replace


class ProjectFiles:
    """Every path stays inside the roots; what may not be touched is an `OSError` with the reason."""

    def __init__(self, kit: Kit, session_id: str) -> None:
        self._context = tool_context(kit, session_id, "rewind")

    def read(self, path: str) -> bytes | None:
        try:
            found = now(self._place(path))
        except ToolFault as fault:
            raise OSError(str(fault)) from fault
        if found.data is None and found.digest != "absent":
            raise OSError("it is too large to be brought back")
        return found.data

    def write(self, path: str, data: bytes) -> None:
        try:
            place = self._place(path)
            replace(place, data, now(place).digest, self._context, threading.Event())
        except ToolFault as fault:
            raise OSError(str(fault)) from fault

    def remove(self, path: str) -> None:
        try:
            with folder(self._place(path)) as (here, name):
                os.unlink(name, dir_fd=here)
                os.fsync(here)
        except ToolFault as fault:
            raise OSError(str(fault)) from fault

    def _place(self, path: str) -> Place:
        return locate(path, self._context)
