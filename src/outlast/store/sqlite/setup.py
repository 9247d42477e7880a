"""Opening a SQLite database so that it keeps its promises, or refusing to.

Nobody but SQLite ever opens the database's files in a process that has a connection: closing any descriptor of a file
drops all of the process's locks on it. So the file is created here before the first connection, and only looked at with
`stat` afterwards.
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

OLDEST = (3, 51, 3)
BUSY_MS = 10_000
REWRITTEN_AT_ONCE = 64 * 1024  # SQLite writes at most 128 KiB at a time
PAGE_SIZE = 2048  # an append changes a little on several pages: a third less to write than with 4096, in the same time
APPLICATION_ID = 0x486F6C64  # in every store there is, so it never changes
VFS_NAME: str | None = None  # the fault tests put a disk here that fails
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
    """SQLite 3.7.0 to 3.51.2 can corrupt a WAL database that several processes use."""
    found = version or apsw.sqlite_lib_version()
    if tuple(int(part) for part in found.split(".")[:3]) < OLDEST:
        raise StoreUnavailable(
            f"SQLite {found} can corrupt databases (fixed in 3.51.3); install a current one: pip install -U apsw"
        )


def check_file_system(path: Path, mounts: str | None = None) -> None:
    """A write-ahead log needs shared memory, which network file systems do not have."""
    kind = file_system(path.parent, mounts)
    if kind in NETWORK:
        raise StoreUnavailable(
            f"{path} lies on a network file system ({kind}), where SQLite cannot keep its promises; "
            "use a local disk, or a postgresql:// store"
        )


def file_system(folder: Path, mounts: str | None = None) -> str:
    """The type of the file system that a folder lies on, as the system calls it; '?' when it cannot be told."""
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
    """The folder 0700 and the file 0600, before SQLite sees them (it would take the umask's)."""
    try:
        _make_folder(path.parent)
        check_plain(path)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        if not os.access(path, os.R_OK | os.W_OK):
            raise StoreUnavailable(f"no permission to read and write {path}; check its owner and mode") from None
    except OSError as error:
        raise StoreUnavailable(
            f"cannot create {path}: {error.strerror}; choose another place or fix its permissions"
        ) from error


def check_plain(path: Path) -> None:
    """Refuse what is there and can be no database."""
    if path.is_dir():
        raise StoreUnavailable(f"{path} is a directory; a SQLite store is a file")
    if path.exists() and not path.is_file():
        raise StoreUnavailable(f"{path} is a device or a pipe; a SQLite store is a file, choose another path")


def _make_folder(folder: Path) -> None:
    """It and those above it, 0700 each; a new folder outlives a power cut only once the one above it is synced."""
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
    """A connection with every setting that the promises rest on."""
    with translated(path):
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=VFS_NAME)
        connection.set_busy_timeout(BUSY_MS)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)  # only a writer that trusts the log may
        # Without it SQLite compiles a statement that uses a partial index anew for each value it is given.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA wal_autocheckpoint=0")
        connection.execute("PRAGMA trusted_schema=OFF")
        connection.execute("PRAGMA fullfsync=ON")
        connection.execute("PRAGMA checkpoint_fullfsync=ON")
        connection.execute("PRAGMA temp_store=MEMORY")
        return connection


def rewrite_log(path: Path) -> None:
    """Write the log once more over itself and sync it: then all of it is on the disk, whatever failed before."""
    log = f"{path}-wal"
    if not os.path.exists(log):
        return
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_WAL
    file = apsw.VFSFile(VFS_NAME or "", log, [flags, 0])  # through SQLite, as everything that touches these files
    try:
        size = file.xFileSize()
        for at in range(0, size, REWRITTEN_AT_ONCE):
            file.xWrite(file.xRead(min(REWRITTEN_AT_ONCE, size - at), at), at)
        if size:
            file.xSync(apsw.SQLITE_SYNC_FULL)
    finally:
        file.xClose()


def identify(connection: apsw.Connection, path: Path) -> None:
    """Make sure that this is our database (or an empty one, which becomes ours) in WAL mode."""
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
    """Refuse another program's database; how many tables, indexes and so on there are."""
    # In this order: whoever makes the database at this moment signs it before it has tables.
    tables = cast("int", connection.execute("SELECT count(*) FROM sqlite_schema").get)
    application = connection.pragma("application_id")
    if application != APPLICATION_ID and tables:
        raise StoreUnavailable(f"{path} is a database of another program, not an Outlast store; choose another path")
    return tables


@contextmanager
def translated(path: Path) -> Generator[None]:
    """SQLite's errors, in our words."""
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
            text = f"reading or writing {path} failed ({error}); check the disk"
        case _:
            text = f"{path}: {error}"
    return StoreUnavailable(text)
