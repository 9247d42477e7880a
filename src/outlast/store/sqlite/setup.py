"""Opens a SQLite database with the settings that durability needs, or refuses to; translates SQLite's errors.

In a process that has a connection, only SQLite may open the database's files: closing any descriptor of a file drops
all of the process's locks on it. So the file is created here before the first connection, and only `stat` is used
afterwards.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import apsw

from outlast.core.errors import OutlastError, StoreUnavailable
from outlast.store.process_identity import read_only_text, write_refusal
from outlast.store.sqlite.file_guard import lost_log

OLDEST = (3, 51, 3)
BUSY_MS = 10_000
REWRITTEN_AT_ONCE = 64 * 1024  # SQLite writes at most 128 KiB at a time
PAGE_SIZE = 2048  # an append changes several pages slightly: a third fewer bytes than with 4096, in the same time
APPLICATION_ID = 0x486F6C64  # stored in every existing database, so it must never change
VFS_NAME: str | None = None  # the fault tests set a VFS that simulates a failing disk
NETWORK = frozenset(
    {
        "nfs",
        "nfs4",
        "cifs",
        "smb",
        "smb2",
        "smb3",
        "smbfs",
        "9p",
        "afs",
        "ncpfs",
        "ceph",
        "glusterfs",
        "lustre",
        "afpfs",
    }
    | {"webdav", "davfs", "virtiofs", "vboxsf", "fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.rclone"}
)


def check_version(version: str | None = None) -> None:
    """Refuse SQLite 3.7.0 to 3.51.2, which can corrupt a WAL database used by several processes."""
    found = version or apsw.sqlite_lib_version()
    if tuple(int(part) for part in found.split(".")[:3]) < OLDEST:
        raise StoreUnavailable(
            f"SQLite {found} can corrupt databases (fixed in 3.51.3); install a current one: pip install -U apsw"
        )


def check_file_system(path: Path, mounts: str | None = None) -> None:
    """Refuse network file systems: a WAL needs shared memory, which they do not provide."""
    kind = file_system(path.parent, mounts)
    if kind in NETWORK:
        raise StoreUnavailable(
            f"{path} lies on a network file system ({kind}), where SQLite cannot keep its promises; "
            "use a local disk, or a postgresql:// store"
        )


def file_system(folder: Path, mounts: str | None = None) -> str:
    """Return the system's name for the file system type of a folder; '?' if it is unknown."""
    if sys.platform == "darwin":
        told = mounts or subprocess.run(["/sbin/mount"], capture_output=True, text=True, check=True).stdout
        found = [
            (line.split(" on ", 1)[1].split(" (")[0], line.split(" (")[1].split(",")[0]) for line in told.splitlines()
        ]
    else:
        told = mounts or Path("/proc/self/mountinfo").read_text()
        found = [(line.split()[4], line.split(" - ", 1)[1].split()[0]) for line in told.splitlines()]
    real = folder.resolve()
    over = [(Path(point.replace("\\040", " ")), kind) for point, kind in found]
    inside = [(point, kind) for point, kind in over if real == point or point in real.parents]
    return max(inside, key=lambda mount: len(mount[0].parts))[1] if inside else "?"


def create(path: Path) -> None:
    """Create the folder with mode 0700 and the file with 0600, because SQLite would apply the umask."""
    try:
        _make_folder(path.parent)
        check_plain(path)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        if not os.access(path, os.R_OK | os.W_OK):
            raise StoreUnavailable(write_refusal(path)) from None
    except OSError as error:
        if error.errno == errno.EROFS:
            raise StoreUnavailable(read_only_text(path)) from error
        raise StoreUnavailable(
            f"cannot create {path}: {error.strerror}; choose another place or fix its permissions"
        ) from error


def check_plain(path: Path) -> None:
    """Refuse an existing path that is not a regular file."""
    if path.is_dir():
        raise StoreUnavailable(f"{path} is a directory; a SQLite store is a file")
    if path.exists() and not path.is_file():
        raise StoreUnavailable(f"{path} is a device or a pipe; a SQLite store is a file, choose another path")


