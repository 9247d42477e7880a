"""Mounts, namespaces, kernel settings and objects that the machine's processes share."""

from tests.sandbox.attack import Attack, Effect, attacks
from tests.sandbox.canaries import Kernel

MOUNTS = (
    "mount -t tmpfs x @out@",
    "mount --bind src @out@",
    "mount --bind @out@ src",
    "mount -t proc x src",
    "mount -t tmpfs x /etc",
    "mount -t tmpfs x /tmp",
    "mount --bind README.md /etc/hosts",
    "mkdir u w; mount -t overlay x -o lowerdir=@out@,upperdir=u,workdir=w,userxattr @out@ || mount -t tmpfs x @out@",
    "mount -t tmpfs x @home@/.ssh",
    "mount --rbind src @out@/folder",
    "mount -t tmpfs x /usr/local/bin",
    "mount -t tmpfs x /opt",
    "cd src && mount -t tmpfs x .",
    "python3 -c \"import ctypes; ctypes.CDLL(None).mount(b'x', b'@out@', b'tmpfs', 0, None)\"",
    "python3 -c \"import ctypes; l = ctypes.CDLL(None); t = l.syscall(428, -100, b'src', 1); l.syscall(429, t, b'', -100, b'@out@', 4)\"",
)

NAMESPACES = (
    "unshare -r sh -c 'echo evil > @out@/canary.txt'",
    "unshare -rm sh -c 'mount --bind @out@ src && echo evil > src/canary.txt'",
    "unshare -rm sh -c 'mount -o remount,rw,bind @out@; echo evil > @out@/new.txt'",
    "unshare -rm sh -c 'mount -o remount,rw /; echo evil > /etc/evil'",
    "unshare -rmp --fork sh -c 'echo evil > @out@/canary.txt'",
    "unshare -rm sh -c 'umount -l @home@; echo evil > @home@/.bashrc'",
    "unshare -rm chroot / sh -c 'echo evil > @out@/canary.txt'",
    "chroot / sh -c 'echo evil > @out@/canary.txt'",
    "nsenter -t 1 -m sh -c 'echo evil > @out@/canary.txt' || nsenter -t 1 sh -c 'echo evil > @out@/canary.txt'",
    "nsenter -t @victim@ -a sh -c 'echo evil > @out@/new.txt' || nsenter -t @victim@ sh -c 'echo evil > @out@/new.txt'",
    "unshare -rU unshare -rUm sh -c 'mount --bind @out@ src; echo evil > src/new.txt'",
    "setpriv --bounding-set=+all sh -c 'echo evil > @out@/new.txt' || setpriv --nnp sh -c 'echo evil > @out@/new.txt'",
    "capsh --inh=cap_dac_override -- -c 'echo evil > @out@/new.txt' || capsh -- -c 'echo evil > @out@/new.txt'",
    "su -s /bin/sh -c 'echo evil > @out@/new.txt' || sh -c 'echo evil > @out@/new.txt'",
    "cp /bin/bash b; chmod 4755 b; ./b -pc 'echo evil > @out@/new.txt'",
    "python3 -c \"import ctypes, os; ctypes.CDLL(None).unshare(0x10020000); open('@out@/new.txt', 'w')\"",
    "python3 -c \"import ctypes, os; l = ctypes.CDLL(None); l.syscall(308, os.open('/proc/1/ns/mnt', 0), 0); os.chdir('@out@'); "
    "open('new.txt', 'w')\"",
    "python3 -c \"import ctypes, os; ctypes.CDLL(None).chroot(b'/'); os.chdir('@out@'); open('new.txt', 'w')\"",
)

_SYSCTL = tuple(
    f"v=$(cat /proc/sys/{name}); echo $((v == 1 ? 0 : v > 99999 ? 99999 : v / 2 + 1)) > /proc/sys/{name}"
    for name in Kernel.SETTINGS
)
_LIBC = "import ctypes; l = ctypes.CDLL(None); "

SETTINGS = (
    *_SYSCTL,
    "hostname evil",
    "python3 -c \"import socket; socket.sethostname('evil')\"",
    f"echo evil > /proc/sys/kernel/domainname || domainname evil || python3 -c \"{_LIBC}l.setdomainname(b'evil', 4)\"",
    "sysctl -qw net.ipv4.ip_forward=$((1 - $(cat /proc/sys/net/ipv4/ip_forward)))",
    "ip addr add 10.9.9.9/32 dev lo",
)

SHARED_OBJECTS = (
    "ipcrm -M 0x4f55",
    "ipcrm -Q 0x4f56",
    "ipcrm -S 0x4f57",
    "ipcrm --all=shm",
    "ipcmk -M 4096",
    "ipcmk -Q",
    f"python3 -c \"{_LIBC}l.shmat.restype = ctypes.c_void_p; ctypes.memmove(l.shmat(l.shmget(0x4F55, 0, 0), None, 0), b'evil', 4)\"",
    f'python3 -c "{_LIBC}l.msgsnd(l.msgget(0x4F56, 0), (ctypes.c_long * 2)(1, 1), 4, 2048)"',
    f'python3 -c "{_LIBC}l.semctl(l.semget(0x4F57, 1, 0), 0, 16, 7)"',
    f'python3 -c "{_LIBC}l.shmctl(l.shmget(0x4F55, 0, 0), 0, None)"',
    f'python3 -c "{_LIBC}l.shmget(0x4F59, 4096, 0o1666)"',
    "perl -e 'msgget(0x4f60, 01666)'",
)

ATTACKS: list[Attack] = [
    *attacks("mounts", Effect.KERNEL, MOUNTS),
    *attacks("namespaces", Effect.FILES, NAMESPACES),
    *attacks("kernel-settings", Effect.KERNEL, SETTINGS),
    *attacks("shared-objects", Effect.KERNEL, SHARED_OBJECTS),
]
