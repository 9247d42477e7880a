"""The filter of system calls: which calls a sandboxed command may not make, as a classic BPF program for the kernel.

The filter refuses what no build or test needs and what has been used to leave a sandbox: other processes' memory,
mounts, namespaces, kernel modules, keyrings, io_uring, sockets of rare families. A refused call fails with an error
that programs handle; a call by another architecture's table kills the process, because its numbers mean other calls.
A call that is newer than these tables does not exist for the command.

`filter_program` makes the program from the tables below; bubblewrap installs it (`--seccomp`), or `install` does. This
module runs inside the sandbox (`python -I -S`), so it imports only the standard library.
"""

from __future__ import annotations

import errno
import struct

_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""The column of the tables and the number by which the kernel tells the architecture of a call."""
MACHINES = tuple(_ARCHITECTURES)
_X32 = 0x40000000
"""On x86_64, numbers from here on belong to the x32 tables."""
_NEWEST = 469

REFUSED: dict[str, tuple[int | None, int | None]] = {
    # the memory and descriptors of other processes
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    # mounts and namespaces
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "setns": (308, 268),
    "chroot": (161, 51),
    # the kernel itself
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "create_module": (174, None),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "lookup_dcookie": (212, 18),
    "nfsservctl": (180, 42),
    "uselib": (134, None),
    "_sysctl": (156, None),
    "syslog": (103, 116),
    "iopl": (172, None),
    "ioperm": (173, None),
    # keyrings, files by handle, watching every file
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "fanotify_init": (300, 262),
    # the machine
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "vhangup": (153, 58),
}
"""Calls that fail with EPERM: their numbers on x86_64 and aarch64, None where the architecture has no such call."""

MISSING: dict[str, tuple[int | None, int | None]] = {
    "clone3": (435, 435),  # its flags are behind a pointer; the C library falls back to clone
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}
"""Calls that fail with ENOSYS, as on an older kernel: programs then use another call."""

CHECKED: dict[str, tuple[int | None, int | None]] = {
    "clone": (56, 220),
    "unshare": (272, 97),
    "personality": (135, 92),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "ioctl": (16, 29),
    "prlimit64": (302, 261),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "connect": (42, 203),
}
"""Calls whose arguments decide."""

NEW_NAMESPACES = 0x7E020000
"""Every CLONE_NEW flag of clone. CLONE_NEWTIME shares its bit with the exit signal there; only unshare knows it."""
NEW_TIME_NAMESPACE = 0x80
PERSONALITIES = (0, 0x8, 0x20000, 0x20008, 0x40000, 0xFFFFFFFF)
"""Plain, 32-bit uname, old uname, both, no randomised addresses (thread sanitizers), and the query."""
TERMINAL_INPUT = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX put characters into the input of a terminal."""
_FORMAT, _CHARACTER_DEVICE, _BLOCK_DEVICE = 0xF000, 0x2000, 0x6000
_UNIX, _INET, _INET6, _NETLINK, _NETLINK_ROUTE = 1, 2, 10, 16, 0
_TYPE, _DATAGRAM, _RAW, _PACKET = 0xF, 2, 3, 10

_LOAD, _MASK, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_INSTRUCTION = struct.Struct("=HBBI")
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16


class Assembler:
    """Collects instructions with named jump targets. A jump without a target goes on with the next instruction."""

    def __init__(self) -> None:
        self._lines: list[tuple[int, int, str, str]] = []
        self._labels: dict[str, int] = {}

    def label(self, name: str) -> None:
        self._labels[name] = len(self._lines)

    def load(self, offset: int) -> None:
        self._lines.append((_LOAD, offset, "", ""))

    def load_argument(self, index: int, *, high: bool = False) -> None:
        """Load half of an argument. Both architectures are little-endian. The kernel itself reads only the low half of
        an int, so a check of an int must not look at the high one."""
        self.load(_ARGUMENTS_AT + 8 * index + 4 * high)

    def mask(self, bits: int) -> None:
        self._lines.append((_MASK, bits, "", ""))

    def if_equal(self, value: int, then: str = "", otherwise: str = "") -> None:
        self._lines.append((_EQUAL, value, then, otherwise))

    def if_at_least(self, value: int, then: str) -> None:
        self._lines.append((_AT_LEAST, value, then, ""))

    def if_any_bit(self, bits: int, then: str, otherwise: str = "") -> None:
        self._lines.append((_ANY_BIT, bits, then, otherwise))

    def jump(self, target: str) -> None:
        self.if_at_least(0, target)

    def give(self, name: str, action: int) -> None:
        """End the program with this action, at the label `name`."""
        self.label(name)
        self._lines.append((_RETURN, action, "", ""))

    def program(self) -> bytes:
        return b"".join(
            _INSTRUCTION.pack(code, self._distance(at, then), self._distance(at, otherwise), value)
            for at, (code, value, then, otherwise) in enumerate(self._lines)
        )

    def _distance(self, at: int, target: str) -> int:
        distance = self._labels[target] - at - 1 if target else 0
        if not 0 <= distance <= 255:
            raise ValueError(f"the jump to '{target}' spans {distance} instructions; BPF allows 0 to 255")
        return distance


