"""Where a run happens: folders on a real disk, stores, a PostgreSQL of its own, and what is told meanwhile."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import msgspec

from bench.figures.server import Server
from outlast.core.errors import ConfigError
from outlast.store import open_store
from outlast.store.log_store import LogStore

STORES = ("sqlite", "files", "postgres")
IN_MEMORY = frozenset({"tmpfs", "ramfs"})


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """`scale` is how much of the full run is done: 1 for figures that count, less to see that it works."""

    stores: tuple[str, ...] = STORES
    only: tuple[str, ...] = ()
    folder: Path | None = None
    postgres_url: str | None = None
    rounds: int = 5
    scale: float = 1.0


class Lab:
    """Leaves nothing behind."""

    def __init__(self, options: Options, tell: Callable[[str], None] | None = None) -> None:
        self.options = options
        self.rounds = options.rounds
        self._tell = tell
        self._exit = ExitStack()
        self._server: Server | None = None
        self._filled: dict[tuple[str, int], tuple[str, str]] = {}
        self.root = Path(tempfile.mkdtemp(prefix="outlast-bench-", dir=_on_disk(options.folder)))
        self._exit.callback(shutil.rmtree, self.root, ignore_errors=True)

    def tell(self, text: str) -> None:
        if self._tell is not None:
            self._tell(text)

    def count(self, full: int, least: int = 1) -> int:
        """How many to do of what would be `full` in a whole run."""
        return max(least, round(full * self.options.scale))

    def folder(self) -> Path:
        """A new one."""
        return Path(tempfile.mkdtemp(dir=self.root))

    def server(self) -> Server:
        """The PostgreSQL of this run, started when it is first wanted. `Unavailable` says why there is none."""
        if self._server is None:
            self._server = self._exit.enter_context(Server(self.root, self.options.postgres_url))
        return self._server

    def url(self, kind: str) -> str:
        """Of a new, empty store."""
        match kind:
            case "sqlite":
                return f"sqlite:///{quote(str(self.folder()))}/bench.db"
            case "files":
                return f"files:///{quote(str(self.folder()))}/store"
            case _:
                return self.server().new_database()

    def filled(self, kind: str, messages: int, fill: Callable[[str], str]) -> tuple[str, str]:
        """URL and session of a store with so many messages. Filling it takes a while, so the workloads share it."""
        known = self._filled.get((kind, messages))
        if known is None:
            url = self.url(kind)
            known = self._filled[kind, messages] = (url, fill(url))
        return known

    @contextmanager
    def store(self, kind: str) -> Generator[LogStore]:
        with open_store(self.url(kind)) as store:
            yield store

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exit.close()


def _on_disk(given: Path | None) -> Path:
    """Where the files are made: a sync in memory costs nothing, and the figures would mean nothing."""
    places = [given] if given is not None else [Path(tempfile.gettempdir()), Path.cwd()]
    found = [place.resolve() for place in places if place.is_dir() and file_system(place.resolve()) not in IN_MEMORY]
    if not found:
        raise ConfigError(f"{places[0]} is not a directory on a disk; give one with --dir")
    return found[0]


def file_system(path: Path) -> str:
    """The kind that holds a path, '?' where the system does not tell."""
    try:
        mounts = Path("/proc/self/mounts").read_text()
    except OSError:
        return "?"
    found = [(Path(words[1].replace("\\040", " ")), words[2]) for words in map(str.split, mounts.splitlines())]
    over = [(point, kind) for point, kind in found if path == point or point in path.parents]
    return max(over, key=lambda mount: len(mount[0].parts))[1] if over else "?"
