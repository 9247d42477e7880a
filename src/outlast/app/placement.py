"""Places: where the project of a session is, and which places this process offers.

A session is bound to a label (`POST /api/sessions {"place": ...}`) or, on a store shared by several machines, to the
machine that created it (`@` and its name) and the real path of its project there. A worker offers its own machine and
the labels it has a folder for; sessions without a place run wherever their folder exists. An imported session has the
folder in which a user continued it here; what its file says about folders does not count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from outlast.core.errors import ConfigError, InvalidInput
from outlast.core.header import Header
from outlast.core.state import SessionState
from outlast.runtime.imported_trust import BOUND, trusted_header
from outlast.store.log_store import LogStore
from outlast.store.process_identity import hostname
from outlast.store.read.decode import load_state

HOST = "@"
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_NOTHING: Mapping[str, Path] = MappingProxyType({})


class Placement:
    """The places offered here. `folders` maps labels to folders. For `@` and another machine's name, the folder stands
    for that machine's root directory: `@old=/` takes over the sessions of a removed machine, at the same paths."""

    def __init__(self, folders: Mapping[str, Path] = _NOTHING) -> None:
        self.folders = dict(folders)

    @classmethod
    def parse(cls, words: Sequence[str]) -> Placement:
        """Parse `LABEL=PATH` options."""
        found = {label: Path(path).expanduser().resolve() for label, path in spelled(words).items()}
        for label, folder in found.items():
            if not folder.is_dir():
                raise ConfigError(f"--place {label}: {folder} is not a folder; make it first, or correct the path")
        return cls(found)

    @property
    def offered(self) -> frozenset[str]:
        return frozenset({this_host(), *self.folders})

    def folder(self, header: Header, otherwise: Path) -> Path:
        """The session's project folder on this machine; `otherwise` if the session has no project. Raises `ConfigError`
        if the folder is not here."""
        found = self._named(header)
        if found is None:
            return otherwise
        if not found.is_dir():
            raise ConfigError(
                f"its project's folder {found} is not on this machine ({hostname()}); restore it, "
                "or run a worker on the machine that has it"
            )
        return found

    def _named(self, header: Header) -> Path | None:
        place, root = header.place, header.project_root
        if place in self.folders:
            folder = self.folders[place]
            if not place.startswith(HOST):
                return folder
            return folder / root.lstrip("/") if root else None
        if place is not None and place != this_host():
            raise ConfigError(f"the session is bound to the place '{place}', which is not offered here (--place)")
        return Path(root) if root else None


def placed(store: LogStore, header: Header) -> Header:
    """The header with the project that counts here. Reads the session's state only if it was imported."""
    return trusted_header(header, load_state(store, header.session_id)) if header.imported_seq else header


def binding(header: Header, state: SessionState, project: Path) -> dict[str, str]:
    """The runtime values that bind an imported session to the folder where a user continues it; usually none."""
    if not header.imported_seq or trusted_header(header, state).project_root == str(project):
        return {}
    return {BOUND: str(project)}


def spelled(words: Sequence[str]) -> dict[str, str]:
    """The path of each label; raises `ConfigError` for a malformed `LABEL=PATH`, without checking the file system."""
    found: dict[str, str] = {}
    for word in words:
        label, _, path = word.partition("=")
        if not path:
            raise ConfigError(f"--place {word}: write LABEL=PATH, like shop=/srv/shop")
        if not _LABEL.fullmatch(label.removeprefix(HOST)):
            raise ConfigError(f"--place {word}: a label has letters, digits, '.', '_' and '-', 64 at most")
        if label in found:
            raise ConfigError(f"--place {word}: {label} is {found[label]} already; a place has one folder here")
        found[label] = path
    return found


def this_host() -> str:
    return f"{HOST}{hostname()}"


def place_for(store: LogStore, label: str | None = None, *, here: bool = True) -> str | None:
    """The place of a new session: its label, or this machine if the store is shared with other machines and a worker
    runs `here`."""
    if label is not None:
        return checked(label)
    return this_host() if here and store.writes_elsewhere else None


def checked(label: str) -> str:
    if not _LABEL.fullmatch(label):
        raise InvalidInput("a place is a label of letters, digits, '.', '_' and '-', 64 at most")
    return label