def filter_program(machine: str, *, network: bool, connect: bool = True) -> bytes:
    """Return the filter for this machine (`os.uname().machine`) as an array of struct sock_filter.

    `network` False refuses every socket but Unix ones, for a command that shares the network of the host. `connect`
    False also refuses to connect Unix sockets: the kernel lets a filter see no path, so it is all of them or none."""
    if machine not in _ARCHITECTURES:
        raise ValueError(f"there is no system call filter for {machine}; there is one for x86_64 and aarch64")
    column, architecture = _ARCHITECTURES[machine]
    code = Assembler()
    code.load(_ARCHITECTURE_AT)
    code.if_equal(architecture, otherwise="kill")
    code.load(_NUMBER_AT)
    if machine == "x86_64":
        code.if_at_least(_X32, "kill")
    code.if_at_least(_NEWEST + 1, "missing")
    for table, target in ((REFUSED, "refuse"), (MISSING, "missing"), (CHECKED, "")):
        for name, numbers in table.items():
            number = numbers[column]
            if number is not None:
                code.if_equal(number, target or name)
    code.give("allow at once", _ALLOW)
    _check_processes(code)
    _check_devices(code)
    (_check_sockets if network else _check_unix_sockets)(code)
    code.label("connect")
    code.jump("allow" if network or connect else "no access")
    code.give("allow", _ALLOW)
    code.give("refuse", _ERRNO | errno.EPERM)
    code.give("missing", _ERRNO | errno.ENOSYS)
    code.give("no access", _ERRNO | errno.EACCES)
    code.give("no family", _ERRNO | errno.EAFNOSUPPORT)
    code.give("kill", _KILL)
    return code.program()


def _check_processes(code: Assembler) -> None:
    code.label("clone")
    code.load_argument(0)
    code.if_any_bit(NEW_NAMESPACES, "refuse", "allow")
    code.label("unshare")
    code.load_argument(0)
    code.if_any_bit(NEW_NAMESPACES | NEW_TIME_NAMESPACE, "refuse", "allow")
    code.label("personality")
    code.load_argument(0)
    for value in PERSONALITIES:
        code.if_equal(value, "allow")
    code.jump("refuse")
    code.label("prlimit64")  # a process may change its own limits and read those of others
    code.load_argument(0)
    code.if_equal(0, "allow")
    code.load_argument(2)
    code.if_equal(0, otherwise="refuse")
    code.load_argument(2, high=True)
    code.if_equal(0, "allow", "refuse")


def _check_devices(code: Assembler) -> None:
    for name, argument in (("mknod", 1), ("mknodat", 2)):
        code.label(name)
        code.load_argument(argument)
        code.mask(_FORMAT)
        code.if_equal(_CHARACTER_DEVICE, "refuse")
        code.if_equal(_BLOCK_DEVICE, "refuse", "allow")
    code.label("ioctl")
    code.load_argument(1)
    for request in TERMINAL_INPUT:
        code.if_equal(request, "refuse")
    code.jump("allow")


def _check_sockets(code: Assembler) -> None:
    """Allow Unix, internet and routing sockets; no raw ones, nor SOCK_PACKET, which the kernel turns into AF_PACKET."""
    code.label("socketpair")
    code.label("socket")
    code.load_argument(0)
    code.if_equal(_UNIX, "allow")
    code.if_equal(_INET, "internet")
    code.if_equal(_INET6, "internet")
    code.if_equal(_NETLINK, otherwise="no family")
    code.load_argument(2)
    code.if_equal(_NETLINK_ROUTE, "allow", "no family")
    code.label("internet")
    code.load_argument(1)
    code.mask(_TYPE)
    code.if_equal(_RAW, "refuse")
    code.if_equal(_PACKET, "refuse", "allow")


def _check_unix_sockets(code: Assembler) -> None:
    """Allow Unix stream and seqpacket sockets. A datagram socket, even one of a pair, sends to any path without
    connecting."""
    code.label("socketpair")
    code.label("socket")
    code.load_argument(0)
    code.if_equal(_UNIX, otherwise="no access")
    code.load_argument(1)
    code.mask(_TYPE)
    code.if_equal(_RAW, "no access")  # the kernel turns a raw Unix socket into a datagram one
    code.if_equal(_DATAGRAM, "no access", "allow")


def install(program: bytes) -> None:
    """Apply the filter to this thread and everything it starts from now on. Raises OSError if the kernel refuses it."""
    import ctypes
    import os

    libc = ctypes.CDLL(None, use_errno=True)
    no_new_privs, set_seccomp, filter_mode = 38, 22, 2
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HP", len(program) // _INSTRUCTION.size, ctypes.addressof(code))
    for arguments in ((no_new_privs, 1, 0, 0, 0), (set_seccomp, filter_mode, header, 0, 0)):
        typed = [ctypes.c_char_p(word) if isinstance(word, bytes) else ctypes.c_ulong(word) for word in arguments]
        if libc.prctl(ctypes.c_int(arguments[0]), *typed[1:]) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"the system call filter could not be installed: {os.strerror(number)}")
