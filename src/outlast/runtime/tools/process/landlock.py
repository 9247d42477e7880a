"""Landlock: the kernel denies a command every write outside the given folders, and reading the files of hidden ones.

The supervisor applies it in the child, just before it executes the program; it cannot be lifted, and every process the
program starts inherits it. From ABI version 6 on, the kernel also denies signals to processes outside, so that a
command cannot kill its supervisor or the agent. Not covered: the network, sockets of daemons that act for any client,
the names of hidden files, changes of mode, owner and times, and a hidden folder that is mounted a second time. This
module imports only the standard library, since every supervisor waits for it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_VERSION = 1
_PATH_BENEATH = 1
_NO_NEW_PRIVS, _DROP_CAPABILITY = 38, 24
_PERFMON, _SYS_ADMIN = 38, 21
_LIBC = ctypes.CDLL(None, use_errno=True)

_WRITE_FILE, _READ_FILE, _TRUNCATE, _REFER = 1 << 1, 1 << 2, 1 << 14, 1 << 13
_REMOVE_AND_MAKE = sum(1 << bit for bit in range(4, 13))
_SCOPE_SIGNAL = 1 << 1

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/shm")  # noqa: S108
"""Devices that programs write to, but not to keep data; /dev/shm holds POSIX semaphores."""


class Support:
    """Whether Landlock can be used. Falsy if it cannot; `reason` then says why."""

    def __init__(self, abi: int, reason: str) -> None:
        self.abi = abi
        self.reason = reason

    def __bool__(self) -> bool:
        return self.abi > 0


def available() -> Support:
    """Return what the kernel supports. The query changes nothing."""
    if sys.platform != "linux":
        return Support(0, f"Landlock is a part of Linux, and this is {sys.platform}")
    try:
        return Support(_syscall(_CREATE_RULESET, None, 0, _VERSION), "")
    except OSError as error:
        if error.errno == errno.EOPNOTSUPP:
            return Support(0, "Landlock is switched off; boot with lsm=landlock,... to have it")
        if error.errno == errno.ENOSYS:
            return Support(0, "this kernel has no Landlock; Linux 5.13 or newer has")
        return Support(0, f"Landlock cannot be used here: {error.strerror}")


def confine(writable: list[str], hidden: list[str] | None = None, shown: list[str] | None = None) -> None:
    """From now on this process and its children can write only beneath `writable` and to harmless devices, and cannot
    read files beneath `hidden`, except those beneath `shown`.

    Raises OSError if the sandbox cannot be applied; the caller must then not start the program.
    """
    support = available()
    if not support:
        raise OSError(errno.ENOSYS, support.reason)
    rights = _rights(support.abi)
    readable = _readable(hidden or [], shown or [])
    ruleset = _ruleset(support.abi, rights | (_READ_FILE if readable else 0))
    try:
        for path in (*writable, *DEVICES):
            _allow(ruleset, path, rights)
        for path in readable:
            _allow(ruleset, path, _READ_FILE)
        for capability in (_PERFMON, _SYS_ADMIN):  # either lets root read the environment of the agent, with its keys
            _LIBC.prctl(_DROP_CAPABILITY, capability, 0, 0, 0)  # an ordinary user has none: the call fails, as it may
        _LIBC.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
        _syscall(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _rights(abi: int) -> int:
    """Return every right to change something that this ABI version knows."""
    rights = _WRITE_FILE | _REMOVE_AND_MAKE
    if abi >= 2:
        rights |= _REFER
    if abi >= 3:
        rights |= _TRUNCATE
    return rights


def _readable(hidden: list[str], shown: list[str]) -> list[str]:
    """Return paths that cover every file outside the hidden folders, and those beneath `shown`; nothing if no folder
    can be hidden.

    Landlock only grants, and what it grants to a folder holds for everything beneath it. So each folder above a hidden
    one is replaced by its other entries. A file that is made there later, beside them, cannot be read by this command.
    A folder that contains a shown one, such as a project that contains the Outlast home, cannot be hidden in this way.
    """
    shown = [os.path.realpath(path) for path in shown]
    secret = {os.path.realpath(path) for path in hidden}
    secret = {path for path in secret if not any(f"{path}/".startswith(f"{place.rstrip('/')}/") for place in shown)}
    found = {"/"} if secret else set[str]()
    for path in secret:
        above = "/"
        for name in path.split("/")[1:]:
            if above in found:
                found.remove(above)
                found.update(_entries(above), [os.path.join(above, name)])
            above = os.path.join(above, name)
        found.discard(path)
    return [*found, *shown] if secret else []


def _entries(folder: str) -> list[str]:
    """Return the paths in a folder without links: what a link points to is granted at its own place, or not at all."""
    try:
        return [entry.path for entry in os.scandir(folder) if not entry.is_symlink()]
    except PermissionError:
        return []  # a folder that this user cannot list: only the way to the hidden one is known


def _ruleset(abi: int, rights: int) -> int:
    fields = (rights, 0, _SCOPE_SIGNAL) if abi >= 6 else (rights, 0) if abi >= 4 else (rights,)
    attributes = struct.pack(f"={len(fields)}Q", *fields)
    return _syscall(_CREATE_RULESET, attributes, len(attributes), 0)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return  # a path that is missing, or behind a folder that is closed to this user, needs no permission
    try:
        if rights != _READ_FILE and not os.path.isdir(f"/proc/self/fd/{beneath}"):
            rights &= _WRITE_FILE | _TRUNCATE  # the other rights apply only to folders
        _syscall(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, beneath), 0)
    finally:
        os.close(beneath)


def _syscall(number: int, *arguments: int | bytes | None) -> int:
    typed = [ctypes.c_long(a) if isinstance(a, int) else ctypes.c_char_p(a) for a in arguments]
    result = int(_LIBC.syscall(ctypes.c_long(number), *typed))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