def _make_folder(folder: Path) -> None:
    """Create the folder and its parents with mode 0700; each parent is synced so that it survives a power cut."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, f"{folder} is not a folder") from None
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def connect(path: Path) -> apsw.Connection:
    """Open a connection with all settings that durability depends on."""
    with translated(path):
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=VFS_NAME)
        connection.set_busy_timeout(BUSY_MS)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)  # `SqliteDatabase.ready` enables it
        # Without it SQLite recompiles a statement that uses a partial index for each bound value.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA wal_autocheckpoint=0")
        connection.execute("PRAGMA trusted_schema=OFF")
        connection.execute("PRAGMA fullfsync=ON")
        connection.execute("PRAGMA checkpoint_fullfsync=ON")
        connection.execute("PRAGMA temp_store=MEMORY")
        return connection


def rewrite_log(path: Path) -> None:
    """Rewrite the WAL in place and sync it, so that all of it is on disk even if an earlier sync failed."""
    log = f"{path}-wal"
    if not os.path.exists(log):
        return
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_WAL
    file = apsw.VFSFile(VFS_NAME or "", log, [flags, 0])  # through SQLite, like every access to these files
    try:
        size = file.xFileSize()
        for at in range(0, size, REWRITTEN_AT_ONCE):
            file.xWrite(file.xRead(min(REWRITTEN_AT_ONCE, size - at), at), at)
        if size:
            file.xSync(apsw.SQLITE_SYNC_FULL)
    finally:
        file.xClose()


def identify(connection: apsw.Connection, path: Path) -> None:
    """Verify that the database is ours or empty, and put it into WAL mode."""
    with translated(path):
        tables = check_ours(connection, path)
        mode = connection.pragma("journal_mode")
        if mode != "wal":
            if not tables:
                connection.pragma("page_size", PAGE_SIZE)
            mode = connection.pragma("journal_mode", "wal")
        if mode != "wal":
            raise StoreUnavailable(f"{path} cannot be put into WAL mode (it is '{mode}'); use a local disk")


def check_ours(connection: apsw.Connection, path: Path) -> int:
    """Refuse another program's database; return the number of its schema objects."""
    # In this order: a process that is creating the database sets the application id before it creates tables.
    tables = cast("int", connection.execute("SELECT count(*) FROM sqlite_schema").get)
    application = connection.pragma("application_id")
    if application != APPLICATION_ID and tables:
        raise StoreUnavailable(f"{path} is a database of another program, not an Outlast store; choose another path")
    return tables


@contextmanager
def translated(path: Path) -> Generator[None]:
    """Raise SQLite's errors as `OutlastError`."""
    try:
        yield
    except (apsw.Error, UnicodeDecodeError) as error:
        raise translation(error, path) from error


def translation(error: Exception, path: Path) -> OutlastError:
    match error:
        case OutlastError():
            return error
        case apsw.NotADBError():
            text = f"{path} is not a SQLite database; choose another path, or restore it from a backup"
        case apsw.FullError():
            text = f"the disk that holds {path} is full; free some space, nothing that was acknowledged is lost"
        case apsw.CorruptError() | apsw.SQLError() | UnicodeDecodeError():
            text = f"{path} is damaged ({error}); `outlast verify` lists what, `outlast sessions export` saves the rest"
        case apsw.ReadOnlyError() | apsw.PermissionsError() | apsw.CantOpenError():
            text = f"{path} cannot be opened for writing ({error}); check its permissions and that its folder exists"
        case apsw.BusyError() | apsw.LockedError():
            text = f"{path} is locked by another program ({error}); close what has it open"
        case apsw.IOError():
            text = lost_log(error, path) or f"reading or writing {path} failed ({error}); check the disk"
        case _:
            text = f"{path}: {error}"
    return StoreUnavailable(text)
