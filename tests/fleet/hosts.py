"""Network namespaces as hosts: each with its own cable to the machine, which can be pulled."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Generator
from contextlib import ExitStack, contextmanager

import pytest

from tests.conftest import needs


class Host:
    """A namespace that reaches this machine under `server`, and nobody else."""

    def __init__(self, ip: str, number: int) -> None:
        self._ip = ip
        unique = f"{os.getpid() % 100_000}{number}"
        self.name = f"hf{unique}"
        self._cable, self._inside = f"hfo{unique}", f"hfi{unique}"
        net = f"10.{213 + number}.{os.getpid() % 250 + 1}"
        self.server, self._address = f"{net}.1", f"{net}.2"

    def make(self) -> None:
        self._run("netns", "add", self.name)
        self._run("link", "add", self._cable, "type", "veth", "peer", "name", self._inside, "netns", self.name)
        self._run("addr", "add", f"{self.server}/30", "dev", self._cable)
        self._run("link", "set", self._cable, "up")
        for words in (("addr", "add", f"{self._address}/30", "dev", self._inside), ("link", "set", self._inside, "up")):
            self._run("-n", self.name, *words)
        self._run("-n", self.name, "link", "set", "lo", "up")

    def remove(self) -> None:
        subprocess.run([self._ip, "netns", "del", self.name], capture_output=True, check=False)
        subprocess.run([self._ip, "link", "del", self._cable], capture_output=True, check=False)

    @property
    def inside(self) -> list[str]:
        """What a command there begins with."""
        return [self._ip, "netns", "exec", self.name]

    def pull(self) -> None:
        self._run("link", "set", self._cable, "down")

    def plug(self) -> None:
        self._run("link", "set", self._cable, "up")

    def _run(self, *words: str) -> None:
        subprocess.run([self._ip, *words], check=True, capture_output=True, text=True)


@contextmanager
def hosts(count: int) -> Generator[list[Host]]:
    """So many; skipped with the reason where they may not be made."""
    ip = needs("ip")
    made = [Host(ip, number) for number in range(count)]
    with ExitStack() as stack:
        for host in made:
            stack.callback(host.remove)
            try:
                host.make()
            except subprocess.CalledProcessError as error:
                pytest.skip(f"network namespaces may not be made here: {str(error.stderr).strip()}")
        yield made
