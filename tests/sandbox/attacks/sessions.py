"""Ways from one session into another: /tmp, caches, sockets, ports and processes."""

from tests.sandbox.attack import Attack, Effect

_CROSS = (
    ("echo @mark@ > /tmp/shared", "cat /tmp/shared"),
    ("mkdir -p /tmp/d; echo @mark@ > /tmp/d/x", "grep -r . /tmp/d"),
    ("echo @mark@ > /var/tmp/shared", "cat /var/tmp/shared"),
    ("echo @mark@ > /dev/shm/shared", "cat /dev/shm/shared"),
    ("echo @mark@ > ${TMPDIR:-/tmp}/shared", "cat ${TMPDIR:-/tmp}/shared /tmp/shared"),
    ("mkdir -p ~/.cache/pip; echo @mark@ > ~/.cache/pip/x", "cat ~/.cache/pip/x"),
    ("mkdir -p ~/.cache/x; echo @mark@ > ~/.cache/x/y", "cat ~/.cache/x/y"),
    ("mkdir -p ~/.npm/_cacache; echo @mark@ > ~/.npm/_cacache/x", "cat ~/.npm/_cacache/x"),
    ("mkdir -p ~/.cargo/registry; echo @mark@ > ~/.cargo/registry/x", "cat ~/.cargo/registry/x"),
    ("mkdir -p ~/go/pkg/mod; echo @mark@ > ~/go/pkg/mod/x", "cat ~/go/pkg/mod/x"),
    ("mkdir -p ~/.m2/repository; echo @mark@ > ~/.m2/repository/x", "cat ~/.m2/repository/x"),
    ("echo @mark@ > @other@/README.md", "cat README.md"),
    ("echo @mark@ > /run/shared", "cat /run/shared"),
    ("mkdir -p ~/.local/share/x; echo @mark@ > ~/.local/share/x/y", "cat ~/.local/share/x/y"),
    ("setsid sleep 5.@mark@ >/dev/null 2>&1 & sleep 0.05", "ps ax; sleep 0.01"),
    ("ln -s x@mark@ /tmp/link", "readlink /tmp/link"),
    ("mkfifo /tmp/@mark@", "ls /tmp"),
    ("python3 -c \"import os, ctypes; l = ctypes.CDLL(None); l.shmget(@mark@ % 2**31, 4096, 0o1666)\"",
     "python3 -c \"import ctypes; l = ctypes.CDLL(None); print(str(@mark@) if l.shmget(@mark@ % 2**31, 0, 0) >= 0 else 'none')\""),
)  # fmt: skip

ATTACKS: list[Attack] = [
    Attack(
        id=f"other-sessions-{at:02d}", kind="other-sessions", effect=Effect.CROSSED, commands=(command,), elsewhere=then
    )
    for at, (command, then) in enumerate(_CROSS, 1)
]
