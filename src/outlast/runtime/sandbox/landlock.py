"""Landlock: the kernel keeps a command inside its folders where user namespaces are missing, as in most containers.

The supervisor applies it in the child, just before it executes the program; it cannot be lifted, and every process the
program starts inherits it. The command writes only beneath the given folders, cannot read hidden files, and keeps no
capability. From version 4 on it has no TCP, from 6 on it cannot signal processes outside or reach their abstract
sockets. The filter of system calls (`seccomp`) follows: it refuses network sockets, tracing and new namespaces.

Weaker than namespaces. Not covered: changes of mode, owner and times, the names of hidden files, a hidden folder that
is mounted a second time, and sockets that appear while the command runs. This module imports only the standard library
and its own folder, since every supervisor waits for it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
import sys

if __package__:
    from outlast.runtime.sandbox import seccomp, unix_sockets
else:  # the supervisor runs as `python -I -S` with this folder in its path
    import seccomp
    import unix_sockets

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_VERSION = 1
_PATH_BENEATH = 1
_NO_NEW_PRIVS, _DROP_CAPABILITY, _AMBIENT, _AMBIENT_CLEAR_ALL = 38, 24, 47, 4
_CAPABILITY_VERSION = 0x20080522
_LIBC = ctypes.CDLL(None, use_errno=True)

_WRITE_FILE, _READ_FILE, _TRUNCATE, _REFER, _IOCTL_DEVICE = 1 << 1, 1 << 2, 1 << 14, 1 << 13, 1 << 15
_REMOVE_AND_MAKE = sum(1 << bit for bit in range(4, 13))
_OF_FILES = _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE
"""The rights that a rule for a file can give; the others apply only to folders."""
_BIND_TCP, _CONNECT_TCP = 1 << 0, 1 << 1
_SCOPE_ABSTRACT_SOCKETS, _SCOPE_SIGNALS = 1 << 0, 1 << 1
UNASKED_ABI = 4
"""The first version that refuses TCP connections; with an older one, the user is asked about every command."""

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/shm")  # noqa: S108
"""Devices that programs write to, but not to keep data; /dev/shm holds POSIX semaphores."""


class Support:
    """Whether Landlock can be used. Falsy if it cannot; `reason` then says why."""

    def __init__(self, abi: int, reason: str) -> None:
        self.abi = abi
        self.reason = reason

    def __bool__(self) -> bool:
        return self.abi > 0

    @property
    def runs_unasked(self) -> bool:
        """Whether this wall is enough for commands that the user was not asked about."""
        return self.abi >= UNASKED_ABI and os.uname().machine in seccomp.MACHINES


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


def confine(
    writable: list[str], hidden: list[str] | None = None, shown: list[str] | None = None, network: bool = True
) -> None:
    """From now on this process and its children can write only beneath `writable` and to harmless devices, and cannot
    read files beneath `hidden`, except those beneath `shown`; of two nested paths, the inner one counts. `network`
    False leaves only Unix sockets, and none of those if a daemon outside listens on one.

    Raises OSError if the sandbox cannot be applied; the caller must then not start the program.
    """
    support = available()
    if not support:
        raise OSError(errno.ENOSYS, support.reason)
    program = _filter(network, [*writable, *(shown or [])])
    secret = _existing(hidden or [])
    rights = _rights(support.abi)
    readable = _without(secret, ["/", *(shown or [])]) if secret else []
    ruleset = _ruleset(support.abi, rights | (_READ_FILE if readable else 0), network)
    try:
        for path in (*_without(secret, writable), *DEVICES):
            _allow(ruleset, path, rights)
        for path in readable:
            _allow(ruleset, path, _READ_FILE)
        drop_capabilities()
        _LIBC.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
        _syscall(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    if program:
        seccomp.install(program)


def drop_capabilities() -> None:
    """Give up every capability for good. Root without any is refused what the modes of files refuse it, and cannot
    read the environment of the agent, with its keys. For an ordinary user, who has none, nothing changes."""
    for capability in range(64):
        _LIBC.prctl(_DROP_CAPABILITY, capability, 0, 0, 0)  # fails without the right to: then there is none to drop
    _LIBC.prctl(_AMBIENT, _AMBIENT_CLEAR_ALL, 0, 0, 0)
    header, none = struct.pack("=Ii", _CAPABILITY_VERSION, 0), bytes(24)
    if _LIBC.capset(header, none) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"the capabilities could not be dropped: {os.strerror(number)}")


def _filter(network: bool, allowed: list[str]) -> bytes:
    """Return the filter of system calls; nothing on a machine without one, where `network` must be True."""
    machine = os.uname().machine
    if machine not in seccomp.MACHINES and network:
        return b""
    connect = network or not unix_sockets.are_reachable(allowed)
    try:
        return seccomp.filter_program(machine, network=network, connect=connect)
    except ValueError as error:
        raise OSError(errno.ENOSYS, str(error)) from error


def _rights(abi: int) -> int:
    """Return every right to change something that this ABI version knows."""
    rights = _WRITE_FILE | _REMOVE_AND_MAKE
    if abi >= 2:
        rights |= _REFER
    if abi >= 3:
        rights |= _TRUNCATE
    if abi >= 5:
        rights |= _IOCTL_DEVICE
    return rights


def _existing(hidden: list[str]) -> list[str]:
    """Return the real paths of what there is to hide. The command cannot bring the others into being."""
    return sorted({os.path.realpath(path) for path in hidden if os.path.lexists(path)})


def _without(secret: list[str], granted: list[str]) -> list[str]:
    """Return paths that cover every granted folder, except what lies beneath `secret`, and what is granted inside that.

    Landlock only grants, and what it grants to a folder holds for everything beneath it. So each granted folder above a
    secret one is replaced by its other entries. A file that is made there later, beside them, is not granted: a project
    that contains a hidden folder gets no new files beside that folder.
    """
    granted = [os.path.realpath(path) for path in granted]
    found = set(granted)
    for path in secret:
        above = "/"
        for name in path.split("/")[1:] if path not in granted else ():
            below = os.path.join(above, name)
            if above in found:
                found.remove(above)
                found.update(entry for entry in (*_entries(above), below) if entry not in secret)
            above = below
    return sorted(found)


def _entries(folder: str) -> list[str]:
    """Return the paths in a folder without links: what a link points to is granted at its own place, or not at all."""
    try:
        return [entry.path for entry in os.scandir(folder) if not entry.is_symlink()]
    except (PermissionError, NotADirectoryError, FileNotFoundError):
        return []  # a folder that this user cannot list: only the way to the hidden one is known


def _ruleset(abi: int, rights: int, network: bool) -> int:
    ports = 0 if network else _BIND_TCP | _CONNECT_TCP
    scopes = _SCOPE_ABSTRACT_SOCKETS | _SCOPE_SIGNALS
    fields = (rights, ports, scopes) if abi >= 6 else (rights, ports) if abi >= 4 else (rights,)
    attributes = struct.pack(f"={len(fields)}Q", *fields)
    return _syscall(_CREATE_RULESET, attributes, len(attributes), 0)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return  # a path that is missing, or behind a folder that is closed to this user, needs no permission
    try:
        if not stat.S_ISDIR(os.fstat(beneath).st_mode):
            rights &= _OF_FILES
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
