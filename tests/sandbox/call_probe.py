"""Makes system calls one by one, each in a child of its own, and reports what the kernel said.

Runs as `python -I -S call_probe.py FOLDER FILTER`: FOLDER holds `seccomp.py`; FILTER is `none`, `network`, `host` or
`unconnected`. Reads a JSON list of calls `[number, argument, ...]`; a text argument becomes a pointer to it. The call
-1 is `getpid` through the 32-bit table. Prints `[result, errno, signal]` per call.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import mmap
import os
import sys
from collections.abc import Callable

LIBC = ctypes.CDLL(None, use_errno=True)
GETPID_BY_THE_OLD_TABLE = b"\xb8\x14\x00\x00\x00\xcd\x80\xc3"  # mov eax, 20; int 0x80; ret


def call(number: int, arguments: list[int | str]) -> tuple[int, int]:
    if number == -1:
        page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        page.write(GETPID_BY_THE_OLD_TABLE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(page))
        return int(ctypes.CFUNCTYPE(ctypes.c_int)(start)()), 0
    typed = [ctypes.c_char_p(a.encode()) if isinstance(a, str) else ctypes.c_ulong(a % 2**64) for a in arguments]
    mine = os.getpid()
    result = int(LIBC.syscall(ctypes.c_long(number), *typed))
    if os.getpid() != mine:
        os._exit(0)  # the call created this process
    return result, ctypes.get_errno()


def probe(install: Callable[[bytes], None], program: bytes, number: int, arguments: list[int | str]) -> list[int]:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        if program:
            install(program)
        result, error = call(number, arguments)
        os.write(writer, f"{result} {error if result == -1 else 0}".encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        said = file.read()
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return [-1, 0, os.WTERMSIG(status)]
    return [*map(int, said.split()), 0]


if __name__ == "__main__":
    sys.path.append(sys.argv[1])
    seccomp = importlib.import_module("seccomp")
    filters = {"none": None, "network": (True, True), "host": (False, True), "unconnected": (False, False)}
    chosen = filters[sys.argv[2]]
    machine = os.uname().machine
    made: bytes = seccomp.filter_program(machine, network=chosen[0], connect=chosen[1]) if chosen else b""
    print(json.dumps([probe(seccomp.install, made, number, arguments) for number, *arguments in json.load(sys.stdin)]))
