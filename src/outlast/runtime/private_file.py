"""Small private files of the user: settings, rules, consents, tokens, notes. Strict reads, atomic writes.

A file that exists but is unreadable or invalid is an error that names the file and a remedy; it never counts as
missing. Writes are atomic and durable, and readable by the owner only (mode 0600, new folders 0700). Two processes that
change a file under its lock do not lose each other's changes.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, cast

from outlast.core.errors import ConfigError

MOST_BYTES = 1 << 20
Table = dict[str, object]


def read_bytes(path: Path) -> bytes | None:
    """Return the content of a file; None only if the file does not exist."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); correct its permissions or remove it") from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise ConfigError(f"{path}: is not a regular file; replace it by one or remove it")
    with open(handle, "rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ConfigError(f"{path}: is larger than {MOST_BYTES >> 20} MiB; make it shorter")
    return content


def parsed(path: Path, content: bytes) -> Table:
    """Parse the JSON object in `content`. Duplicate keys, NaN, another encoding or another type are errors."""
    try:
        value: object = json.loads(content.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 text; save it as UTF-8 or remove it") from error
    except RecursionError as error:
        raise ConfigError(f"{path}: is nested too deeply; correct it or remove the file") from error
    except ValueError as error:
        raise ConfigError(f"{path}: is not valid JSON ({error}); correct it or remove the file") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: must hold one JSON object; write it as {{...}} or remove the file")
    return cast("Table", value)


def read_json(path: Path) -> Table | None:
    """Return the JSON object in a file; None only if the file does not exist."""
    content = read_bytes(path)
    return None if content is None else parsed(path, content)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key '{key}' appears twice")
        found[key] = value
    return found


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not a number of JSON")


def update_locked(path: Path, edit: Callable[[Table], Table]) -> None:
    """Durably replace the object in `path` with the result of `edit`, which gets `{}` if there is no file yet."""
    try:
        with locked(path):
            edited = edit(read_json(path) or {})
            replace(path, json.dumps(edited, indent=2, ensure_ascii=False).encode() + b"\n")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror}); correct its permissions") from error


@contextlib.contextmanager
def locked(path: Path) -> Generator[None]:
    """Hold the exclusive lock for changes of the file. The lock is a separate `.lock` file that stays in the folder.
    `OSError` is not translated."""
    make_private_folder(path.parent)
    handle = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def replace(path: Path, content: bytes) -> None:
    """Write the whole file; after a crash it has the old content or the new. `OSError` is not translated."""
    make_private_folder(path.parent)
    temporary = _written_beside(path, content)
    try:
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def create(path: Path, content: bytes) -> bool:
    """Write the whole file unless it exists; return whether this call wrote it. `OSError` is not translated."""
    make_private_folder(path.parent)
    temporary = _written_beside(path, content)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink()
    _sync_folder(path.parent)
    return True


def make_private_folder(folder: Path) -> None:
    """Create a folder and those above it that are missing, each for the owner only, whatever the umask.

    `Path.mkdir(mode=0o700, parents=True)` gives the mode to the last folder alone. `OSError` is not translated.
    """
    for missing in (*reversed(folder.parents), folder):
        missing.mkdir(mode=0o700, exist_ok=True)


def _written_beside(path: Path, content: bytes) -> Path:
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # 0600 from the start
    temporary = Path(name)
    try:
        with open(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(handle)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def _sync_folder(folder: Path) -> None:
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
